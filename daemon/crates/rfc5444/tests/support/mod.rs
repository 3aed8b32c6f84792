//! Shared by the tests: the vector files, the captures, and packets as text.

#![allow(dead_code, reason = "no test needs all of it")]

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use rfc5444::{Message, Packet, Tlv};

/// A file or directory of `tests/vectors` at the root of the project.
pub fn vectors(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../../tests/vectors", name]
        .iter()
        .collect()
}

/// One case of a vector file.
pub struct Case {
    pub title: String,
    pub octets: Vec<u8>,
    pub expected: String,
}

/// The cases of a vector file, whose format `tests/vectors/rfc5444/README.md` describes.
pub fn cases(file: &str) -> Vec<Case> {
    let text = fs::read_to_string(vectors("rfc5444").join(file)).expect("a vector file");
    let (_, cases) = text.split_once("\n== ").expect("a case");
    cases.split("\n== ").map(case).collect()
}

fn case(text: &str) -> Case {
    let (title, rest) = text.split_once('\n').expect("a title");
    let (octets, expected) = rest.split_once("->\n").expect("an expectation");
    Case {
        title: title.into(),
        octets: hex(octets),
        expected: expected.trim_end().into(),
    }
}

/// Octets from hexadecimal digits; white space does not matter.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len() % 2 == 0, "an odd number of digits: {text}");
    let octet = |start| u8::from_str_radix(&digits[start..start + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// A packet as text, in the form of the vector files.
pub fn render(packet: &Packet) -> String {
    let mut text = String::from("packet");
    field(&mut text, "seq", packet.seq);
    tlvs(&mut text, 1, &packet.tlvs);
    for message in &packet.messages {
        render_message(&mut text, message);
    }
    text
}

fn render_message(text: &mut String, message: &Message) {
    write!(
        text,
        "\nmessage {} length {}",
        message.typ, message.addr_len
    )
    .unwrap();
    field(text, "from", message.originator);
    field(text, "limit", message.hop_limit);
    field(text, "count", message.hop_count);
    field(text, "seq", message.seq);
    tlvs(text, 1, &message.tlvs);
    for entry in &message.addresses {
        write!(text, "\n {}", entry.prefix).unwrap();
        tlvs(text, 2, &entry.tlvs);
    }
}

fn field(text: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        write!(text, " {name} {value}").unwrap();
    }
}

fn tlvs(text: &mut String, indent: usize, tlvs: &[Tlv]) {
    for tlv in tlvs {
        write!(text, "\n{:indent$}tlv {}.{}", "", tlv.typ, tlv.ext).unwrap();
        let separator = if tlv.value.is_empty() { "" } else { " " };
        text.push_str(separator);
        for octet in &tlv.value {
            write!(text, "{octet:02x}").unwrap();
        }
    }
}

/// The RFC 5444 packets of a capture: the payloads of UDP datagrams to port 269.
pub fn capture(file: &str) -> Vec<Vec<u8>> {
    let octets = fs::read(vectors("olsrd2").join(file)).expect("a capture");
    let network = match u32_le(&octets, 20) {
        1 => |frame: &[u8]| udp_269(&frame[12..14], &frame[14..]),
        276 => |frame: &[u8]| udp_269(&frame[..2], &frame[20..]),
        link_type => panic!("link type {link_type}"),
    };
    let mut packets = Vec::new();
    let mut offset = 24;
    while offset < octets.len() {
        let length = u32_le(&octets, offset + 8) as usize;
        packets.extend(network(&octets[offset + 16..][..length]));
        offset += 16 + length;
    }
    packets
}

/// The payload of an IP packet that holds a UDP datagram to port 269.
fn udp_269(ethertype: &[u8], ip: &[u8]) -> Option<Vec<u8>> {
    let (protocol, header) = match ethertype {
        [0x08, 0x00] => (ip[9], usize::from(ip[0] & 0x0f) * 4),
        [0x86, 0xdd] => (ip[6], 40),
        _ => return None,
    };
    let udp = &ip[header..];
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    (protocol == 17 && udp[2..4] == 269_u16.to_be_bytes()).then(|| udp[8..length].to_vec())
}

fn u32_le(octets: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(octets[offset..offset + 4].try_into().expect("four octets"))
}
