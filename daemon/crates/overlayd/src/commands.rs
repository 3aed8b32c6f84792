//! What a reader of the control socket may say: JSON lines that change with whom this node talks, and the word `status`.
//!
//! Each command says the whole of something, so it may be said again, and nothing of what was before counts.

use std::collections::BTreeSet;

use cryptoauth::Address;
use serde::Deserialize;

use crate::config::{self, NODE_ADDRESS};

/// Addresses of one command; as many nodes as can be kept.
const ADDRESSES_MAX: usize = 1024;

/// What a reader has said.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// It wants to know how the node stands.
    Status,
    /// It wants something to be changed.
    Command(Command),
}

/// What is to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// With whom user data is exchanged from now on.
    Permit(BTreeSet<Address>),
    /// To whom ways and sessions are kept from now on.
    Keep(BTreeSet<Address>),
}

impl Command {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Permit(_) => "permit",
            Self::Keep(_) => "keep",
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum RawCommand {
    Permit { addresses: Vec<String> },
    Keep { addresses: Vec<String> },
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn read(line: &[u8]) -> Result<Said, String> {
    if line == b"status" {
        return Ok(Said::Status);
    }
    let raw = serde_json::from_slice(line)
        .map_err(|error| format!("{error}; allowed: status, and the commands permit and keep"))?;
    Ok(Said::Command(match raw {
        RawCommand::Permit { addresses } => Command::Permit(checked(&addresses)?),
        RawCommand::Keep { addresses } => Command::Keep(checked(&addresses)?),
    }))
}

fn checked(texts: &[String]) -> Result<BTreeSet<Address>, String> {
    if texts.len() > ADDRESSES_MAX {
        let count = texts.len();
        return Err(format!("{count} addresses; allowed: {ADDRESSES_MAX}"));
    }
    let check = |(number, text): (usize, &String)| {
        let refusal = || format!("addresses[{number}] = {text:?}; allowed: {NODE_ADDRESS}");
        config::address(text).ok_or_else(refusal)
    };
    texts.iter().enumerate().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(last: u8) -> Address {
        let mut octets = [0; 16];
        (octets[0], octets[15]) = (0xfc, last);
        Address::from_octets(octets)
    }

    #[test]
    fn commands_say_the_whole_of_something() {
        let set = |numbers: &[u8]| numbers.iter().map(|number| node(*number)).collect();
        for (line, said) in [
            ("status", Said::Status),
            (
                r#"{"type":"permit","addresses":["fc00::1","fc00::2","fc00:0::1"]}"#,
                Said::Command(Command::Permit(set(&[1, 2]))),
            ),
            (
                r#"{"addresses":[],"type":"keep"}"#,
                Said::Command(Command::Keep(set(&[]))),
            ),
        ] {
            assert_eq!(read(line.as_bytes()), Ok(said), "{line}");
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
            (r#"{"type":"permit"}"#, "missing field `addresses`"),
            (r#"{"type":"permit","addresses":[1]}"#, "invalid type"),
            (r#"{"type":"permit","addresses":[],"who":1}"#, "`who`"),
            (
                r#"{"type":"permit","addresses":["fc00::1","fd00::1"]}"#,
                r#"addresses[1] = "fd00::1"; allowed: an IPv6 address in fc00::/8"#,
            ),
            (many.as_str(), "1025 addresses; allowed: 1024"),
        ] {
            let refusal = read(line.as_bytes()).expect_err(line);
            assert!(refusal.contains(found), "{line}: {refusal}");
        }
        assert!(read(&[0xff, 0xfe]).is_err());
        assert!(read(&[b'['; 4096]).is_err(), "depth is bounded");
    }
}
