//! Beacons: `u32 protocol version | password[20] | public key[32]`.

use cryptoauth::{Credential, PublicKey, KEY_LENGTH};

/// Length of a beacon in octets.
pub const BEACON_LENGTH: usize = VERSION + PASSWORD + KEY_LENGTH;

/// Login of everybody who connects because of a beacon.
pub(crate) const LOGIN: &[u8] = b"Local Peers";

/// Length of the password in octets. All of them are significant.
pub(crate) const PASSWORD: usize = 20;

const VERSION: usize = 4;

/// What a node announces to everybody on its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// The protocol version of the sender.
    pub version: u32,
    /// The public key of the sender.
    pub key: PublicKey,
    pub(crate) password: [u8; PASSWORD],
}

impl Beacon {
    /// Decodes a beacon and ignores octets after it. Returns `None` if there are fewer than [`BEACON_LENGTH`].
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

    /// Encodes the beacon.
    #[must_use]
    pub fn encode(&self) -> [u8; BEACON_LENGTH] {
        let mut octets = [0; BEACON_LENGTH];
        octets[..VERSION].copy_from_slice(&self.version.to_be_bytes());
        octets[VERSION..VERSION + PASSWORD].copy_from_slice(&self.password);
        octets[VERSION + PASSWORD..].copy_from_slice(self.key.octets());
        octets
    }

    /// Returns the credential to show to its sender.
    pub(crate) fn credential(&self) -> Credential {
        Credential::login(LOGIN, &self.password)
    }
}
