//! The relays that a reader of the change stream has avoided (docs/development/adr/0095).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

/// Largest number of neighbours to avoid. A reader that has evidence against more has evidence against nobody.
const AVOIDED_MAX: usize = 64;
/// Longest time for which a reader has a neighbour avoided, so that what it says decays if it says nothing more.
const SECONDS_MAX: u64 = 600;

/// A neighbour to avoid, as a reader names it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Avoided {
    /// Its originator.
    pub address: IpAddr,
    /// For how long.
    pub seconds: u64,
}

/// Returns for how long which neighbours are avoided.
///
/// # Errors
/// There are too many, or a time is out of bounds.
pub fn checked(neighbours: &[Avoided]) -> Result<BTreeMap<IpAddr, Duration>, String> {
    if neighbours.len() > AVOIDED_MAX {
        return Err(format!("avoid: at most {AVOIDED_MAX} neighbours"));
    }
    let checked = neighbours.iter().map(|one| match one.seconds {
        1..=SECONDS_MAX => Ok((one.address, Duration::from_secs(one.seconds))),
        found => Err(format!(
            "avoid: seconds = {found} is refused; allowed: 1 to {SECONDS_MAX}"
        )),
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avoided(address: &str, seconds: u64) -> Avoided {
        Avoided {
            address: address.parse().unwrap(),
            seconds,
        }
    }

    #[test]
    fn a_neighbour_is_avoided_for_ten_minutes_at_most() {
        let longest = checked(&[avoided("fd00::1", 600), avoided("10.0.0.1", 1)]).unwrap();
        let seconds: Vec<u64> = longest.values().map(Duration::as_secs).collect();
        assert_eq!(seconds, [1, 600]);
        for seconds in [0, 601, u64::MAX] {
            assert_eq!(
                checked(&[avoided("fd00::1", seconds)]),
                Err(format!(
                    "avoid: seconds = {seconds} is refused; allowed: 1 to 600"
                ))
            );
        }
    }

    #[test]
    fn a_reader_cannot_have_everybody_avoided() {
        let many = |count: u16| {
            let one = |number| avoided(&format!("fd00::{number:x}"), 30);
            checked(&(0..count).map(one).collect::<Vec<_>>())
        };
        assert!(many(64).is_ok());
        assert_eq!(many(65), Err("avoid: at most 64 neighbours".into()));
    }

    #[test]
    fn nothing_else_is_read() {
        let read = serde_json::from_str::<Avoided>;
        assert_eq!(
            read(r#"{"address":"fd00::1","seconds":30}"#).unwrap(),
            avoided("fd00::1", 30)
        );
        for wrong in [
            r#"{"address":"fd00::1"}"#,
            r#"{"address":"fd00::1","seconds":-1}"#,
            r#"{"address":"x","seconds":30}"#,
            r#"{"address":"fd00::1","seconds":30,"why":""}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
