//! How far a link is believed, and which beliefs routes may rest on.

use core::net::IpAddr;

use icv::{is_hash, is_hash_of, KEY_LENGTH};
use nhdp::Time;

use crate::belief::Witnesses;
use crate::signatures::Signatures;
use crate::speakers::Speakers;

/// How far a link is believed, the best first. A path uses a worse tier only to where no better one leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// Both ends have signed it lately.
    Confirmed,
    /// One end claims it, and nothing contradicts.
    Claimed,
    /// Its far end denies it, or may not have advertised its neighbours since it appeared.
    Denied,
    /// Its far end signs, and has not signed this link.
    Forged,
}

/// What signatures mean for the routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    pub signatures: Signatures,
    pub speakers: &'a Speakers,
    pub now: Time,
}

impl Signed<'_> {
    /// Returns the tiers that routes may use, the best first.
    pub(crate) fn tiers(&self) -> &'static [Tier] {
        match self.signatures {
            Signatures::Require => &[Tier::Confirmed],
            Signatures::Prefer | Signatures::Off => &[Tier::Confirmed, Tier::Claimed, Tier::Denied],
        }
    }

    /// Returns the tier of the link to a neighbour. That a neighbour which signs has heard this router lately was seen
    /// before its link became symmetric.
    pub(crate) fn tier_of_neighbour(&self, signs: bool) -> Tier {
        match self.signatures {
            Signatures::Off => Tier::Confirmed,
            _ if signs => Tier::Confirmed,
            _ => Tier::Claimed,
        }
    }

    /// Returns the tier of a link between other routers, which `to` has or has not `denied`.
    pub(crate) fn tier(
        &self,
        witnesses: &Witnesses,
        from: IpAddr,
        to: IpAddr,
        denied: bool,
    ) -> Tier {
        match self.signatures {
            Signatures::Off if denied => Tier::Denied,
            Signatures::Off => Tier::Confirmed,
            _ if !denied && witnesses.is_confirmed(from, to) => Tier::Confirmed,
            _ if self.must_sign(to) && !witnesses.is_signed_by(from, to) => Tier::Forged,
            _ if denied => Tier::Denied,
            _ => Tier::Claimed,
        }
    }

    /// Returns whether a router may advertise an address of another one that is no originator.
    pub(crate) fn may_advertise(&self, address: IpAddr) -> bool {
        match self.signatures {
            Signatures::Off => true,
            Signatures::Prefer => !self.must_sign(address),
            Signatures::Require => false,
        }
    }

    /// Returns how far it is believed that a host is the router's own that announces it, or `None` when it may not.
    ///
    /// A key speaks for its own hash. A trusted router also announces the address of its next key
    /// (docs/development/adr/0041), which has signed nothing yet. Where signatures are preferred, the word of any other
    /// router about an address that has not been seen to sign is that of one that does not sign.
    pub(crate) fn tier_of_host(&self, originator: IpAddr, host: IpAddr) -> Option<Tier> {
        let key = self.speakers.key(originator);
        let by_card = key.is_some() && self.speakers.is_trusted(originator);
        let proven = match key {
            _ if self.signatures == Signatures::Off => true,
            Some(_) if by_card => host == originator || !self.speakers.signs_by_card(host),
            Some(key) => may_have(key, host),
            None => false,
        };
        let claimed = self.signatures == Signatures::Prefer && !by_card && !self.must_sign(host);
        match proven {
            true => Some(Tier::Confirmed),
            false => claimed.then_some(Tier::Claimed),
        }
    }

    fn must_sign(&self, originator: IpAddr) -> bool {
        self.signatures != Signatures::Off && self.speakers.must_sign(self.now, originator)
    }
}

/// Returns whether an address may belong to a key: those in fc00::/7 are hashes.
fn may_have(key: &[u8; KEY_LENGTH], address: IpAddr) -> bool {
    match address {
        IpAddr::V6(host) if is_hash(address) => is_hash_of(host, key),
        _ => true,
    }
}
