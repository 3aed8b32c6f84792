//! Why a TC is refused.

use core::fmt;

use rfc5444::Prefix;

/// Why a TC is invalid (RFC 7181, section 16.3.1). All are the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcError {
    /// Originator or sequence number is missing, or the hop count on which times depend.
    Header,
    /// VALIDITY_TIME missing, repeated or of a malformed value.
    ValidityTime,
    /// INTERVAL_TIME repeated.
    IntervalTime,
    /// CONT_SEQ_NUM repeated, of a malformed value, or missing although something is advertised.
    ContSeqNum,
    /// An originator that is a network.
    OriginatorPrefix(Prefix),
    /// A routable address that is not routable.
    NotRoutable(Prefix),
    /// The message's originator as advertised.
    OwnOriginator(Prefix),
    /// An address with two values of one TLV.
    Contradiction(Prefix),
    /// An address that is a neighbour's and an attached network.
    NeighbourAndAttached(Prefix),
}

impl fmt::Display for TcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("originator, sequence number or hop count missing"),
            Self::ValidityTime => f.write_str("not exactly one VALIDITY_TIME with a valid value"),
            Self::IntervalTime => f.write_str("INTERVAL_TIME repeated"),
            Self::ContSeqNum => f.write_str("not exactly one CONT_SEQ_NUM of two octets"),
            Self::OriginatorPrefix(prefix) => {
                write!(f, "{prefix} is an originator and not a single address")
            }
            Self::NotRoutable(prefix) => write!(f, "{prefix} is not routable"),
            Self::OwnOriginator(prefix) => write!(f, "{prefix} is the message's own originator"),
            Self::Contradiction(prefix) => write!(f, "two values of one TLV for {prefix}"),
            Self::NeighbourAndAttached(prefix) => {
                write!(f, "{prefix} is both a neighbour and an attached network")
            }
        }
    }
}
