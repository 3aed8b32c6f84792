//! What can be asked about a session.

use super::exchange::Exchange;
use super::{Session, Stage};
use crate::sealed::Run;
use crate::{PublicKey, Received, UserId};

impl Session {
    /// Returns the peer's permanent key.
    pub fn peer(&self) -> &PublicKey {
        &self.peer
    }

    /// Returns the progress of the latest handshake.
    pub fn stage(&self) -> Stage {
        self.current.stage
    }

    /// Returns whether there are keys that the peer has confirmed, even if another handshake is in progress.
    pub fn is_established(&self) -> bool {
        let is = |exchange: &Exchange| exchange.stage == Stage::Established;
        is(&self.current) || self.existing.as_ref().is_some_and(is)
    }

    /// Returns the user as which the peer authenticated itself in its latest handshake.
    pub fn user(&self) -> Option<UserId> {
        self.user
    }

    /// Returns whether the peer waits for our handshake frame. Seal something soon.
    pub fn answer_due(&self) -> bool {
        self.answer_due
    }

    /// Returns the nonce of the next data frame, if data can be sealed.
    pub fn next_nonce(&self) -> Option<u32> {
        self.sending()
            .and_then(|exchange| exchange.run.as_ref())
            .map(Run::next_nonce)
    }

    /// Returns whether [`Session::seal_data`] has keys.
    pub fn has_keys(&self) -> bool {
        self.current.can_seal() || self.existing.is_some()
    }

    /// Returns the counters of frames received under the keys in use.
    pub fn received(&self) -> Received {
        let exchange = self.sending().unwrap_or(&self.current);
        exchange.run.as_ref().map(Run::received).unwrap_or_default()
    }
}
