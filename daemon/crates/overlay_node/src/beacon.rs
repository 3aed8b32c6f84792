//! Beacons: `u32 protocol version | password[20] | public key[32]`.

use cryptoauth::{Credential, PublicKey, KEY_LENGTH};

/// Octets of a beacon.
pub const BEACON_LENGTH: usize = VERSION + PASSWORD + KEY_LENGTH;

/// The name under which everybody who heard a beacon comes in.
pub(crate) const LOGIN: &[u8] = b"Local Peers";

/// Octets of the password, of which all count.
pub(crate) const PASSWORD: usize = 20;

const VERSION: usize = 4;

/// What a node tells to everybody on its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// Its protocol version.
    pub version: u32,
    /// Its public key.
    pub key: PublicKey,
    pub(crate) password: [u8; PASSWORD],
}

impl Beacon {
    /// Decodes a beacon; octets after it are ignored. `None` when there are fewer than [`BEACON_LENGTH`].
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let (version, rest) = octets.split_first_chunk()?;
        let (password, rest) = rest.split_first_chunk()?;
        Some(Self {
            version: u32::from_be_bytes(*version),
            password: *password,
            key: PublicKey::from_octets(*rest.first_chunk()?),
        })
    }

    /// The octets of a beacon.
    #[must_use]
    pub fn encode(&self) -> [u8; BEACON_LENGTH] {
        let mut octets = [0; BEACON_LENGTH];
        octets[..VERSION].copy_from_slice(&self.version.to_be_bytes());
        octets[VERSION..VERSION + PASSWORD].copy_from_slice(&self.password);
        octets[VERSION + PASSWORD..].copy_from_slice(self.key.octets());
        octets
    }

    /// What is shown to its sender.
    pub(crate) fn credential(&self) -> Credential {
        Credential::login(LOGIN, &self.password)
    }
}
