//! The vectors of RFC 3610, of SP 800-38C, of NIST's validation programme and of Wycheproof.

use std::fs;
use std::path::Path;

use aes_ccm::{Ccm, OpenError, MAX_TAG_LENGTH};

/// A line of a file in tests/vectors/ccm, whose README says what its fields are.
struct Case {
    name: String,
    key: Vec<u8>,
    nonce: Vec<u8>,
    associated: Vec<u8>,
    plaintext: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Vec<u8>,
    valid: bool,
}

fn hex(text: &str) -> Vec<u8> {
    let text = text.trim_start_matches('-');
    let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(octet).collect()
}

fn cases(file: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/ccm");
    let text = fs::read_to_string(folder.join(file)).expect("a file of vectors");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let case = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let octets = |number: usize| hex(fields[number]);
        Case {
            name: format!("{file}, case {}", fields[0]),
            key: octets(1),
            nonce: octets(2),
            associated: octets(3),
            plaintext: octets(4),
            ciphertext: octets(5),
            tag: octets(6),
            valid: fields[7] == "valid",
        }
    };
    lines.map(case).collect()
}

/// Returns the plaintext, or `None` where lengths or the tag are refused.
fn opened(case: &Case) -> Option<Vec<u8>> {
    let ccm = Ccm::new(&case.key, case.tag.len(), case.nonce.len()).ok()?;
    let mut content = case.ciphertext.clone();
    match ccm.open(&case.nonce, &case.associated, &mut content, &case.tag) {
        Ok(()) => Some(content),
        Err(error) => {
            assert_eq!(error, OpenError::Forged, "{}", case.name);
            let zeros = content.iter().all(|octet| *octet == 0);
            assert!(zeros, "{}: plaintext was released", case.name);
            None
        }
    }
}

fn check(case: &Case) {
    let content = opened(case);
    assert_eq!(content.is_some(), case.valid, "{}", case.name);
    let Some(mut content) = content else {
        return;
    };
    assert_eq!(content, case.plaintext, "{}", case.name);
    let ccm = Ccm::new(&case.key, case.tag.len(), case.nonce.len()).expect("it was opened");
    let mut tag = [0; MAX_TAG_LENGTH];
    let tag = &mut tag[..case.tag.len()];
    let sealed = ccm.seal(&case.nonce, &case.associated, &mut content, tag);
    assert_eq!(sealed, Ok(()), "{}", case.name);
    assert_eq!(
        (&content, &*tag),
        (&case.ciphertext, &*case.tag),
        "{}",
        case.name
    );
}

/// Checks a file, which must have so many cases, of which so many are valid.
fn check_all(file: &str, count: usize, valid: usize) {
    let cases = cases(file);
    cases.iter().for_each(check);
    assert_eq!(
        (cases.len(), cases.iter().filter(|case| case.valid).count()),
        (count, valid)
    );
}

#[test]
fn the_packet_vectors_of_rfc_3610() {
    check_all("rfc3610.vectors", 24, 24);
}

#[test]
fn the_vectors_of_nists_validation_programme() {
    check_all("cavp.vectors", 408, 264);
}

#[test]
fn the_vectors_of_wycheproof() {
    check_all("wycheproof.vectors", 552, 405);
}

fn counting(from: u8, octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|number| from.wrapping_add(number as u8))
        .collect()
}

/// Appendix C: key, nonce, associated data and plaintext count up. The last one has 65536 octets of associated data.
#[test]
fn the_examples_of_sp_800_38c() {
    let examples = [
        (7, 8, 4, "7162015b", "4dac255d"),
        (
            8,
            16,
            16,
            "d2a1f0e051ea5f62081a7792073d593d",
            "1fc64fbfaccd",
        ),
        (
            12,
            20,
            24,
            "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5",
            "484392fbc1b09951",
        ),
        (
            13,
            65536,
            32,
            "69915dad1e84c6376a68c2967e4dab615ae0fd1faec44cc484828529463ccf72",
            "b4ac6bec93e8598e7f0dadbcea5b",
        ),
    ];
    for (number, (nonce, associated, plaintext, ciphertext, tag)) in
        examples.into_iter().enumerate()
    {
        check(&Case {
            name: format!("example {}", number + 1),
            key: counting(0x40, 16),
            nonce: counting(0x10, nonce),
            associated: counting(0, associated),
            plaintext: counting(0x20, plaintext),
            ciphertext: hex(ciphertext),
            tag: hex(tag),
            valid: true,
        });
    }
}
