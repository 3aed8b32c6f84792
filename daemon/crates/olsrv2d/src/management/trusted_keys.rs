//! The keys of trusted routers, as a reader of the change stream names them.

use std::net::IpAddr;

use icv::KEY_LENGTH;
use olsrv2::TrustedKey;
use serde::Deserialize;

/// A trusted router: one of its addresses, and its key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedKey {
    pub address: IpAddr,
    /// The Ed25519 public key in hexadecimal digits.
    key: String,
    /// Whether it is known to sign, so that nobody speaks for it unsigned.
    signs: bool,
}

impl NamedKey {
    /// Returns the key.
    ///
    /// # Errors
    /// The key has another number of hexadecimal digits than 64, or other characters. The message says what is allowed.
    pub fn trusted(&self) -> Result<TrustedKey, String> {
        let key = octets(&self.key).ok_or_else(|| {
            let allowed = 2 * KEY_LENGTH;
            format!(
                "keys: {}: {:?} is no key; allowed: {allowed} hexadecimal digits",
                self.address, self.key
            )
        })?;
        Ok(TrustedKey {
            key,
            signs: self.signs,
        })
    }
}

fn octets(text: &str) -> Option<[u8; KEY_LENGTH]> {
    let digits = text.chars().map(|one| one.to_digit(16));
    let digits: Vec<u8> = digits
        .map(|one| one.map(|one| one as u8))
        .collect::<Option<_>>()?;
    let octets = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]);
    let octets: Vec<u8> = octets.collect();
    octets
        .try_into()
        .ok()
        .filter(|_| digits.len() == 2 * KEY_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str) -> Result<TrustedKey, String> {
        let text = format!(r#"{{"address": "fc00::1", "key": "{key}", "signs": true}}"#);
        serde_json::from_str::<NamedKey>(&text).unwrap().trusted()
    }

    #[test]
    fn a_key_is_read_from_its_digits() {
        let found = named(&"0aF1".repeat(16)).unwrap();
        assert_eq!(
            (found.key[..2].to_vec(), found.signs),
            (vec![0x0a, 0xf1], true)
        );
    }

    #[test]
    fn what_is_no_key_is_refused_and_said() {
        for key in [
            "",
            "00",
            &"0".repeat(63),
            &"0".repeat(65),
            &"0".repeat(66),
            &"g0".repeat(32),
            &"\u{e9}0".repeat(32),
        ] {
            let refused = named(key).unwrap_err();
            assert!(
                refused.contains("fc00::1") && refused.contains("64 hexadecimal digits"),
                "{refused}"
            );
        }
    }
}
