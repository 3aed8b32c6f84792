//! Routers that another one announced as a host before they were heard themselves: the same node, with its next key
//! (docs/development/adr/0041).

use core::net::IpAddr;
use core::time::Duration;

use nhdp::Time;
use rfc5444::Prefix;

use super::Topology;

/// Longest time that a TC is on its way.
const TRANSIT: Duration = Duration::from_secs(1);

/// The router over which a host was reached when the host's own first TC arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub originator: IpAddr,
    /// Whether a card named the host then.
    pub had_card: bool,
}

impl Topology {
    /// Records who was the way to a router when its first TC was processed.
    pub(crate) fn set_predecessor(&mut self, originator: IpAddr, predecessor: Predecessor) {
        if let Some(node) = self.nodes.get_mut(&originator) {
            node.predecessor = Some(predecessor);
        }
    }

    /// Returns the predecessor of a host if it is this router, which speaks no more. One that goes on announcing the
    /// host is another node.
    pub(crate) fn predecessor(&self, originator: IpAddr, host: Prefix) -> Option<Predecessor> {
        let router = self.nodes.get(&host.addr)?;
        let announced = self.nodes.get(&originator)?.attached.get(&host)?;
        let predecessor = router.predecessor?;
        let is_over = announced.heard <= last_word(router.known_since);
        (predecessor.originator == originator && is_over).then_some(predecessor)
    }
}

/// Returns until when the last TC under the old key may arrive.
fn last_word(known_since: Time) -> Time {
    known_since + TRANSIT
}
