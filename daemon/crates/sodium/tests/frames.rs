//! Frames of libsodium equal those of the portable ciphers, for any key, nonce, content and length.

use cryptoauth::{Ciphers, Key, Portable, Tag};
use proptest::collection::vec;
use proptest::prelude::*;
use sodium::Sodium;

type Seal<'a> = &'a dyn Fn(&mut [u8]) -> Tag;
type Open<'a> = &'a dyn Fn(&mut [u8], &Tag) -> bool;

/// Returns the library, or prints why nothing is compared. Continuous integration has the library.
fn library() -> Option<&'static Sodium> {
    let loaded = sodium::load();
    if let Err(error) = &loaded {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        eprintln!("not compared with libsodium: {error}");
    }
    loaded.ok()
}

/// Opens with each implementation what the other has sealed, and refuses it with one bit changed.
fn compare(
    content: &[u8],
    flip: usize,
    seals: [Seal; 2],
    opens: [Open; 2],
) -> Result<(), TestCaseError> {
    let mut sealed = [content.to_vec(), content.to_vec()];
    let tags = [seals[0](&mut sealed[0]), seals[1](&mut sealed[1])];
    prop_assert_eq!(tags[0], tags[1]);
    prop_assert_eq!(&sealed[0], &sealed[1]);
    for open in opens {
        let mut forged = sealed[0].clone();
        let bit = flip % (8 * forged.len());
        forged[bit / 8] ^= 1 << (bit % 8);
        let before = forged.clone();
        prop_assert!(!open(&mut forged, &tags[0]), "bit {}", bit);
        prop_assert_eq!(forged, before);
        let mut opened = sealed[0].clone();
        prop_assert!(open(&mut opened, &tags[0]));
        prop_assert_eq!(&opened[..], content);
    }
    Ok(())
}

proptest! {
    #[test]
    fn frames_are_the_same(
        key: Key,
        nonce: [u8; 24],
        content in vec(any::<u8>(), 1..2700),
        flip: usize,
    ) {
        if let Some(library) = library() {
            let ciphers: [&dyn Ciphers; 2] = [&Portable, library];
            let short = &nonce[..12].try_into().expect("12 octets");
            compare(
                &content,
                flip,
                [
                    &|octets| ciphers[0].seal_xsalsa20(&key, &nonce, octets),
                    &|octets| ciphers[1].seal_xsalsa20(&key, &nonce, octets),
                ],
                [
                    &|octets, tag| ciphers[0].open_xsalsa20(&key, &nonce, octets, tag),
                    &|octets, tag| ciphers[1].open_xsalsa20(&key, &nonce, octets, tag),
                ],
            )?;
            compare(
                &content,
                flip,
                [
                    &|octets| ciphers[0].seal_chacha20(&key, short, octets),
                    &|octets| ciphers[1].seal_chacha20(&key, short, octets),
                ],
                [
                    &|octets, tag| ciphers[0].open_chacha20(&key, short, octets, tag),
                    &|octets, tag| ciphers[1].open_chacha20(&key, short, octets, tag),
                ],
            )?;
        }
    }
}
