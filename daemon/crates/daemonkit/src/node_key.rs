//! Reads the node's private key from a file that only its owner may read.

use std::fs;
use std::path::Path;

use pkcs8::{ObjectIdentifier, PrivateKeyInfo, SecretDocument};
use zeroize::Zeroizing;

use crate::secrecy::refuse_readable;

/// id-Ed25519 (RFC 8410, section 3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// Label of a private key in PEM (RFC 7468, section 10).
const LABEL: &str = "PRIVATE KEY";
/// Octets of an Ed25519 private key (RFC 8032, section 5.1.5).
const LENGTH: usize = 32;
/// Tag and length of the octet string around the key (RFC 8410, section 7).
const OCTET_STRING: [u8; 2] = [0x04, LENGTH as u8];

/// An Ed25519 private key: the seed of RFC 8032, section 5.1.5. It is overwritten when it is dropped.
pub type Seed = Zeroizing<[u8; LENGTH]>;

/// Reads the key.
///
/// # Errors
/// The message names the file, what is wrong with it, and what is allowed.
pub fn load(path: &Path) -> Result<Seed, String> {
    let refuse = |message: String| format!("{}: {message}", path.display());
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let text = Zeroizing::new(text);
    refuse_readable(path).map_err(refuse)?;
    seed(&text).map_err(refuse)
}

fn seed(text: &str) -> Result<Seed, String> {
    let refuse = || "is no unencrypted PKCS#8 key in PEM; allowed: an Ed25519 key".to_owned();
    let (label, document) = SecretDocument::from_pem(text).map_err(|_| refuse())?;
    let key: PrivateKeyInfo<'_> = document.decode_msg().map_err(|_| refuse())?;
    if label != LABEL || key.algorithm.oid != ED25519 {
        return Err("is no Ed25519 key; allowed: an Ed25519 key in PKCS#8 PEM".to_owned());
    }
    let seed = key.private_key.strip_prefix(&OCTET_STRING);
    let seed = seed.and_then(|seed| <[u8; LENGTH]>::try_from(seed).ok());
    seed.map(Zeroizing::new).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// RFC 8410, section 10.3: the example of a private key.
    const EXAMPLE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    #[test]
    fn the_key_of_the_standards_example_is_read() {
        let expected = [
            0xd4, 0xee, 0x72, 0xdb, 0xf9, 0x13, 0x58, 0x4a, 0xd5, 0xb6, 0xd8, 0xf1, 0xf7, 0x69,
            0xf8, 0xad, 0x3a, 0xfe, 0x7c, 0x28, 0xcb, 0xf1, 0xd4, 0xfb, 0xe0, 0x97, 0xa8, 0x8f,
            0x44, 0x75, 0x58, 0x42,
        ];
        assert_eq!(*seed(EXAMPLE).unwrap(), expected);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "key",
            &EXAMPLE[..60],
            &EXAMPLE.replace("BQYDK2Vw", "BQYDK2Vu"),
        ] {
            assert!(seed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("daemonkit-test-{}.key", std::process::id()));
        fs::write(&path, EXAMPLE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = load(&path).err().unwrap();
        assert!(refused.contains("0644"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(load(&path).is_ok());
        fs::remove_file(path).unwrap();
    }
}
