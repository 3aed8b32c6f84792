//! Whatever readers of overlayd's control socket say: no line panics, and what is carried out are the addresses that the
//! portions of one command name, said by one reader one after another; nothing else, and not more than is allowed.
//!
//! Each line begins with an octet that says which of two readers it comes from. The modules are overlayd's own files: a
//! program has no library to link.
#![no_main]

#[allow(dead_code)] // What names a command in an answer.
#[path = "../../crates/overlayd/src/commands.rs"]
mod commands;
#[path = "../../crates/overlayd/src/node_address.rs"]
mod node_address;

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use commands::{read, Gathered, Gathering, Said};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The same, told by what the lines say and not by how they are read.
#[derive(Default)]
struct Expected {
    /// Who said the portion before, of which command, and which comes next.
    next: Option<(u32, bool, u64)>,
    addresses: BTreeSet<Ipv6Addr>,
}

impl Expected {
    /// The whole command, when this was its last portion; `Err`: it is refused.
    fn take(&mut self, reader: u32, line: &Value) -> Result<Option<BTreeSet<Ipv6Addr>>, ()> {
        let permits = line["type"] == "permit";
        let portion = line
            .get("portion")
            .map_or(0, |number| number.as_u64().unwrap());
        let follows = self.next == Some((reader, permits, portion));
        let mut addresses = std::mem::take(self).addresses;
        if portion == 0 {
            addresses.clear();
        } else if !follows {
            return Err(());
        }
        let named = line["addresses"].as_array().unwrap().iter();
        addresses.extend(named.map(|text| text.as_str().unwrap().parse::<Ipv6Addr>().unwrap()));
        if addresses.len() > if permits { 16_384 } else { 1024 } {
            return Err(());
        }
        if line.get("more") != Some(&Value::Bool(true)) {
            return Ok(Some(addresses));
        }
        (self.next, self.addresses) = (Some((reader, permits, portion + 1)), addresses);
        Ok(None)
    }
}

fuzz_target!(|octets: &[u8]| {
    let (mut gathering, mut expected) = (Gathering::default(), Expected::default());
    for line in octets.split(|octet| *octet == b'\n') {
        let Some((reader, line)) = line.split_first() else {
            continue;
        };
        let reader = u32::from(reader & 1);
        let portion = match read(line) {
            Ok(Said::Portion(portion)) => portion,
            Ok(Said::Status) => {
                assert_eq!(line, b"status");
                continue;
            }
            Err(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        let said: Value = serde_json::from_slice(line).unwrap();
        match (
            gathering.take(reader, portion),
            expected.take(reader, &said),
        ) {
            (Ok(Gathered::Whole(found)), Ok(Some(meant))) => {
                assert!(found.iter().all(|address| address.octets()[0] == 0xfc));
                let found: BTreeSet<_> = found
                    .iter()
                    .map(|address| Ipv6Addr::from(*address.octets()))
                    .collect();
                assert_eq!(found, meant);
            }
            (Ok(Gathered::Part(count)), Ok(None)) => assert_eq!(count, expected.addresses.len()),
            (Err(_), Err(())) => {}
            (found, meant) => panic!("{found:?}, and not {meant:?}"),
        }
    }
});
