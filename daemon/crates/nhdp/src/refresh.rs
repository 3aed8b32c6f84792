//! Splits HELLOs that do not fit into one packet (RFC 6130, sections 5.3.1 and 11.1).
//!
//! Each HELLO then holds all local addresses and as many neighbour addresses as fit: new and changed ones first, then
//! those announced least recently. Enough HELLOs are sent in each REFRESH_INTERVAL to announce every address at least
//! once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use rfc5444::iana::address_tlv;
use rfc5444::{AddressEntry, Message, Tlv};

use crate::types::Time;

/// Assumed age of the last report of a neighbour that was heard only once. Neighbours that were heard again are older
/// and come first, so that invented neighbours do not displace them in our HELLOs.
const ONCE: Duration = Duration::from_secs(1);

/// When and how the HELLOs of an interface last announced each neighbour address. Used while one HELLO cannot hold them
/// all.
#[derive(Debug, Default)]
pub struct Refresh {
    announced: BTreeMap<IpAddr, (Vec<Tlv>, Time)>,
}

/// A HELLO as it is sent.
#[derive(Debug)]
pub struct Piece {
    /// The encoded message.
    pub octets: Vec<u8>,
    /// Number of HELLOs of this size that announce all neighbour addresses.
    pub pieces: usize,
}

impl Refresh {
    /// Encodes a complete HELLO in at most `limit` octets, if necessary without some of the neighbour addresses. The
    /// HELLO is longer than that if otherwise `max_pieces` HELLOs could not hold all neighbour addresses. `once` holds
    /// the addresses that were heard once.
    ///
    /// Returns `None` if even the local addresses do not fit into an RFC 5444 message.
    pub fn encode(
        &mut self,
        now: Time,
        mut hello: Message,
        once: &BTreeSet<IpAddr>,
        limit: usize,
        max_pieces: usize,
    ) -> Option<Piece> {
        let whole = hello.encode().ok();
        if let Some(octets) = whole.filter(|octets| octets.len() <= limit) {
            self.announced.clear();
            return Some(Piece { octets, pieces: 1 });
        }
        let mut neighbours = hello.addresses.split_off(count_local(&hello));
        let recent = now.saturating_sub(ONCE);
        neighbours.sort_by_key(|entry| {
            let is_once = once.contains(&entry.prefix.addr);
            self.announced_at(entry).or(is_once.then_some(recent))
        });
        let least = neighbours.len().div_ceil(max_pieces.max(1));
        let (octets, count) = fit(&mut hello, &neighbours, limit, least)?;
        self.record(now, &neighbours, count);
        let pieces = neighbours.len().div_ceil(count.max(1));
        Some(Piece { octets, pieces })
    }

    /// Returns when an address was last announced with these TLVs. Timestamps change with each HELLO, and do not count.
    fn announced_at(&self, entry: &AddressEntry) -> Option<Time> {
        let (tlvs, at) = self.announced.get(&entry.prefix.addr)?;
        let lasting = |tlv: &&Tlv| tlv.typ != address_tlv::TIMESTAMP;
        let (old, new) = (
            tlvs.iter().filter(lasting),
            entry.tlvs.iter().filter(lasting),
        );
        old.eq(new).then_some(*at)
    }

    fn record(&mut self, now: Time, neighbours: &[AddressEntry], announced: usize) {
        let mut old = core::mem::take(&mut self.announced);
        let rest = neighbours[announced..]
            .iter()
            .map(|entry| entry.prefix.addr);
        self.announced = rest
            .filter_map(|address| old.remove_entry(&address))
            .collect();
        let new = neighbours[..announced].iter();
        self.announced
            .extend(new.map(|entry| (entry.prefix.addr, (entry.tlvs.clone(), now))));
    }
}

fn count_local(hello: &Message) -> usize {
    let is_local = |entry: &&AddressEntry| entry.tlv(address_tlv::LOCAL_IF, 0).is_some();
    hello.addresses.iter().take_while(is_local).count()
}

/// Returns the encoded HELLO and the number of its neighbour addresses: as many of the first ones as `limit` octets
/// hold, but at least `least`. Returns `None` if an RFC 5444 message cannot hold those.
fn fit(
    hello: &mut Message,
    neighbours: &[AddressEntry],
    limit: usize,
    least: usize,
) -> Option<(Vec<u8>, usize)> {
    let local = hello.addresses.len();
    let mut count = neighbours.len();
    loop {
        hello.addresses.truncate(local);
        hello.addresses.extend_from_slice(&neighbours[..count]);
        // Adjacent addresses share their head, which makes the block short.
        hello.addresses[local..].sort_by_key(|entry| entry.prefix);
        let encoded = hello.encode();
        count = match encoded {
            Ok(octets) if octets.len() <= limit || count <= least => return Some((octets, count)),
            Ok(octets) => (count * limit / octets.len()).clamp(least, count - 1),
            Err(_) if count == 0 => return None,
            Err(_) => count / 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use rfc5444::iana::{link_status, local_if, message};
    use rfc5444::Prefix;

    const LIMIT: usize = 200;
    const NOBODY: BTreeSet<IpAddr> = BTreeSet::new();

    fn entry(n: u32, typ: u8, value: u8) -> AddressEntry {
        let address = IpAddr::from((0x0a00_0000 + n * 0x0001_0305).to_be_bytes());
        AddressEntry {
            prefix: Prefix::host(address),
            tlvs: vec![Tlv::new(typ, 0, [value])],
        }
    }

    fn hello(neighbours: u32) -> Message {
        let mut hello = Message::without_originator(message::HELLO, 4);
        hello.addresses = vec![entry(0, address_tlv::LOCAL_IF, local_if::THIS_IF)];
        let heard = |n| entry(n, address_tlv::LINK_STATUS, link_status::HEARD);
        hello.addresses.extend((1..=neighbours).map(heard));
        hello
    }

    fn announced(piece: &Piece) -> BTreeSet<IpAddr> {
        let message = Message::decode(&piece.octets).unwrap();
        let local = message.addresses.iter().filter(|entry| {
            let tlv = entry.tlv(address_tlv::LOCAL_IF, 0);
            tlv.is_some()
        });
        assert_eq!(local.count(), 1, "every HELLO announces the own addresses");
        message.addresses.iter().map(|e| e.prefix.addr).collect()
    }

    #[test]
    fn a_hello_that_fits_is_whole() {
        let piece = Refresh::default().encode(Time::ZERO, hello(20), &NOBODY, LIMIT, 4);
        let piece = piece.unwrap();
        assert_eq!((announced(&piece).len(), piece.pieces), (21, 1));
    }

    #[test]
    fn as_many_pieces_as_announced_tell_all_addresses() {
        let mut refresh = Refresh::default();
        let piece = |refresh: &mut Refresh, second| {
            let now = Time::from_secs(second);
            refresh
                .encode(now, hello(300), &NOBODY, LIMIT, 100)
                .unwrap()
        };
        for round in 0..3 {
            let first = piece(&mut refresh, 100 * round);
            let mut all = announced(&first);
            assert!(first.pieces > 2 && first.octets.len() <= LIMIT);
            for second in 1..first.pieces as u64 {
                let next = piece(&mut refresh, 100 * round + second);
                assert!(next.octets.len() <= LIMIT);
                all.extend(announced(&next));
            }
            assert_eq!(all.len(), 301, "round {round}");
        }
    }

    #[test]
    fn what_has_changed_goes_first() {
        let mut refresh = Refresh::default();
        let first = refresh
            .encode(Time::ZERO, hello(300), &NOBODY, LIMIT, 100)
            .unwrap();
        let mut changed = hello(300);
        let address = changed.addresses[1].prefix.addr;
        assert!(announced(&first).contains(&address));
        changed.addresses[1].tlvs[0].value = [link_status::LOST].into();
        for second in 1..first.pieces as u64 - 1 {
            let now = Time::from_secs(second);
            let next = refresh
                .encode(now, changed.clone(), &NOBODY, LIMIT, 100)
                .unwrap();
            assert_eq!(announced(&next).contains(&address), second == 1);
        }
    }

    #[test]
    fn too_many_addresses_for_the_interval_make_longer_hellos() {
        let piece = Refresh::default().encode(Time::ZERO, hello(300), &NOBODY, LIMIT, 2);
        let piece = piece.unwrap();
        assert_eq!((announced(&piece).len(), piece.pieces), (151, 2));
        assert!(piece.octets.len() > LIMIT);
    }

    #[test]
    fn no_neighbourhood_is_too_large_to_be_told() {
        let piece = Refresh::default().encode(Time::ZERO, hello(16_384), &NOBODY, LIMIT, 1);
        assert!(piece.unwrap().octets.len() <= usize::from(u16::MAX));
    }

    #[test]
    fn own_addresses_that_fill_more_than_a_message_are_not_told() {
        let own = |n| entry(n, address_tlv::LOCAL_IF, local_if::THIS_IF);
        let mut hello = hello(0);
        hello.addresses = (0..30_000).map(own).collect();
        let piece = Refresh::default().encode(Time::ZERO, hello, &NOBODY, LIMIT, 1);
        assert!(piece.is_none());
    }

    #[test]
    fn neighbours_heard_once_do_not_keep_others_from_being_told() {
        let mut refresh = Refresh::default();
        let real = IpAddr::from((0x0a00_0000 + 300 * 0x0001_0305_u32).to_be_bytes());
        for round in 0..40_u32 {
            // Each HELLO announces new addresses, except for the last one.
            let mut hello = hello(300);
            for entry in &mut hello.addresses[1..300] {
                let IpAddr::V4(address) = entry.prefix.addr else {
                    continue;
                };
                entry.prefix.addr = IpAddr::from((address.to_bits() ^ (round << 16)).to_be_bytes());
            }
            let once = hello.addresses[1..300].iter();
            let once = once.map(|entry| entry.prefix.addr).collect();
            let now = Time::from_secs(100) + round * Duration::from_millis(200);
            let piece = refresh.encode(now, hello, &once, LIMIT, 100).unwrap();
            assert_eq!(
                announced(&piece).contains(&real),
                round % 6 == 0,
                "round {round}"
            );
            assert!(
                announced(&piece).len() > 2,
                "the HELLO must report the other neighbours as well"
            );
        }
    }
}
