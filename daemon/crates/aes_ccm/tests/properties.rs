//! Every key, nonce, tag and length: what is sealed opens, what was changed does not, and RustCrypto's `ccm` agrees.

use aes::{Aes128, Aes192, Aes256};
use aes_ccm::{Ccm, LengthError, OpenError, SetupError};
use ccm::aead::{AeadInPlace, KeyInit};
use ccm::consts::{U10, U11, U12, U13, U14, U16, U4, U6, U7, U8, U9};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const KEYS: [usize; 3] = [16, 24, 32];
const TAGS: [usize; 7] = [4, 6, 8, 10, 12, 14, 16];
/// More than three times the blocks that any backend computes at once.
const LONGEST: usize = 500;

#[derive(Clone, Debug)]
struct Input {
    key: Vec<u8>,
    nonce: Vec<u8>,
    associated: Vec<u8>,
    content: Vec<u8>,
    tag_length: usize,
}

impl Input {
    fn ccm(&self) -> Ccm {
        Ccm::new(&self.key, self.tag_length, self.nonce.len()).expect("allowed lengths")
    }

    /// Returns ciphertext and tag.
    fn sealed(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut content, mut tag) = (self.content.clone(), vec![0; self.tag_length]);
        let sealed = self
            .ccm()
            .seal(&self.nonce, &self.associated, &mut content, &mut tag);
        assert_eq!(sealed, Ok(()));
        (content, tag)
    }
}

fn inputs() -> impl Strategy<Value = Input> {
    let octets = |lengths| select(lengths).prop_flat_map(|length: usize| vec(any::<u8>(), length));
    let key = octets(KEYS.to_vec());
    let nonce = octets((7..=13).collect::<Vec<usize>>());
    let some = || vec(any::<u8>(), 0..LONGEST);
    (key, nonce, some(), some(), select(TAGS.to_vec())).prop_map(
        |(key, nonce, associated, content, tag_length)| Input {
            key,
            nonce,
            associated,
            content,
            tag_length,
        },
    )
}

macro_rules! by_rustcrypto {
    ($input:expr, $cipher:ty, $($tag:ty)+) => {
        match $input.tag_length {
            $(length if length == <$tag as ccm::aead::generic_array::typenum::Unsigned>::USIZE => {
                by_rustcrypto!(nonce $input, $cipher, $tag, U7 U8 U9 U10 U11 U12 U13)
            })+
            other => unreachable!("{other}"),
        }
    };
    (nonce $input:expr, $cipher:ty, $tag:ty, $($nonce:ty)+) => {
        match $input.nonce.len() {
            $(length if length == <$nonce as ccm::aead::generic_array::typenum::Unsigned>::USIZE => {
                let ccm = ccm::Ccm::<$cipher, $tag, $nonce>::new_from_slice(&$input.key).expect("a key");
                let mut content = $input.content.clone();
                let nonce = $input.nonce.as_slice().into();
                let tag = ccm.encrypt_in_place_detached(nonce, &$input.associated, &mut content);
                (content, tag.expect("not too long").to_vec())
            })+
            other => unreachable!("{other}"),
        }
    };
}

/// Returns ciphertext and tag as RustCrypto makes them.
fn by_rustcrypto(input: &Input) -> (Vec<u8>, Vec<u8>) {
    match input.key.len() {
        16 => by_rustcrypto!(input, Aes128, U4 U6 U8 U10 U12 U14 U16),
        24 => by_rustcrypto!(input, Aes192, U4 U6 U8 U10 U12 U14 U16),
        _ => by_rustcrypto!(input, Aes256, U4 U6 U8 U10 U12 U14 U16),
    }
}

/// Asserts that a message is refused and that nothing of its content is left.
fn assert_forged(ccm: &Ccm, nonce: &[u8], associated: &[u8], content: &[u8], tag: &[u8]) {
    let mut content = content.to_vec();
    let opened = ccm.open(nonce, associated, &mut content, tag);
    assert_eq!(opened, Err(OpenError::Forged));
    assert!(
        content.iter().all(|octet| *octet == 0),
        "plaintext was released"
    );
}

/// Calls `check` with each bit of `octets` changed in turn.
fn each_bit(octets: &[u8], mut check: impl FnMut(&[u8])) {
    let mut changed = octets.to_vec();
    for bit in 0..8 * octets.len() {
        changed[bit / 8] ^= 1 << (bit % 8);
        check(&changed);
        changed[bit / 8] ^= 1 << (bit % 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_sealed_opens_and_rustcrypto_makes_the_same(input in inputs()) {
        let (mut content, tag) = input.sealed();
        prop_assert_eq!((&content, &tag), (&by_rustcrypto(&input).0, &by_rustcrypto(&input).1));
        let opened = input.ccm().open(&input.nonce, &input.associated, &mut content, &tag);
        prop_assert_eq!(opened, Ok(()));
        prop_assert_eq!(content, input.content);
    }

    #[test]
    fn any_octets_are_refused_without_harm(input in inputs(), tag in vec(any::<u8>(), 0..20), nonce in vec(any::<u8>(), 0..20)) {
        let mut content = input.content.clone();
        match input.ccm().open(&nonce, &input.associated, &mut content, &tag) {
            Err(OpenError::Length(_)) => prop_assert_eq!(content, input.content),
            Err(OpenError::Forged) => prop_assert!(content.iter().all(|octet| *octet == 0)),
            Ok(()) => prop_assert!(false, "a guessed tag"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_changed_bit_is_refused(mut input in inputs()) {
        input.content.truncate(70);
        input.associated.truncate(40);
        // A changed message is opened by a tag of 4 octets once in 2^32 attempts.
        input.tag_length = input.tag_length.max(8);
        let (content, tag) = input.sealed();
        let ccm = input.ccm();
        let Input { nonce, associated, .. } = &input;
        each_bit(&content, |changed| assert_forged(&ccm, nonce, associated, changed, &tag));
        each_bit(&tag, |changed| assert_forged(&ccm, nonce, associated, &content, changed));
        each_bit(nonce, |changed| assert_forged(&ccm, changed, associated, &content, &tag));
        each_bit(associated, |changed| assert_forged(&ccm, nonce, changed, &content, &tag));
        each_bit(&input.key, |changed| {
            let other = Ccm::new(changed, input.tag_length, nonce.len()).expect("allowed lengths");
            assert_forged(&other, nonce, associated, &content, &tag);
        });
        let longer = [&associated[..], &[0]].concat();
        assert_forged(&ccm, nonce, &longer, &content, &tag);
        let longer = [&content[..], &[0]].concat();
        assert_forged(&ccm, nonce, associated, &longer, &tag);
        if let Some((_, shorter)) = content.split_last() {
            assert_forged(&ccm, nonce, associated, shorter, &tag);
        }
    }
}

#[test]
fn lengths_that_ccm_does_not_have_are_refused() {
    let refused = |key: usize, tag, nonce| Ccm::new(&vec![0; key], tag, nonce).err();
    for length in 0..100 {
        let allowed = KEYS.contains(&length);
        assert_eq!(
            refused(length, 8, 13),
            (!allowed).then_some(SetupError::Key(length))
        );
        let allowed = TAGS.contains(&length);
        assert_eq!(
            refused(16, length, 13),
            (!allowed).then_some(SetupError::Tag(length))
        );
        let allowed = (7..=13).contains(&length);
        assert_eq!(
            refused(16, 8, length),
            (!allowed).then_some(SetupError::Nonce(length))
        );
    }
}

#[test]
fn lengths_that_do_not_fit_to_the_key_change_nothing() {
    let ccm = Ccm::new(&[1; 16], 8, 13).expect("allowed lengths");
    let (mut content, mut tag) = (vec![7; 65536], [9; 8]);
    let cases = [
        (
            12,
            100,
            8,
            LengthError::Nonce {
                octets: 12,
                allowed: 13,
            },
        ),
        (
            13,
            100,
            7,
            LengthError::Tag {
                octets: 7,
                allowed: 8,
            },
        ),
        (
            13,
            65536,
            8,
            LengthError::Content {
                octets: 65536,
                most: 65535,
            },
        ),
    ];
    for (nonce, octets, length, error) in cases {
        let nonce = &[0; 13][..nonce];
        let sealed = ccm.seal(nonce, &[], &mut content[..octets], &mut tag[..length]);
        assert_eq!(sealed, Err(error));
        let opened = ccm.open(nonce, &[], &mut content[..octets], &tag[..length]);
        assert_eq!(opened, Err(OpenError::Length(error)));
        assert!(content.iter().all(|octet| *octet == 7) && tag == [9; 8]);
    }
    assert_eq!(ccm.max_content(), 65535);
    assert_eq!(
        ccm.seal(&[0; 13], &[], &mut content[..65535], &mut tag),
        Ok(())
    );
    assert_eq!(ccm.open(&[0; 13], &[], &mut content[..65535], &tag), Ok(()));
    assert!(content.iter().all(|octet| *octet == 7));
}

#[test]
fn errors_say_what_is_allowed() {
    let refused = |key: &[u8], tag, nonce| {
        Ccm::new(key, tag, nonce)
            .err()
            .map(|error| error.to_string())
    };
    let said = refused(&[0; 15], 8, 13).unwrap_or_default();
    assert_eq!(
        said,
        "a key of 15 octets; allowed are 16, 24 and 32 (AES-128, AES-192, AES-256)"
    );
    let said = refused(&[0; 16], 5, 13).unwrap_or_default();
    assert_eq!(
        said,
        "a tag of 5 octets; allowed are 4, 6, 8, 10, 12, 14 and 16"
    );
    let said = refused(&[0; 16], 8, 14).unwrap_or_default();
    assert_eq!(said, "a nonce of 14 octets; allowed are 7 to 13");
    let error = OpenError::from(LengthError::Content {
        octets: 65536,
        most: 65535,
    });
    assert_eq!(
        error.to_string(),
        "a content of 65536 octets; this key takes at most 65535"
    );
}

/// Around each change of the length's form, and longer than a form of two octets could say.
#[test]
fn long_associated_data_is_what_rustcrypto_takes() {
    for length in [0xfeff, 0xff00, 0xff01, 0xffff, 0x1_0000, 0x1_0001] {
        let input = Input {
            key: vec![1; 16],
            nonce: vec![2; 7],
            associated: vec![3; length],
            content: vec![4; 33],
            tag_length: 16,
        };
        assert_eq!(input.sealed(), by_rustcrypto(&input), "{length:#x} octets");
    }
}

/// The third form of the length. The zeros are pages that the kernel does not fill before they are written.
#[test]
#[ignore = "takes 4 GiB of address space and many seconds"]
#[cfg(target_pointer_width = "64")]
fn associated_data_of_four_gibibytes_is_what_rustcrypto_takes() {
    let input = Input {
        key: vec![1; 16],
        nonce: vec![2; 13],
        associated: vec![0; 1 << 32],
        content: vec![4; 33],
        tag_length: 16,
    };
    assert_eq!(input.sealed(), by_rustcrypto(&input));
}
