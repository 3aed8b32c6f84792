//! What was dropped, by cause, and what passed.

/// Why a frame or packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Cause {
    /// A frame of the link is too short, or of an impossible length.
    LinkRunt,
    /// Data from an address that is no neighbour's.
    LinkStranger,
    /// A handshake without a password that is known, or under a key that may not have it.
    LinkAuthentication,
    /// A tag is wrong: forged, damaged, or under keys that are gone.
    LinkForged,
    /// It came before, or is too old to know.
    LinkReplayed,
    /// Data before there are keys.
    LinkNoSession,
    /// A handshake that is out of order, under another key, or of a weak one.
    LinkHandshake,
    /// More handshakes than are worth the arithmetic.
    LinkFlood,
    /// There is no room for one more neighbour.
    LinkFull,
    /// Other things than a neighbour's control frames before the neighbour is confirmed.
    LinkUnconfirmed,
    /// The keys of the link by which a frame would leave are not there yet.
    LinkNotReady,
    /// A neighbour, or who sends a beacon, tells a version that cannot be spoken with.
    LinkVersion,
    /// A beacon that is malformed, or where none is wanted.
    Beacon,
    /// It ends inside the switch's header.
    SwitchRunt,
    /// A label that names an interface that does not exist.
    SwitchNoInterface,
    /// No room in the label for the way back.
    SwitchNoReturn,
    /// It passed too many switches: a loop.
    SwitchTooFar,
    /// A control frame that is malformed.
    ControlMalformed,
    /// More control frames than are answered.
    ControlFlood,
    /// An answer to nothing, or a question that is not answered.
    ControlUnexpected,
    /// More errors than are told.
    ErrorFlood,
    /// An inner frame that ends inside a header, or what it carries is malformed.
    InnerMalformed,
    /// A handle that names no session.
    InnerUnknownHandle,
    /// A wrong tag in an inner session.
    InnerForged,
    /// An inner frame that came before.
    InnerReplayed,
    /// A handshake of an inner session that is out of order, or of an impossible key.
    InnerHandshake,
    /// More handshakes of inner sessions than are worth the arithmetic.
    InnerFlood,
    /// There is no room for one more session.
    InnerFull,
    /// Other than a DHT message in a handshake.
    InnerUnprotected,
    /// A content type that this node does not have.
    InnerContent,
    /// A DHT message that is malformed.
    DhtMalformed,
    /// A DHT message with more values, or more of them in each other, than one can have.
    DhtBomb,
    /// A DHT message of a version that cannot be spoken with.
    DhtVersion,
    /// A DHT message that answers nothing that was asked, or comes too late, or whose sender is of no use.
    DhtUnexpected,
    /// More DHT messages than are taken.
    DhtFlood,
    /// A packet of this machine that is no IPv6 packet, or of which lengths do not match.
    PacketMalformed,
    /// A packet of this machine that is not from this node, or not to a node.
    PacketAddress,
    /// User data to or from a node with which none is exchanged.
    NotPermitted,
    /// A packet that waited for its session and was replaced by a later one, or for which there was no room.
    PacketReplaced,
    /// A packet that waited too long for its session.
    PacketExpired,
    /// The caller's buffer has too little room.
    Room,
    /// Too many things that this node says wait for [`Node::poll_transmit`](crate::Node::poll_transmit).
    QueueFull,
}

/// In the order of their numbers; the names are for people and programs.
const CAUSES: [(Cause, &str); Cause::COUNT] = [
    (Cause::LinkRunt, "link-runt"),
    (Cause::LinkStranger, "link-stranger"),
    (Cause::LinkAuthentication, "link-authentication"),
    (Cause::LinkForged, "link-forged"),
    (Cause::LinkReplayed, "link-replayed"),
    (Cause::LinkNoSession, "link-no-session"),
    (Cause::LinkHandshake, "link-handshake"),
    (Cause::LinkFlood, "link-flood"),
    (Cause::LinkFull, "link-full"),
    (Cause::LinkUnconfirmed, "link-unconfirmed"),
    (Cause::LinkNotReady, "link-not-ready"),
    (Cause::LinkVersion, "link-version"),
    (Cause::Beacon, "beacon"),
    (Cause::SwitchRunt, "switch-runt"),
    (Cause::SwitchNoInterface, "switch-no-interface"),
    (Cause::SwitchNoReturn, "switch-no-return"),
    (Cause::SwitchTooFar, "switch-too-far"),
    (Cause::ControlMalformed, "control-malformed"),
    (Cause::ControlFlood, "control-flood"),
    (Cause::ControlUnexpected, "control-unexpected"),
    (Cause::ErrorFlood, "error-flood"),
    (Cause::InnerMalformed, "inner-malformed"),
    (Cause::InnerUnknownHandle, "inner-unknown-handle"),
    (Cause::InnerForged, "inner-forged"),
    (Cause::InnerReplayed, "inner-replayed"),
    (Cause::InnerHandshake, "inner-handshake"),
    (Cause::InnerFlood, "inner-flood"),
    (Cause::InnerFull, "inner-full"),
    (Cause::InnerUnprotected, "inner-unprotected"),
    (Cause::InnerContent, "inner-content"),
    (Cause::DhtMalformed, "dht-malformed"),
    (Cause::DhtBomb, "dht-bomb"),
    (Cause::DhtVersion, "dht-version"),
    (Cause::DhtUnexpected, "dht-unexpected"),
    (Cause::DhtFlood, "dht-flood"),
    (Cause::PacketMalformed, "packet-malformed"),
    (Cause::PacketAddress, "packet-address"),
    (Cause::NotPermitted, "not-permitted"),
    (Cause::PacketReplaced, "packet-replaced"),
    (Cause::PacketExpired, "packet-expired"),
    (Cause::Room, "room"),
    (Cause::QueueFull, "queue-full"),
];

impl Cause {
    /// How many there are.
    pub const COUNT: usize = Self::QueueFull as usize + 1;

    /// Its name, in lower case with hyphens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        CAUSES[self as usize].1
    }
}

/// What was dropped, by cause, and what passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    dropped: [u64; Cause::COUNT],
    /// Frames that were forwarded from one neighbour to another.
    pub forwarded: u64,
    /// Packets that were given to this machine.
    pub delivered: u64,
    /// Packets that this machine sent.
    pub sent: u64,
}

impl Counters {
    /// How many were dropped for a cause.
    #[must_use]
    pub const fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Every cause and how many were dropped for it.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        CAUSES
            .iter()
            .map(|&(cause, _)| (cause, self.dropped(cause)))
    }

    pub(crate) fn drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            dropped: [0; Cause::COUNT],
            forwarded: 0,
            delivered: 0,
            sent: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_in_the_order_of_their_numbers() {
        for (index, (cause, _)) in CAUSES.iter().enumerate() {
            assert_eq!(*cause as usize, index);
        }
    }
}
