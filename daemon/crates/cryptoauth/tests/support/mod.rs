//! Recorded vectors from tests/vectors/cjdns.
#![allow(dead_code)] // each test file uses its part

use std::collections::BTreeMap;
use std::path::Path;

/// Returns the text of a file in tests/vectors/cjdns.
pub fn vectors(file: &str) -> String {
    String::from_utf8(octets(file)).expect("a text file")
}

/// Returns the octets of a file in tests/vectors/cjdns.
pub fn octets(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/cjdns");
    let path = folder.join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A hexadecimal text of `N` octets.
pub fn hex<const N: usize>(text: &str) -> [u8; N] {
    hex_octets(text).try_into().expect("the number of octets")
}

/// A hexadecimal text.
pub fn hex_octets(text: &str) -> Vec<u8> {
    assert!(text.len() % 2 == 0, "{text}");
    let octet =
        |index| u8::from_str_radix(&text[index..index + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(octet).collect()
}

/// The string members of each innermost JSON object.
pub fn json_objects(text: &str) -> Vec<BTreeMap<String, String>> {
    let inner = text
        .split('{')
        .map(|part| part.split('}').next().unwrap_or_default());
    let objects = inner.map(|part| {
        let strings: Vec<&str> = part.split('"').skip(1).step_by(2).collect();
        let pairs = strings
            .chunks_exact(2)
            .map(|pair| (pair[0].into(), pair[1].into()));
        pairs.collect::<BTreeMap<String, String>>()
    });
    objects.filter(|object| !object.is_empty()).collect()
}
