//! The recorded messages of tests/vectors/signatures, which `tools/signature-vectors` made. Their README says what they hold.

use icv::{Claim, Fault};
use rfc5444::Message;

/// The cases of a file: what each is about, its octets and its verdict.
fn cases(file: &str) -> Vec<(String, Vec<u8>, String)> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../tests/vectors/signatures"
    );
    let text = std::fs::read_to_string(format!("{folder}/{file}.vectors")).unwrap();
    let case = |text: &str| {
        let (name, rest) = text.split_once('\n').unwrap();
        let (octets, verdict) = rest.split_once("\n->\n").unwrap();
        (name.into(), from_hex(octets), verdict.trim().into())
    };
    text.split("\n== ").skip(1).map(case).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.split_whitespace().flat_map(str::chars).collect();
    let octet = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn verdict(octets: &[u8]) -> String {
    let Ok(message) = Message::decode(octets) else {
        return "malformed".into();
    };
    match Claim::read(&message.tlvs) {
        Ok(None) => "not signed".into(),
        Ok(Some(claim)) => match message.originator {
            None => "no originator".into(),
            Some(originator) => match claim.verify(originator, octets) {
                Ok(()) => {
                    let (counter, age, floor) = (claim.counter, claim.age, claim.floor());
                    format!("signed counter {counter} age {age} floor {floor}")
                }
                Err(fault) => name(fault),
            },
        },
        Err(fault) => name(fault),
    }
}

fn name(fault: Fault) -> String {
    match fault {
        Fault::Count => "count".into(),
        Fault::Length(octets) => format!("length {octets}"),
        Fault::Key => "key".into(),
        Fault::Address => "address".into(),
        Fault::Signature => "signature".into(),
        other => panic!("no vector has {other}"),
    }
}

/// Asserts the verdict of each case of a file, and that there are so many.
fn check(file: &str, count: usize) {
    let cases = cases(file);
    assert_eq!(cases.len(), count);
    for (name, octets, expected) in cases {
        assert_eq!(verdict(&octets), expected, "{file}: {name}");
    }
}

#[test]
fn signed_messages_are_accepted_to_the_ends_of_each_field() {
    check("accepted", 35);
}

#[test]
fn messages_with_other_types_and_extensions_are_not_signed() {
    check("not-signed", 11);
}

#[test]
fn claims_of_every_wrong_length_and_number_are_refused() {
    check("malformed", 36);
}

#[test]
fn the_signature_of_anything_else_is_refused() {
    check("forged", 35);
}

#[test]
fn keys_and_signatures_have_one_encoding_and_no_small_order() {
    check("curve", 79);
}
