//! What the key signs: messages of this router that are not signed yet, each with a counter of its own.

use std::fmt;
use std::net::IpAddr;

use daemonkit::Time;
use icv::{is_hash, is_hash_of, Claim, Request, Signer};
use rfc5444::iana::message;
use rfc5444::{EncodeError, Message};

use crate::counter::Counter;
use crate::pace::Pace;

/// The key and its counter.
pub struct Key {
    signer: Signer,
    counter: Counter,
    pace: Pace,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Neither a floor nor a message can be read from it.
    Request,
    /// The message is not exactly one well-formed message.
    Message,
    /// The message is neither a HELLO nor a TC.
    Type,
    /// The message has no originator, or the address of another key.
    Originator,
    /// The message is signed already.
    Signed,
    /// The message would become too long.
    Length,
    /// There were too many before it.
    Pace,
    /// The floor has not been used yet.
    Floor,
    /// The disk keeps no counters.
    Disk(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the request cannot be read"),
            Self::Message => f.write_str("it is not exactly one message"),
            Self::Type => f.write_str("it is neither a HELLO nor a TC"),
            Self::Originator => f.write_str("the originator is not this node's"),
            Self::Signed => f.write_str("it is signed already"),
            Self::Length => f.write_str("it would be longer than 65535 octets"),
            Self::Pace => f.write_str("too many follow each other"),
            Self::Floor => f.write_str("its floor is above all counters"),
            Self::Disk(error) => write!(f, "no counter can be reserved: {error}"),
        }
    }
}

impl Key {
    /// Returns the key of a seed, with the counters that it has left.
    pub fn new(seed: &[u8; icv::KEY_LENGTH], counter: Counter) -> Self {
        Self {
            signer: Signer::new(seed),
            counter,
            pace: Pace::default(),
        }
    }

    /// Returns the counter and the signed message for a request, which may be anything.
    ///
    /// # Errors
    /// See [`Refusal`]. A message that is no message of this router takes no counter.
    pub fn sign(&mut self, now: Time, request: &[u8]) -> Result<(u64, Vec<u8>), Refusal> {
        let request = Request::read(request).ok_or(Refusal::Request)?;
        self.check(request.message)?;
        if !self.pace.admits(now) {
            return Err(Refusal::Pace);
        }
        let counter = self.counter.next();
        let counter = counter.map_err(|error| Refusal::Disk(error.to_string()))?;
        let age = counter.checked_sub(request.floor.unwrap_or(counter));
        let age = age.ok_or(Refusal::Floor)?.try_into().unwrap_or(u32::MAX);
        match self.signer.sign(request.message, counter, age) {
            Ok(signed) => Ok((counter, signed)),
            Err(EncodeError::Message(_)) => Err(Refusal::Message),
            Err(_) => Err(Refusal::Length),
        }
    }

    fn check(&self, octets: &[u8]) -> Result<(), Refusal> {
        let message = Message::decode(octets).map_err(|_| Refusal::Message)?;
        if !matches!(message.typ, message::HELLO | message::TC) {
            return Err(Refusal::Type);
        }
        let originator = message.originator.ok_or(Refusal::Originator)?;
        let is_own = match originator {
            IpAddr::V6(address) => is_hash_of(address, &self.signer.public()),
            IpAddr::V4(_) => false,
        };
        if is_hash(originator) && !is_own {
            return Err(Refusal::Originator);
        }
        match Claim::read(&message.tlvs) {
            Ok(None) => Ok(()),
            _ => Err(Refusal::Signed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use rfc5444::Tlv;

    use super::*;
    use crate::test_directory::Directory;

    /// Returns a counter that begins at 1000.
    fn counter(directory: &Directory) -> Counter {
        let path = directory.join("counter");
        std::fs::write(&path, "1000\n").unwrap();
        Counter::open(&path).unwrap()
    }

    /// Returns a key whose hash is a node's address, and that address.
    fn node(directory: &Directory) -> (Key, Ipv6Addr) {
        let mut seeds = (0..u64::MAX).map(|n| std::array::from_fn(|at| n.to_le_bytes()[at % 8]));
        let found = seeds.find_map(|seed| {
            let address = icv::address_of(&Signer::new(&seed).public())?;
            is_hash(address.into()).then_some((seed, address))
        });
        let (seed, address) = found.unwrap();
        (Key::new(&seed, counter(directory)), address)
    }

    fn request(message: &Message, floor: Option<u64>) -> Vec<u8> {
        let message = message.encode().unwrap();
        let request = Request {
            floor,
            message: &message,
        };
        request.frame()[4..].to_vec()
    }

    fn verify(signed: &[u8], originator: IpAddr) -> Claim {
        let message = Message::decode(signed).unwrap();
        let claim = Claim::read(&message.tlvs).unwrap().unwrap();
        claim.verify(originator, signed).unwrap();
        claim
    }

    #[test]
    fn hellos_and_tcs_of_this_node_are_signed_with_growing_counters() {
        let directory = Directory::new("good");
        let mut key = Key::new(&[7; 32], counter(&directory));
        let originator = Ipv4Addr::new(10, 0, 0, 1).into();
        for (n, typ) in [message::HELLO, message::TC, message::HELLO]
            .into_iter()
            .enumerate()
        {
            let message = Message::new(typ, originator);
            let floor = (n > 0).then_some(1000);
            let (counter, signed) = key.sign(Time::ZERO, &request(&message, floor)).unwrap();
            let claim = verify(&signed, originator);
            assert_eq!((claim.counter, claim.floor()), (counter, 1000.min(counter)));
            assert_eq!(counter, 1000 + n as u64);
        }
    }

    #[test]
    fn nothing_else_is_signed_and_no_counter_is_taken() {
        let directory = Directory::new("bad");
        let (mut key, own) = node(&directory);
        let other: IpAddr = "fc00::1".parse().unwrap();
        let tc = |originator| Message::new(message::TC, originator);
        let mut signed = tc(Ipv4Addr::new(10, 0, 0, 1).into());
        signed.tlvs.push(Tlv::new(
            rfc5444::iana::message_tlv::ICV,
            icv::ICV_EXTENSION,
            vec![0; 96],
        ));
        let mut two = request(&tc(Ipv4Addr::LOCALHOST.into()), None);
        two.extend(tc(Ipv4Addr::LOCALHOST.into()).encode().unwrap());
        let refused = [
            (vec![0; 3], Refusal::Request),
            (vec![2; 40], Refusal::Request),
            (vec![0; 40], Refusal::Message),
            (two, Refusal::Message),
            (
                request(&Message::new(2, Ipv4Addr::LOCALHOST.into()), None),
                Refusal::Type,
            ),
            (
                request(&Message::without_originator(message::TC, 16), None),
                Refusal::Originator,
            ),
            (request(&tc(other), None), Refusal::Originator),
            (request(&signed, None), Refusal::Signed),
        ];
        for (octets, why) in refused {
            // The log has it.
            assert!(
                why.to_string().starts_with("it ") || why.to_string().starts_with("the "),
                "{why}"
            );
            assert_eq!(key.sign(Time::ZERO, &octets), Err(why));
        }
        assert_eq!(key.counter.next().unwrap(), 1000);
        let locator = Ipv6Addr::from(u128::from(own) ^ 1 << 120);
        for own in [own, locator] {
            assert!(
                key.sign(Time::ZERO, &request(&tc(own.into()), None))
                    .is_ok(),
                "{own}"
            );
        }
    }

    #[test]
    fn a_floor_that_nobody_can_have_used_is_refused() {
        let directory = Directory::new("floor");
        let mut key = Key::new(&[7; 32], counter(&directory));
        let message = Message::new(message::HELLO, Ipv4Addr::LOCALHOST.into());
        assert_eq!(
            key.sign(Time::ZERO, &request(&message, Some(2000))),
            Err(Refusal::Floor)
        );
        let (counter, signed) = key.sign(Time::ZERO, &request(&message, Some(0))).unwrap();
        assert_eq!(
            verify(&signed, Ipv4Addr::LOCALHOST.into()).age,
            counter as u32
        );
    }

    #[test]
    fn an_age_beyond_its_field_is_the_greatest_one() {
        let directory = Directory::new("age");
        for (floor, age) in [(1, u32::MAX), (0, u32::MAX), (2, u32::MAX - 1)] {
            let path = directory.join("counter");
            std::fs::write(&path, (1_u64 << 32).to_string()).unwrap();
            let mut key = Key::new(&[7; 32], Counter::open(&path).unwrap());
            let message = Message::new(message::HELLO, Ipv4Addr::LOCALHOST.into());
            let request = request(&message, Some(floor));
            let (_, signed) = key.sign(Time::ZERO, &request).unwrap();
            assert_eq!(verify(&signed, Ipv4Addr::LOCALHOST.into()).age, age);
        }
    }

    #[test]
    fn too_many_are_refused_and_later_ones_are_not() {
        let directory = Directory::new("pace");
        let mut key = Key::new(&[7; 32], counter(&directory));
        let message = Message::new(message::TC, Ipv4Addr::LOCALHOST.into());
        let request = request(&message, None);
        let all: Vec<_> = (0..600)
            .map(|_| key.sign(Time::ZERO, &request).is_ok())
            .collect();
        assert_eq!(all.iter().filter(|signed| **signed).count(), 500);
        assert_eq!(key.sign(Time::ZERO, &request), Err(Refusal::Pace));
        assert!(key.sign(Time::from_secs(1), &request).is_ok());
    }
}
