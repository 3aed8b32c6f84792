//! Tokens: which follow which, and what is no token.

use icv::{Shown, Tokens, REACH, TOKEN_EXTENSION};
use rfc5444::iana::message_tlv;
use rfc5444::Tlv;

const SECRET: [u8; 32] = [7; 32];

fn shown(tokens: &mut Tokens) -> Shown {
    Shown::read(&[tokens.next_tlv()]).unwrap()
}

fn first(count: usize) -> Vec<Shown> {
    let mut tokens = Tokens::new(&SECRET, 0);
    (0..count).map(|_| shown(&mut tokens)).collect()
}

fn token(value: &[u8]) -> Tlv {
    Tlv::new(message_tlv::TIMESTAMP, TOKEN_EXTENSION, value)
}

#[test]
fn a_token_follows_those_of_the_last_messages_and_no_others() {
    // Three chains, so that some follow one of another chain.
    let all = first(200);
    for (before, known) in all.iter().enumerate() {
        for (after, later) in all.iter().enumerate() {
            let begins = known.next_chain.map(|_| (before / 64 + 1) * 64);
            let follows = (before + 1..=before + REACH).contains(&after)
                || begins.is_some_and(|first| (first..first + REACH).contains(&after));
            assert_eq!(later.after(known).is_some(), follows, "{before}, {after}");
        }
    }
}

#[test]
fn what_is_known_of_the_next_chain_is_what_a_true_message_has_said() {
    let all = first(70);
    // Somebody adds or removes what leads to the next chain.
    let with = |at: usize, next_chain| Shown {
        next_chain,
        ..all[at]
    };
    let lie = Some([9; 8]);
    assert_eq!(with(3, lie).after(&all[2]), Some(all[3]));
    assert_eq!(with(50, None).after(&all[49]), Some(all[50]));
    // Once the next chain has begun, nothing leads to its beginning any more.
    let within = all[66].after(&all[63]);
    assert_eq!(within, Some(all[66]));
    assert_eq!(all[65].after(&all[66]), None);
}

#[test]
fn the_next_chain_is_announced_in_the_last_messages_of_one() {
    let announced: Vec<usize> = first(130)
        .iter()
        .enumerate()
        .filter(|(_, shown)| shown.next_chain.is_some())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(announced, (48..64).chain(112..128).collect::<Vec<_>>());
}

#[test]
fn streams_and_secrets_have_nothing_in_common() {
    let own = first(20);
    for (secret, number) in [(SECRET, 1), ([8; 32], 0)] {
        let mut others = Tokens::new(&secret, number);
        for _ in 0..20 {
            let other = shown(&mut others);
            assert!(own
                .iter()
                .all(|own| other.after(own).is_none() && other != *own));
        }
    }
}

#[test]
fn the_octets_are_as_documented() {
    // 63 hashes after the last token of the chain, by Python's hashlib.
    let first = first(1)[0];
    assert_eq!(u64::from_be_bytes(first.token), 0x525c92edaa65480e);
}

#[test]
fn what_has_another_form_is_no_token() {
    assert_eq!(Shown::read(&[]), None);
    for length in (0..=32).filter(|length| ![8, 16].contains(length)) {
        assert_eq!(Shown::read(&[token(&vec![1; length])]), None, "{length}");
    }
    let tlv = token(&[1; 8]);
    assert!(Shown::read(std::slice::from_ref(&tlv)).is_some());
    assert_eq!(Shown::read(&[tlv.clone(), tlv.clone()]), None);
    for (typ, ext) in [(message_tlv::ICV, 253), (message_tlv::TIMESTAMP, 252)] {
        assert_eq!(Shown::read(&[Tlv::new(typ, ext, [1; 8])]), None);
    }
    assert_eq!(format!("{:?}", Tokens::new(&SECRET, 0)), "Tokens");
}
