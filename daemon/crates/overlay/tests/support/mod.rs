//! Recorded octets.

use std::fs;
use std::path::Path;

/// The octets of each line of a file of tests/vectors/cjdns.
pub fn recorded(file: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/cjdns");
    let lines = fs::read_to_string(folder.join(file)).unwrap();
    let octets = |line: &str| hex(line.split(' ').next_back().unwrap());
    lines.lines().map(octets).collect()
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(value).collect()
}
