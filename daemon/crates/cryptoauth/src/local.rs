//! What is ours in every session.

use crate::{Ciphers, Portable, PrivateKey, PublicKey, Users};

/// The node's key pair and those who may connect to it.
pub struct Local {
    private: PrivateKey,
    public: PublicKey,
    ciphers: &'static dyn Ciphers,
    /// Those who may connect.
    pub users: Users,
}

impl Local {
    /// A node with this key that nobody may connect to where authentication is required.
    pub fn new(private: PrivateKey) -> Self {
        let public = private.public();
        Self {
            private,
            public,
            ciphers: &Portable,
            users: Users::default(),
        }
    }

    /// The same with other ciphers for data frames than those of [`Portable`].
    pub fn with_ciphers(private: PrivateKey, ciphers: &'static dyn Ciphers) -> Self {
        Self {
            ciphers,
            ..Self::new(private)
        }
    }

    /// The node's public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn ciphers(&self) -> &'static dyn Ciphers {
        self.ciphers
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.private
    }
}
