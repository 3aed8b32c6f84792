//! Identifies what the event loop waits for.

use daemonkit::Code;

/// The descriptors of the event loop.
pub type Reactor = daemonkit::Reactor<Token>;

/// Identifies the descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// A signal arrived.
    Signal,
    /// The kernel has notices.
    Monitor,
    /// The text interface on a TCP port.
    Telnet,
    /// The text interface on a UNIX socket.
    Query,
    /// The socket on which readers of the change stream connect.
    ChangesListener,
    /// The IPv4 socket of the MANET interface with this index.
    MeshV4(u32),
    /// The IPv6 socket of the MANET interface with this index.
    MeshV6(u32),
    /// A reader of the change stream.
    Changes(u32),
    /// The kernel has notices about wireless stations.
    Stations,
    /// The worker thread has a report about wireless stations.
    Survey,
    /// The program that signs this router's messages has answered.
    Signer,
}

impl Code for Token {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Signal => (0, 0),
            Self::Monitor => (1, 0),
            Self::Telnet => (2, 0),
            Self::ChangesListener => (3, 0),
            Self::MeshV4(index) => (4, index),
            Self::MeshV6(index) => (5, index),
            Self::Query => (6, 0),
            Self::Changes(number) => (7, number),
            Self::Stations => (8, 0),
            Self::Survey => (9, 0),
            Self::Signer => (10, 0),
        };
        (kind << 32) | u64::from(number)
    }

    fn decode(code: u64) -> Option<Self> {
        let number = code as u32;
        Some(match code >> 32 {
            0 => Self::Signal,
            1 => Self::Monitor,
            2 => Self::Telnet,
            3 => Self::ChangesListener,
            4 => Self::MeshV4(number),
            5 => Self::MeshV6(number),
            6 => Self::Query,
            7 => Self::Changes(number),
            8 => Self::Stations,
            9 => Self::Survey,
            10 => Self::Signer,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let tokens = [
            Token::Signal,
            Token::Monitor,
            Token::MeshV4(7),
            Token::MeshV6(u32::MAX),
            Token::Changes(9),
            Token::Stations,
            Token::Survey,
            Token::Signer,
        ];
        for token in tokens {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
        assert_eq!(Token::decode(u64::MAX), None);
    }
}
