//! Identifies what the event loop waits for.

use daemonkit::Code;

/// The descriptors of the event loop.
pub type Reactor = daemonkit::Reactor<Token>;

/// Identifies the descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A signal arrived.
    Signal,
    /// The TUN device.
    Tun,
    /// An interface, by its number.
    Port(u16),
    /// A beacon socket of the interface with this number.
    Beacon(u16),
    /// The socket on which readers connect.
    Listener,
    /// A reader of the control socket.
    Reader(u32),
    /// The admin API.
    Admin,
    /// Notices about network devices.
    Links,
}

impl Code for Token {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Signal => (0, 0),
            Self::Tun => (1, 0),
            Self::Port(number) => (2, number.into()),
            Self::Listener => (3, 0),
            Self::Reader(number) => (4, number),
            Self::Beacon(number) => (5, number.into()),
            Self::Admin => (6, 0),
            Self::Links => (7, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn decode(code: u64) -> Option<Self> {
        let number = code as u32;
        Some(match code >> 32 {
            0 => Self::Signal,
            1 => Self::Tun,
            2 => Self::Port(number as u16),
            3 => Self::Listener,
            4 => Self::Reader(number),
            5 => Self::Beacon(number as u16),
            6 => Self::Admin,
            7 => Self::Links,
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
            Token::Tun,
            Token::Port(7),
            Token::Listener,
            Token::Reader(u32::MAX),
            Token::Beacon(3),
            Token::Admin,
            Token::Links,
        ];
        for token in tokens {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
        assert_eq!(Token::decode(u64::MAX), None);
    }
}
