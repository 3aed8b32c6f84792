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

    /// Returns how far an address is believed that a router advertises for another one and that is no originator, or
    /// `None` when it may not be advertised. Nobody proves such an address.
    pub(crate) fn tier_of_advertised(&self, address: IpAddr) -> Option<Tier> {
        match self.signatures {
            Signatures::Off => Some(Tier::Confirmed),
            Signatures::Prefer => (!self.must_sign(address)).then_some(Tier::Claimed),
            Signatures::Require => None,
        }
    }

    /// Returns how far it is believed that a host is the router's own that announces it, or `None` when it may not.
    ///
    /// A key speaks for its own hash, and for an address that is no hash and that no card or other key has. A trusted
    /// router also announces the address of its next key (docs/development/adr/0041), which has signed nothing yet, or
    /// `succeeds` it. Where signatures are preferred, the word of any other router about such an address is that of one
    /// that does not sign.
    pub(crate) fn tier_of_host(
        &self,
        originator: IpAddr,
        host: IpAddr,
        succeeds: bool,
    ) -> Option<Tier> {
        let is_next = succeeds || is_hash(host) && !self.speakers.signs_by_card(host);
        let proven = match self.speakers.key(originator) {
            _ if self.signatures == Signatures::Off => true,
            Some(key) => {
                self.may_have(key, host) || is_next && self.speakers.is_trusted(originator)
            }
            None => false,
        };
        let is_free = succeeds || !self.must_sign(host);
        let claimed = self.signatures == Signatures::Prefer && is_free;
        match proven {
            true => Some(Tier::Confirmed),
            false => claimed.then_some(Tier::Claimed),
        }
    }

    /// Returns whether an address may belong to a key: those in fc00::/7 are hashes, and of the others a card says it, or
    /// who has used them lately.
    fn may_have(&self, key: &[u8; KEY_LENGTH], address: IpAddr) -> bool {
        match address {
            IpAddr::V6(host) if is_hash(address) => is_hash_of(host, key),
            _ => !self.speakers.is_of_other(self.now, address, key),
        }
    }

    /// Returns whether a host may be the next key of the router over which it was reached when it was first heard. A card
    /// that came later, and says that the host signs, ends what was believed before.
    pub(crate) fn may_succeed(&self, host: IpAddr, had_card: bool) -> bool {
        had_card || !self.speakers.signs_by_card(host)
    }

    fn must_sign(&self, originator: IpAddr) -> bool {
        self.speakers.must_sign(self.now, originator)
    }
}
