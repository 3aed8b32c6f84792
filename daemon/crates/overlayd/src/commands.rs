//! Decodes what a reader of the control socket sends: the word `status`, or a command in JSON that changes with whom
//! this node exchanges data.
//!
//! Each command replaces what an earlier one said, so it may be repeated. A list that is too long for one line comes in
//! portions, and takes effect with the last portion.

use std::collections::BTreeSet;

use cryptoauth::Address;
use serde::Deserialize;

use crate::node_address::{self, NODE_ADDRESS};

/// Largest number of addresses in a line, so that it fits into the longest line of a reader.
const PORTION_MAX: usize = 1024;
/// Largest number of permitted nodes, about a megabyte.
const PERMIT_MAX: usize = 16_384;
/// Largest number of pinned nodes, the same as in the node.
const KEEP_MAX: usize = 1024;

/// A line of a reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// A request for the status of the node.
    Status,
    /// A request for a change.
    Portion(Portion),
}

/// A command, or a part of a long one.
#[derive(Debug, PartialEq, Eq)]
pub struct Portion {
    /// What is to be changed.
    pub kind: Kind,
    addresses: BTreeSet<Address>,
    /// Number of portions of the same command before this one.
    number: usize,
    /// Whether another portion follows.
    more: bool,
}

/// What is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sets the nodes with which user data is exchanged.
    Permit,
    /// Sets the nodes to which paths and sessions are kept up.
    Keep,
}

impl Kind {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Keep => "keep",
        }
    }

    const fn max(self) -> usize {
        match self {
            Self::Permit => PERMIT_MAX,
            Self::Keep => KEEP_MAX,
        }
    }
}

/// The state of a command after a portion.
#[derive(Debug, PartialEq, Eq)]
pub enum Gathered {
    /// The command is complete, with these addresses.
    Whole(BTreeSet<Address>),
    /// This many addresses have arrived, and another portion follows.
    Part(usize),
}

/// The command whose portions are arriving. There is only one at a time, for all readers.
#[derive(Default)]
pub struct Gathering {
    /// The reader, the kind, and the number of portions so far.
    at: Option<(u32, Kind, usize)>,
    addresses: BTreeSet<Address>,
}

impl Gathering {
    /// Adds a portion of `reader`.
    ///
    /// # Errors
    /// The portion does not continue the command, or there are too many addresses. The portions so far are discarded.
    pub fn take(&mut self, reader: u32, portion: Portion) -> Result<Gathered, String> {
        let Portion { kind, number, .. } = portion;
        let before = std::mem::take(self);
        let mut addresses = portion.addresses;
        if number > 0 {
            if before.at != Some((reader, kind, number)) {
                return Err(format!(
                    "portion = {number} of {} follows nothing; allowed: the portions of a command one after another, from 0",
                    kind.name()
                ));
            }
            addresses.extend(before.addresses);
        }
        let (count, max) = (addresses.len(), kind.max());
        if count > max {
            return Err(format!("{count} addresses; allowed: {max}"));
        }
        if !portion.more {
            return Ok(Gathered::Whole(addresses));
        }
        self.at = Some((reader, kind, number + 1));
        self.addresses = addresses;
        Ok(Gathered::Part(count))
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum RawCommand {
    Permit(RawPortion),
    Keep(RawPortion),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPortion {
    addresses: Vec<String>,
    #[serde(default)]
    portion: u32,
    #[serde(default)]
    more: bool,
}

/// Decodes a line.
///
/// # Errors
/// The message says what is wrong and what is allowed.
pub fn read(line: &[u8]) -> Result<Said, String> {
    if line == b"status" {
        return Ok(Said::Status);
    }
    let allowed =
        |what: String| format!("{what}; allowed: status, and the commands permit and keep");
    if line.first() != Some(&b'{') {
        // serde would also accept an array with the fields in the order of their declaration.
        return Err(allowed("no JSON object".into()));
    }
    let raw = serde_json::from_slice(line).map_err(|error| allowed(error.to_string()))?;
    let (kind, raw) = match raw {
        RawCommand::Permit(raw) => (Kind::Permit, raw),
        RawCommand::Keep(raw) => (Kind::Keep, raw),
    };
    Ok(Said::Portion(Portion {
        kind,
        addresses: checked(&raw.addresses)?,
        number: raw.portion as usize,
        more: raw.more,
    }))
}

fn checked(texts: &[String]) -> Result<BTreeSet<Address>, String> {
    if texts.len() > PORTION_MAX {
        let count = texts.len();
        return Err(format!(
            "{count} addresses in a line; allowed: {PORTION_MAX}"
        ));
    }
    let check = |(number, text): (usize, &String)| {
        let refusal = || format!("addresses[{number}] = {text:?}; allowed: {NODE_ADDRESS}");
        node_address::read(text).ok_or_else(refusal)
    };
    texts.iter().enumerate().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u16) -> Address {
        let mut octets = [0; 16];
        octets[0] = 0xfc;
        octets[14..].copy_from_slice(&number.to_be_bytes());
        Address::from_octets(octets)
    }

    fn set(numbers: impl IntoIterator<Item = u16>) -> BTreeSet<Address> {
        numbers.into_iter().map(node).collect()
    }

    fn portion(kind: Kind, addresses: BTreeSet<Address>, number: usize, more: bool) -> Portion {
        Portion {
            kind,
            addresses,
            number,
            more,
        }
    }

    #[test]
    fn commands_say_the_whole_of_something() {
        for (line, said) in [
            ("status", Said::Status),
            (
                r#"{"type":"permit","addresses":["fc00::1","fc00::2","fc00:0::1"]}"#,
                Said::Portion(portion(Kind::Permit, set([1, 2]), 0, false)),
            ),
            (
                r#"{"addresses":[],"type":"keep"}"#,
                Said::Portion(portion(Kind::Keep, set([]), 0, false)),
            ),
            (
                r#"{"type":"permit","portion":3,"more":true,"addresses":["fc00::1"]}"#,
                Said::Portion(portion(Kind::Permit, set([1]), 3, true)),
            ),
        ] {
            assert_eq!(read(line.as_bytes()), Ok(said), "{line}");
        }
    }

    #[test]
    fn a_long_command_counts_when_its_last_portion_is_there() {
        let mut gathering = Gathering::default();
        let mut take = |number: usize, from: u16, more| {
            let addresses = set(from..from + 1024);
            gathering.take(1, portion(Kind::Permit, addresses, number, more))
        };
        for number in 0..15 {
            let count = (number + 1) * 1024;
            assert_eq!(
                take(number, number as u16 * 1024, true),
                Ok(Gathered::Part(count))
            );
        }
        assert_eq!(
            take(15, 15 * 1024, false),
            Ok(Gathered::Whole(set(0..16_384)))
        );
        assert!(take(16, 0, false).is_err(), "nothing is left of it");
    }

    #[test]
    fn a_command_that_begins_anew_has_nothing_of_one_that_was_left() {
        let mut gathering = Gathering::default();
        let mut take =
            |number, of, more| gathering.take(1, portion(Kind::Permit, set([of]), number, more));
        assert_eq!(take(0, 1, true), Ok(Gathered::Part(1)));
        assert_eq!(take(0, 2, true), Ok(Gathered::Part(1)));
        assert_eq!(take(1, 3, false), Ok(Gathered::Whole(set([2, 3]))));
    }

    #[test]
    fn a_portion_that_follows_nothing_is_refused_and_ends_the_command() {
        for (reader, kind, number) in [
            (2, Kind::Permit, 1),
            (1, Kind::Keep, 1),
            (1, Kind::Permit, 2),
            (1, Kind::Permit, usize::MAX),
        ] {
            let mut gathering = Gathering::default();
            let first = gathering.take(1, portion(Kind::Permit, set([1]), 0, true));
            assert_eq!(first, Ok(Gathered::Part(1)));
            let refused = gathering.take(reader, portion(kind, set([2]), number, false));
            assert!(refused.unwrap_err().contains("follows nothing"));
            let rest = gathering.take(1, portion(Kind::Permit, set([3]), 1, false));
            assert!(rest.is_err(), "a part is not taken for the whole");
        }
    }

    #[test]
    fn how_much_comes_in_portions_is_bounded() {
        for (kind, max) in [(Kind::Permit, 16_384), (Kind::Keep, 1024)] {
            let mut gathering = Gathering::default();
            let fits = gathering.take(1, portion(kind, set(0..max), 0, true));
            assert_eq!(fits, Ok(Gathered::Part(usize::from(max))));
            let refused = gathering.take(1, portion(kind, set([max]), 1, true));
            assert_eq!(
                refused,
                Err(format!("{} addresses; allowed: {max}", max + 1))
            );
            assert!(gathering.addresses.is_empty());
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_what_is_allowed() {
        let many = format!(
            r#"{{"type":"keep","addresses":[{}]}}"#,
            vec![r#""fc00::1""#; 1025].join(",")
        );
        for (line, found) in [
            ("", "allowed: status"),
            ("statusx", "allowed: status"),
            (r#"{"type":"admit","addresses":[]}"#, "`admit`"),
            (r#"["permit",[]]"#, "no JSON object"),
            (r#"{"type":{"permit":null},"addresses":[]}"#, "invalid type"),
            (r#"{"type":"permit"}"#, "missing field `addresses`"),
            (r#"{"type":"permit","addresses":[1]}"#, "invalid type"),
            (r#"{"type":"permit","addresses":[],"who":1}"#, "`who`"),
            (
                r#"{"type":"permit","addresses":[],"portion":-1}"#,
                "invalid value",
            ),
            (
                r#"{"type":"permit","addresses":["fc00::1","fd00::1"]}"#,
                r#"addresses[1] = "fd00::1"; allowed: an IPv6 address in fc00::/8"#,
            ),
            (many.as_str(), "1025 addresses in a line; allowed: 1024"),
        ] {
            let refusal = read(line.as_bytes()).expect_err(line);
            assert!(refusal.contains(found), "{line}: {refusal}");
        }
        assert!(read(&[0xff, 0xfe]).is_err());
        assert!(read(&[b'['; 4096]).is_err(), "depth is bounded");
    }
}
