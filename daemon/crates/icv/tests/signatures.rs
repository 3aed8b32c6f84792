//! Signing and verifying messages, and everything that must not verify.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use icv::{has_other_icv, is_hash_of, Claim, Fault, Signer, OVERHEAD};
use proptest::prelude::*;
use rfc5444::iana::{message, message_tlv};
use rfc5444::{forward_copy, AddressEntry, Message, Prefix, Tlv};

const ICV: u8 = icv::ICV_EXTENSION;
const TIMESTAMP: u8 = icv::TIMESTAMP_EXTENSION;

/// The seed of RFC 8032, section 7.1, test 1.
const SEED: [u8; 32] = [
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
];

/// A seed whose address is in fc00::/8, found by counting.
fn node(first: u8) -> (Signer, Ipv6Addr) {
    (0..=u16::MAX)
        .find_map(|count| {
            let mut seed = [first; 32];
            seed[..2].copy_from_slice(&count.to_be_bytes());
            let signer = Signer::new(&seed);
            let address = address_of(&signer);
            (address.octets()[0] == 0xfc).then_some((signer, address))
        })
        .expect("one of 256 keys has such an address")
}

/// The address by the overlay's own arithmetic.
fn address_of(signer: &Signer) -> Ipv6Addr {
    let key = cryptoauth::PublicKey::from_ed25519(&signer.public()).unwrap();
    Ipv6Addr::from(*key.address().octets())
}

fn tc(originator: IpAddr) -> Message {
    let mut tc = Message::new(message::TC, originator);
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(7));
    tc.tlvs.push(Tlv::new(message_tlv::VALIDITY_TIME, 0, [100]));
    tc.addresses
        .push(AddressEntry::new(Prefix::host(originator)));
    tc
}

fn claim(octets: &[u8]) -> Result<Option<Claim>, Fault> {
    Claim::read(&Message::decode(octets).unwrap().tlvs)
}

fn verify(octets: &[u8]) -> Result<u64, Fault> {
    let originator = Message::decode(octets).unwrap().originator.unwrap();
    let claim = claim(octets)?.expect("it is signed");
    claim.verify(originator, octets).map(|()| claim.counter)
}

#[test]
fn a_signed_message_verifies_and_keeps_its_content() {
    let (signer, address) = node(1);
    let plain = tc(address.into());
    let signed = signer.sign(&plain.encode().unwrap(), 5, 3).unwrap();
    assert_eq!(verify(&signed), Ok(5));
    assert_eq!(signed.len(), plain.encode().unwrap().len() + OVERHEAD);
    let mut content = Message::decode(&signed).unwrap();
    content.tlvs.truncate(1);
    assert_eq!(content, plain);
}

#[test]
fn the_octets_are_as_documented() {
    let (signer, address) = node(1);
    let signed = signer
        .sign(
            &tc(address.into()).encode().unwrap(),
            0x0102_0304_0506_0708,
            3,
        )
        .unwrap();
    let message = Message::decode(&signed).unwrap();
    assert_eq!(
        message.tlv(6, 252).unwrap().value,
        [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 3]
    );
    let value = &message.tlv(5, 252).unwrap().value;
    assert_eq!((value.len(), &value[..32]), (96, &signer.public()[..]));
}

#[test]
fn the_key_pair_is_that_of_rfc_8032() {
    let public = Signer::new(&SEED).public();
    assert_eq!(public[..4], [0xd7, 0x5a, 0x98, 0x01]);
    assert_eq!(public[28..], [0xf7, 0x07, 0x51, 0x1a]);
}

#[test]
fn a_relay_may_change_hop_limit_and_hop_count_alone() {
    let (signer, address) = node(1);
    let signed = signer
        .sign(&tc(address.into()).encode().unwrap(), 1, 3)
        .unwrap();
    let relayed = forward_copy(&forward_copy(&signed).unwrap()).unwrap();
    assert_eq!(verify(&relayed), Ok(1));
}

#[test]
fn every_other_octet_is_covered() {
    let (signer, address) = node(1);
    let signed = signer
        .sign(&tc(address.into()).encode().unwrap(), 1, 3)
        .unwrap();
    let hops = 4 + 16..4 + 16 + 2;
    // RFC 7182 leaves the ICV TLV itself out. Its value cannot change; a reserved flag can.
    let flags = signed
        .windows(4)
        .position(|octets| octets == [5, 0x90, 252, 96])
        .unwrap()
        + 1;
    let covered = (0..signed.len()).filter(|index| !hops.contains(index) && *index != flags);
    for index in covered {
        let mut changed = signed.clone();
        changed[index] ^= 1;
        let Ok(message) = Message::decode(&changed) else {
            continue;
        };
        let Some(originator) = message.originator else {
            continue;
        };
        if let Ok(Some(claim)) = Claim::read(&message.tlvs) {
            assert!(claim.verify(originator, &changed).is_err(), "octet {index}");
        }
    }
}

#[test]
fn a_message_that_ends_too_early_covers_nothing() {
    let (signer, address) = node(1);
    let message = tc(address.into()).encode().unwrap();
    let signed = signer.sign(&message, 1, 3).unwrap();
    let addresses = signed.len() - (message.len() - (4 + 16 + 4 + 2 + 4));
    for length in 0..signed.len() {
        // Its own size says that it is whole.
        let mut short = signed[..length].to_vec();
        if length >= 4 {
            short[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        }
        let covered = rfc5444::covered_octets(&short);
        assert_eq!(covered.is_err(), length < addresses, "{length}");
    }
}

#[test]
fn nobody_speaks_for_the_address_of_another_key() {
    let ((signer, own), (_, victim)) = (node(1), node(2));
    let forged = signer
        .sign(&tc(victim.into()).encode().unwrap(), 1, 3)
        .unwrap();
    assert_eq!(verify(&forged), Err(Fault::Address));
    // The locator of the own address is as good as the address, that of the victim is not.
    for (of, verdict) in [(own, Ok(1)), (victim, Err(Fault::Address))] {
        let mut octets = of.octets();
        octets[0] = 0xfd;
        let locator = IpAddr::from(octets);
        let message = signer.sign(&tc(locator).encode().unwrap(), 1, 3).unwrap();
        assert_eq!(verify(&message), verdict);
    }
}

#[test]
fn an_originator_that_is_no_hash_is_bound_by_the_signature() {
    let (signer, _) = node(1);
    for originator in [
        IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)),
        "2001:db8::1".parse().unwrap(),
    ] {
        let signed = signer
            .sign(&tc(originator).encode().unwrap(), 1, 3)
            .unwrap();
        assert_eq!(verify(&signed), Ok(1));
    }
}

#[test]
fn the_signature_of_another_message_is_false() {
    let (signer, address) = node(1);
    let tc = tc(address.into());
    let signed = signer.sign(&tc.encode().unwrap(), 1, 3).unwrap();
    let mut hello = Message::decode(&signed).unwrap();
    hello.typ = message::HELLO;
    assert_eq!(verify(&hello.encode().unwrap()), Err(Fault::Signature));
    let mut counted = Message::decode(&signed).unwrap();
    counted.tlvs[1].value[7] = 2;
    assert_eq!(verify(&counted.encode().unwrap()), Err(Fault::Signature));
}

#[test]
fn tlvs_of_every_other_length_are_refused() {
    let (signer, address) = node(1);
    let signed = signer
        .sign(&tc(address.into()).encode().unwrap(), 1, 3)
        .unwrap();
    let message = Message::decode(&signed).unwrap();
    for (index, right) in [(1, 12), (2, 96)] {
        for length in (0..=300).chain([65_000]).filter(|length| *length != right) {
            let mut wrong = message.clone();
            wrong.tlvs[index].value.resize(length, 0);
            assert_eq!(Claim::read(&wrong.tlvs), Err(Fault::Length(length)));
        }
    }
}

#[test]
fn one_tlv_without_the_other_and_two_of_one_are_refused() {
    let (signer, address) = node(1);
    let signed = signer
        .sign(&tc(address.into()).encode().unwrap(), 1, 3)
        .unwrap();
    let tlvs = Message::decode(&signed).unwrap().tlvs;
    for without in [1, 2] {
        let mut fewer = tlvs.clone();
        fewer.remove(without);
        assert_eq!(Claim::read(&fewer), Err(Fault::Count));
        let mut more = tlvs.clone();
        more.push(tlvs[without].clone());
        assert_eq!(Claim::read(&more), Err(Fault::Count));
    }
}

#[test]
fn other_type_extensions_are_no_signature_and_do_not_spoil_one() {
    let (signer, address) = node(1);
    let mut message = tc(address.into());
    for ext in (0..=255).filter(|ext| *ext != ICV) {
        message
            .tlvs
            .push(Tlv::new(message_tlv::TIMESTAMP, ext, [1]));
        message.tlvs.push(Tlv::new(message_tlv::ICV, ext, [1]));
    }
    assert_eq!((ICV, TIMESTAMP), (252, 252));
    let encoded = message.encode().unwrap();
    assert_eq!(claim(&encoded), Ok(None));
    assert_eq!(verify(&signer.sign(&encoded, 1, 3).unwrap()), Ok(1));
}

#[test]
fn the_essence_of_a_message_is_what_is_signed_and_by_whom() {
    let (signer, address) = node(1);
    let signed = signer.sign(&tc(address.into()).encode().unwrap(), 1, 3);
    let message = Message::decode(&signed.unwrap()).unwrap();
    let essence = |message: &Message| {
        let octets = message.encode().unwrap();
        let claim = Claim::read(&message.tlvs).unwrap().unwrap();
        claim.essence(&octets).unwrap()
    };
    let mut same = message.clone();
    (same.hop_limit, same.hop_count) = (Some(1), Some(9));
    same.tlvs
        .insert(0, Tlv::new(message_tlv::ICV, 7, [1, 2, 3]));
    assert_eq!(essence(&same), essence(&message));
    assert!(has_other_icv(&same.tlvs) && !has_other_icv(&message.tlvs));
    let icv = message
        .tlvs
        .iter()
        .position(|tlv| tlv.is(message_tlv::ICV, ICV));
    // The last one of the key, and the first and the last one of the signature.
    for octet in [31, 32, 95] {
        let mut other = message.clone();
        other.tlvs[icv.unwrap()].value[octet] ^= 1;
        assert_ne!(essence(&other), essence(&message), "{octet}");
    }
    let mut later = message.clone();
    later.seq = Some(999);
    assert_ne!(essence(&later), essence(&message));
}

#[test]
fn keys_of_small_order_and_off_the_curve_are_refused() {
    // The points of order 1, 2 and 4, and a y coordinate without an x.
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut order_two = [0xff; 32];
    (order_two[0], order_two[31]) = (0xec, 0x7f);
    let mut off_curve = [0; 32];
    off_curve[0] = 2;
    for key in [identity, order_two, [0; 32], off_curve] {
        let mut message = tc(IpAddr::from([10, 0, 0, 1]));
        let mut value = key.to_vec();
        value.resize(96, 0);
        message
            .tlvs
            .push(Tlv::new(message_tlv::TIMESTAMP, TIMESTAMP, [0; 12]));
        message.tlvs.push(Tlv::new(message_tlv::ICV, ICV, value));
        assert_eq!(
            verify(&message.encode().unwrap()),
            Err(Fault::Key),
            "{key:?}"
        );
    }
}

#[test]
fn keys_that_look_like_the_end_of_the_field_are_keys() {
    // One in 13, one in 128 and one in 1700 keys, found by counting.
    let cases: [fn(&[u8; 32]) -> bool; 3] = [
        |key| key[0] >= 0xed,
        |key| key[31] & 0x7f == 0x7f,
        |key| key[0] >= 0xed && key[31] & 0x7f == 0x7f,
    ];
    for case in cases {
        let mut signers = (0..=u16::MAX).map(|count| {
            let mut seed = [3; 32];
            seed[..2].copy_from_slice(&count.to_be_bytes());
            Signer::new(&seed)
        });
        let signer = signers.find(|signer| case(&signer.public())).unwrap();
        let message = tc(IpAddr::from([10, 0, 0, 1])).encode().unwrap();
        assert_eq!(verify(&signer.sign(&message, 1, 3).unwrap()), Ok(1));
    }
}

#[test]
fn the_hash_of_a_key_is_that_of_the_overlay() {
    for number in 1..4 {
        let (signer, address) = node(number);
        assert_eq!(icv::address_of(&signer.public()), Some(address));
    }
    // Its y coordinate has no x.
    let mut off_curve = [0; 32];
    off_curve[0] = 2;
    assert_eq!(icv::address_of(&off_curve), None);
}

#[test]
fn an_address_outside_fc00_is_nobodys_hash() {
    let signer = Signer::new(&SEED);
    let address = address_of(&signer);
    assert_ne!(address.octets()[0], 0xfc, "the case is about such a key");
    assert!(!is_hash_of(address, &signer.public()));
    let (signer, address) = node(3);
    assert!(is_hash_of(address, &signer.public()));
    assert!(!is_hash_of(address, &[2; 32]));
}

#[test]
fn a_signer_is_never_formatted() {
    assert_eq!(format!("{:?}", Signer::new(&SEED)), "Signer");
}

#[test]
fn a_message_that_would_become_too_long_is_refused() {
    let mut message = tc(IpAddr::from([10, 0, 0, 1]));
    message.tlvs.push(Tlv::new(200, 0, vec![0; 60_000]));
    let excess = usize::from(u16::MAX) - OVERHEAD - message.encode().unwrap().len();
    for (more, fits) in [(0, true), (1, false), (OVERHEAD, false)] {
        message.tlvs[1].value.resize(60_000 + excess + more, 0);
        let encoded = message.encode().unwrap();
        let signed = Signer::new(&SEED).sign(&encoded, 1, 3);
        assert_eq!(signed.is_ok(), fits, "{}", encoded.len() + OVERHEAD);
        assert!(signed.is_err() || verify(&signed.unwrap()) == Ok(1));
    }
}

proptest! {
    #[test]
    fn random_tlvs_and_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = rfc5444::covered_octets(&octets);
        if let Ok(message) = Message::decode(&octets) {
            if let (Ok(Some(claim)), Some(originator)) = (Claim::read(&message.tlvs), message.originator) {
                prop_assert!(claim.verify(originator, &octets).is_err());
            }
        }
    }
}
