//! Whatever is signed verifies, and nothing that says something else does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use icv::{Claim, Signer};
use proptest::prelude::*;
use rfc5444::iana::message_tlv;
use rfc5444::{AddressEntry, EncodeError, Message, Prefix, Tlv};

/// Any message whose originator is no hash.
fn any_message() -> impl Strategy<Value = Message> {
    let tlv = (
        7..=255_u8,
        any::<u8>(),
        prop::collection::vec(any::<u8>(), 0..20),
    );
    (
        any::<u8>(),
        any::<u32>(),
        any::<bool>(),
        any::<Option<u8>>(),
        any::<Option<u16>>(),
        prop::collection::vec(tlv, 0..4),
        prop::collection::vec(any::<u32>(), 0..4),
    )
        .prop_map(
            |(typ, originator, is_v4, hop_limit, seq, tlvs, addresses)| {
                let address = |low: u32| match is_v4 {
                    true => IpAddr::from(Ipv4Addr::from_bits(low)),
                    false => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)).into(),
                };
                let mut message = Message::new(typ, address(originator));
                (message.hop_limit, message.seq) = (hop_limit, seq);
                message.tlvs = tlvs
                    .into_iter()
                    .map(|(typ, ext, value)| Tlv::new(typ, ext, value))
                    .collect();
                message.addresses = addresses
                    .into_iter()
                    .map(|low| AddressEntry::new(Prefix::host(address(low))))
                    .collect();
                message
            },
        )
}

/// Returns what is read of octets that verify.
fn verified(octets: &[u8]) -> Option<(Message, Claim)> {
    let message = Message::decode(octets).ok()?;
    let claim = Claim::read(&message.tlvs).ok()??;
    claim.verify(message.originator?, octets).ok()?;
    Some((message, claim))
}

/// A message as its originator has sent it: relays change the rest.
fn lasting(mut message: Message) -> Message {
    message.hop_limit = message.hop_limit.map(|_| 0);
    message.hop_count = message.hop_count.map(|_| 0);
    message.tlvs.retain(|tlv| tlv.typ != message_tlv::ICV);
    message
}

proptest! {
    #[test]
    fn what_is_no_message_is_refused_and_not_signed(
        message in any_message(), cut in any::<prop::sample::Index>(), octets in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        let (signer, whole) = (Signer::new(&[1; 32]), message.encode().unwrap());
        let cut = &whole[..cut.index(whole.len())];
        prop_assert!(matches!(signer.sign(cut, 1, 0), Err(EncodeError::Message(_))));
        // Arbitrary octets, and those that begin as a message does.
        for octets in [octets.clone(), [&whole[..2], &octets].concat()] {
            let signed = signer.sign(&octets, 1, 0);
            prop_assert!(Message::decode(&octets).is_err() || signed.is_ok());
        }
    }

    #[test]
    fn whatever_is_signed_verifies_and_says_the_same(
        message in any_message(), seed in any::<[u8; 32]>(), counter in any::<u64>(), age in any::<u32>()
    ) {
        let signer = Signer::new(&seed);
        let signed = signer.sign(&message.encode().unwrap(), counter, age).unwrap();
        let (read, claim) = verified(&signed).expect("it is signed");
        prop_assert_eq!((claim.key, claim.counter, claim.age), (signer.public(), counter, age));
        prop_assert_eq!(claim.floor(), counter.saturating_sub(age.into()));
        let mut content = read;
        content.tlvs.truncate(message.tlvs.len());
        prop_assert_eq!(content, message);
    }

    #[test]
    fn what_was_changed_on_the_way_says_the_same_or_nothing(
        message in any_message(), index in any::<prop::sample::Index>(), change in 1..=255_u8
    ) {
        let signed = Signer::new(&[1; 32]).sign(&message.encode().unwrap(), 9, 2).unwrap();
        let (sent, claim) = verified(&signed).expect("it is signed");
        let mut changed = signed.clone();
        changed[index.index(signed.len())] ^= change;
        if let Some((read, of_read)) = verified(&changed) {
            prop_assert_eq!(of_read, claim);
            prop_assert_eq!(lasting(read), lasting(sent));
        }
    }

    #[test]
    fn a_signature_that_somebody_makes_up_is_false(
        message in any_message(), value in any::<[u8; 32]>(), tail in any::<[[u8; 32]; 2]>()
    ) {
        let victim = Signer::new(&value).public();
        let mut forged = message;
        forged.tlvs.push(Tlv::new(message_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION, [0; 12]));
        let icv = [victim, tail[0], tail[1]].concat();
        forged.tlvs.push(Tlv::new(message_tlv::ICV, icv::ICV_EXTENSION, icv));
        prop_assert!(verified(&forged.encode().unwrap()).is_none());
    }

    #[test]
    fn the_signature_of_one_message_is_none_of_another(
        one in any_message(), other in any_message()
    ) {
        prop_assume!(lasting(one.clone()) != lasting(other.clone()));
        let signer = Signer::new(&[1; 32]);
        let signed = signer.sign(&one.encode().unwrap(), 9, 2).unwrap();
        let tlvs = Message::decode(&signed).unwrap().tlvs;
        let mut moved = other;
        moved.tlvs.extend(tlvs[one.tlvs.len()..].iter().cloned());
        prop_assert!(verified(&moved.encode().unwrap()).is_none());
    }
}
