//! Counts dropped frames and packets by cause, and those that passed.

/// Why a frame or packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Cause {
    /// A frame of the link was too short, or had an impossible length.
    LinkRunt,
    /// Data arrived from an address without a neighbour.
    LinkStranger,
    /// A handshake had no known password, or its key may not use it.
    LinkAuthentication,
    /// A tag was wrong: the frame was forged, damaged, or sealed under keys that no longer exist.
    LinkForged,
    /// A frame arrived before, or was too old to know.
    LinkReplayed,
    /// Data arrived before there were keys.
    LinkNoSession,
    /// A handshake was out of order, had another key than the link, or a weak one.
    LinkHandshake,
    /// The rate of handshakes exceeded the limit.
    LinkFlood,
    /// There was no space for another neighbour.
    LinkFull,
    /// An unconfirmed neighbour sent something other than control frames.
    LinkUnconfirmed,
    /// The link by which a frame should leave had no keys yet.
    LinkNotReady,
    /// A neighbour or a beacon announced an incompatible protocol version.
    LinkVersion,
    /// A beacon was malformed, or its interface does not accept beacons.
    Beacon,
    /// A frame ended inside the switch's header.
    SwitchRunt,
    /// A label named an interface that does not exist.
    SwitchNoInterface,
    /// A label had no space for the path back.
    SwitchNoReturn,
    /// A frame had passed too many switches, so there was a loop.
    SwitchTooFar,
    /// A control frame was malformed.
    ControlMalformed,
    /// The rate of control frames exceeded the limit.
    ControlFlood,
    /// A control frame answered no query of this node, or is never answered.
    ControlUnexpected,
    /// The rate of ERROR frames exceeded the limit.
    ErrorFlood,
    /// An inner frame ended inside a header, or its content was malformed.
    InnerMalformed,
    /// No session had the handle.
    InnerUnknownHandle,
    /// A tag was wrong in an inner session.
    InnerForged,
    /// An inner frame arrived before.
    InnerReplayed,
    /// A handshake of an inner session was out of order, or had an impossible key.
    InnerHandshake,
    /// The rate of handshakes of inner sessions exceeded the limit.
    InnerFlood,
    /// There was no space for another session.
    InnerFull,
    /// A handshake contained something other than a DHT message.
    InnerUnprotected,
    /// This node does not support the content type.
    InnerContent,
    /// A DHT message was malformed.
    DhtMalformed,
    /// A DHT message had too many values, or too deeply nested ones.
    DhtBomb,
    /// A DHT message had an incompatible protocol version.
    DhtVersion,
    /// A DHT message answered no query of this node, was late, or came from an unusable node.
    DhtUnexpected,
    /// The rate of DHT messages exceeded the limit.
    DhtFlood,
    /// A packet of this machine was not IPv6, or its lengths did not match.
    PacketMalformed,
    /// The source of a packet of this machine was not this node, or its destination not a node.
    PacketAddress,
    /// User data came from or was for a node with which none is exchanged.
    NotPermitted,
    /// A packet waited for its session and was replaced by a later one, or there was no space for it.
    PacketReplaced,
    /// A packet waited too long for its session.
    PacketExpired,
    /// The caller's buffer had too little space.
    Room,
    /// Too many messages of this node wait for [`Node::poll_transmit`](crate::Node::poll_transmit).
    QueueFull,
}

/// All causes, ordered by number, with their names for people and programs.
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
    /// Number of causes.
    pub const COUNT: usize = Self::QueueFull as usize + 1;

    /// Returns the name, in lower case with hyphens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        CAUSES[self as usize].1
    }
}

/// Numbers of dropped frames and packets by cause, and of those that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    dropped: [u64; Cause::COUNT],
    /// Frames that were forwarded from one neighbour to another.
    pub forwarded: u64,
    /// Packets delivered to this machine.
    pub delivered: u64,
    /// Packets that this machine sent.
    pub sent: u64,
}

impl Counters {
    /// Returns how many were dropped for a cause.
    #[must_use]
    pub const fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Returns every cause and how many were dropped for it.
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
