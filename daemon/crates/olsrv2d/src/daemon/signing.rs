//! Whether, and by whom, this router's messages are signed.

use olsrv2::Time;

use super::{random_seed, Daemon};
use crate::signer::Signer;

impl Daemon {
    /// Puts the configured signer in force. While it is away nothing is sent: what is configured to be signed never goes
    /// out unsigned.
    pub(super) fn set_signer(&mut self, now: Time) {
        let path = self.config.wanted_signer();
        self.signer = path.map(|path| Signer::new(path, now));
        self.router.set_signing(self.signer.is_some());
        self.router.set_token_secret(random_secret());
    }

    /// Seeks a signer that is away, and asks it for the next signature.
    pub(super) fn ask_for_signatures(&mut self, now: Time) {
        if let Some(signer) = &mut self.signer {
            signer.handle_timeout(now, &self.reactor);
            signer.ask(now, &mut self.router);
        }
    }

    pub(super) fn take_signatures(&mut self, now: Time) {
        if let Some(signer) = &mut self.signer {
            signer.serve(now, &mut self.router);
        }
    }
}

/// Returns a secret for tokens. Each part is a hash under another key, which follows from one that the kernel has given.
fn random_secret() -> [u8; icv::SECRET_LENGTH] {
    let mut secret = [0; icv::SECRET_LENGTH];
    for part in secret.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&random_seed().to_be_bytes());
    }
    secret
}
