//! Boundary vectors for every field, and the examples of RFC 5444.

mod support;

use rfc5444::Packet;
use support::{cases, render, Case};

/// Decodes every case of a file and, if it is well-formed, encodes and decodes it once more.
fn check(file: &str) {
    let cases = cases(file);
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{file}:\n{}", failures.join("\n"));
}

fn failure(case: &Case) -> Option<String> {
    let decoded = Packet::decode(&case.octets);
    let found = match &decoded {
        Ok(packet) => render(packet),
        Err(error) => format!(
            "error {:?} at {} value {}",
            error.cause, error.offset, error.value
        ),
    };
    let title = &case.title;
    if found != case.expected {
        return Some(format!(
            "{title}: expected\n{}\nbut found\n{found}\n",
            case.expected
        ));
    }
    let packet = decoded.ok()?;
    let encoded = packet.encode().expect("a decoded packet can be encoded");
    let again = Packet::decode(&encoded);
    (again.as_ref() != Ok(&packet))
        .then(|| format!("{title}: encoded to {encoded:02x?}, {again:?}\n"))
}

#[test]
fn packet_header() {
    check("packet.vectors");
}

#[test]
fn message_header() {
    check("message.vectors");
}

#[test]
fn address_block() {
    check("address-block.vectors");
}

#[test]
fn address_block_tlv() {
    check("tlv.vectors");
}

#[test]
fn appendix_examples() {
    check("appendix.vectors");
}
