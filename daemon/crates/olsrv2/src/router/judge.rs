//! Whether a message is what its originator has sent: its signature and its counter.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use icv::{is_hash, Claim, Fault};
use nhdp::{InterfaceId, Time};
use rfc5444::{Message, RawMessage};

use super::input::is_neighbour;
use super::Router;
use crate::instance::Instance;
use crate::rate::Bucket;
use crate::seen::Seen;
use crate::signatures::{Proof, Signatures, TrustedKey};
use crate::speakers::{Refused, Way};

/// False signatures of a source that are verified: how many at once, and how many a second from then on. Each costs
/// about a tenth of a millisecond.
const FAILURES_OF_SOURCE: (u32, u32) = (16, 4);
/// The same for a neighbour, whose address may be forged: what it passes on for others must not drown in what is sent in
/// its name.
const FAILURES_OF_NEIGHBOUR: (u32, u32) = (256, 128);
/// The same for all sources that are no neighbours, together.
const FAILURES_OF_STRANGERS: (u32, u32) = (128, 64);
/// How many originators that are heard signing for the first time are verified at once, and how many a second from then
/// on. Keys cost nothing, so an attacker can invent any number of routers. Trusted and known routers are not counted.
const NEWCOMERS: (u32, u32) = (512, 128);
/// HELLOs that are verified beyond all that, because somebody lacks a link: of originators whose key is known, by their
/// cards or their TCs, how many for each and for all together; and of sources that were heard lately and have sent
/// nothing false. A flood from invented addresses is neither, so a newcomer is found by its second HELLO.
const OF_KNOWN: (u32, u32) = (2, 1);
const OF_ALL_KNOWN: (u32, u32) = (128, 64);
const OF_SEEN: (u32, u32) = (128, 64);
/// Beyond that, one message of so many is verified. Source addresses can be forged, so a flood under somebody's address
/// delays what he sends, but does not silence him.
const SAMPLE: u64 = 16;
/// Most sources whose failures are counted.
const MAX_SOURCES: usize = 512;

/// Verifies that the key of a claim has signed a message, and may speak for its originator.
pub type Verify = fn(&Claim, IpAddr, &[u8]) -> Result<(), Fault>;

/// What a message's signature says of its originator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// Nothing: the message is not signed, or signatures are not looked at.
    Unknown,
    /// The originator has sent it.
    Proven(Proof),
}

impl Author {
    pub(super) fn proof(self) -> Option<Proof> {
        match self {
            Self::Unknown => None,
            Self::Proven(proof) => Some(proof),
        }
    }
}

/// A message that claims a signature.
struct Claimed {
    source: (InterfaceId, IpAddr),
    way: Way,
    originator: IpAddr,
    /// Its source is a symmetric neighbour.
    is_neighbour: bool,
    /// No key is known for its originator.
    is_new: bool,
}

/// The false signatures of each source, and the true ones of new originators, so that a flood of them costs bounded time.
#[derive(Debug)]
pub(super) struct Failures {
    sources: BTreeMap<(InterfaceId, IpAddr), Bucket>,
    strangers: Bucket,
    newcomers: Bucket,
    known: BTreeMap<IpAddr, Bucket>,
    all_known: Bucket,
    seen: Seen,
    all_seen: Bucket,
    /// Messages beyond the budgets.
    beyond: u64,
}

impl Failures {
    /// Starts with full budgets. `key` is secret.
    pub(super) fn new(now: Time, key: u64) -> Self {
        let bucket = |(burst, per_second)| Bucket::new(now, burst, per_second);
        Self {
            sources: BTreeMap::new(),
            strangers: bucket(FAILURES_OF_STRANGERS),
            newcomers: bucket(NEWCOMERS),
            known: BTreeMap::new(),
            all_known: bucket(OF_ALL_KNOWN),
            seen: Seen::new(now, key),
            all_seen: bucket(OF_SEEN),
            beyond: 0,
        }
    }

    /// Returns whether a message of a source is worth a verification. A neighbour's HELLOs always are: their rate is
    /// limited anyway, and without them the link ends.
    fn may_verify(&mut self, now: Time, claimed: &Claimed) -> bool {
        self.seen.expire(now);
        let own = self.sources.get(&claimed.source);
        let within = own.is_none_or(|own| own.has(now))
            && (claimed.is_neighbour || self.strangers.has(now))
            && (!claimed.is_new || self.newcomers.has(now));
        let is_hello = claimed.way != Way::Flooded;
        if within || is_hello && (claimed.is_neighbour || self.is_reserved(now, claimed)) {
            return true;
        }
        self.beyond += 1;
        self.beyond % SAMPLE == 0
    }

    /// Returns whether a HELLO of a source that is no neighbour is verified although all that is due to such sources is
    /// used up.
    fn is_reserved(&mut self, now: Time, claimed: &Claimed) -> bool {
        if !claimed.is_new && self.all_known.has(now) {
            if self.known.len() >= MAX_SOURCES {
                self.known.retain(|_, bucket| bucket.used(now) > 0);
            }
            let bucket = || Bucket::new(now, OF_KNOWN.0, OF_KNOWN.1);
            let is_full = self.known.len() >= MAX_SOURCES;
            let own = match self.known.get_mut(&claimed.originator) {
                None if is_full => None,
                _ => Some(self.known.entry(claimed.originator).or_insert_with(bucket)),
            };
            if own.is_some_and(|own| own.take(now)) {
                return self.all_known.take(now);
            }
        }
        let own = self.sources.get(&claimed.source);
        let is_again = self.seen.is_again(now, claimed.source);
        is_again && own.is_none_or(|own| own.used(now) == 0) && self.all_seen.take(now)
    }

    fn add(&mut self, now: Time, source: (InterfaceId, IpAddr), is_neighbour: bool) {
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            // Those that have regained all of their budget are as good as forgotten.
            self.sources.retain(|_, bucket| bucket.used(now) > 0);
        }
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            self.sources.pop_first();
        }
        let (burst, per_second) = if is_neighbour {
            FAILURES_OF_NEIGHBOUR
        } else {
            FAILURES_OF_SOURCE
        };
        let bucket = || Bucket::new(now, burst, per_second);
        self.sources.entry(source).or_insert_with(bucket).take(now);
        if !is_neighbour {
            self.strangers.take(now);
        }
    }
}

impl Router {
    /// Sets the keys of trusted routers by address. What others have signed under such an address is not believed.
    pub fn set_trusted_keys(&mut self, keys: BTreeMap<IpAddr, TrustedKey>) {
        self.speakers.set_trusted(keys);
        let instances = self.instances.iter_mut();
        instances.for_each(Instance::beliefs_changed);
    }

    /// Replaces [`Claim::verify`]. The routers of a simulation share what it returns, because all of them verify the same
    /// messages.
    pub fn set_verify(&mut self, verify: Verify) {
        self.verify = verify;
    }

    /// Returns who has sent a message, or `None` when it must be dropped. Counts why.
    pub(super) fn judge(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        way: Way,
        raw: &RawMessage,
        message: Option<&Message>,
    ) -> Option<Author> {
        if self.config.signatures == Signatures::Off {
            return Some(Author::Unknown);
        }
        let claim = message.map_or(Ok(None), |message| Claim::read(&message.tlvs));
        match (claim, raw.header.originator) {
            (Ok(None), originator) => self.judge_unsigned(now, originator),
            (Ok(Some(claim)), Some(originator)) => {
                self.judge_claim(now, origin, way, raw, originator, &claim)
            }
            (Ok(Some(_)), None) | (Err(_), _) => {
                self.counters.forged += 1;
                None
            }
        }
    }

    fn judge_unsigned(&mut self, now: Time, originator: Option<IpAddr>) -> Option<Author> {
        if self.config.signatures == Signatures::Require {
            self.counters.not_signed += 1;
            return None;
        }
        if originator.is_some_and(|originator| self.speakers.must_sign(now, originator)) {
            self.counters.forged += 1;
            return None;
        }
        Some(Author::Unknown)
    }

    /// Returns whether a HELLO may leave its originator to be found in its addresses. Nobody can have signed it.
    pub(super) fn may_be_implied(&mut self, now: Time, originator: IpAddr) -> bool {
        self.config.signatures == Signatures::Off
            || self.judge_unsigned(now, Some(originator)).is_some()
    }

    fn judge_claim(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        way: Way,
        raw: &RawMessage,
        originator: IpAddr,
        claim: &Claim,
    ) -> Option<Author> {
        match self.speakers.check(now, originator, claim, way) {
            Ok(()) => {}
            Err(Refused::Replayed) => {
                self.counters.replayed += 1;
                return None;
            }
            Err(Refused::OtherKey) => {
                self.counters.forged += 1;
                return None;
            }
        }
        if self.is_contested(now, originator, origin.1) {
            return self.judge_unsigned(now, Some(originator));
        }
        let claimed = Claimed {
            source: origin,
            way,
            originator,
            is_neighbour: is_neighbour(&self.instances, origin.0, origin.1),
            is_new: !self.speakers.is_bound(originator),
        };
        if !self.failures.may_verify(now, &claimed) {
            self.counters.rate_limited += 1;
            return None;
        }
        self.counters.verified += 1;
        if (self.verify)(claim, originator, raw.octets).is_err() {
            self.failures.add(now, origin, claimed.is_neighbour);
            self.counters.forged += 1;
            return None;
        }
        if claimed.is_new {
            self.failures.newcomers.take(now);
        }
        let limit = self.config.limits.nodes;
        let proof = self.speakers.accept(now, originator, claim, way, limit);
        Some(Author::Proven(proof))
    }

    /// Returns whether another router is heard without a signature under an originator that no key proves. A signature
    /// then says nothing: anybody could bind the originator to his own key. The router itself, once it signs, has sent
    /// nothing unsigned for a while, or sends from the address that is known.
    fn is_contested(&self, now: Time, originator: IpAddr, source: IpAddr) -> bool {
        if self.speakers.is_bound(originator) || is_hash(originator) {
            return false;
        }
        let rival = |one: &Instance| one.has_unsigned_neighbour(originator, source);
        self.instances.iter().any(rival) || self.speakers.is_heard_unsigned(now, originator)
    }

    /// Returns whether a message with this router's originator is signed by its key. Echoes of what this router has
    /// sent, by far the most of them, are recognised without arithmetic.
    pub(super) fn is_own_signature(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        raw: &RawMessage,
    ) -> bool {
        let message = raw.decode().ok();
        let claim = message.as_ref().map(|message| Claim::read(&message.tlvs));
        let Some(Ok(Some(claim))) = claim else {
            return false;
        };
        let is_of_other = self.own_key.is_some_and(|own| own != claim.key);
        self.counters.forged += u64::from(is_of_other);
        let newest = self.own_counters.newest();
        let is_echo = newest.is_some_and(|newest| claim.counter <= newest);
        if is_of_other || is_echo || self.own_key.is_none() {
            return false;
        }
        let author = self.judge(now, origin, Way::Flooded, raw, message.as_ref());
        author.is_some_and(|author| author.proof().is_some())
    }
}
