//! This node's part of every session.

use crate::{Ciphers, Portable, PrivateKey, PublicKey, Users};

/// The node's key pair and the users who may connect to it.
pub struct Local {
    private: PrivateKey,
    public: PublicKey,
    ciphers: &'static dyn Ciphers,
    /// The users who may connect.
    pub users: Users,
}

impl Local {
    /// Returns a node with this key and no users: nobody can connect where authentication is required.
    pub fn new(private: PrivateKey) -> Self {
        let public = private.public();
        Self {
            private,
            public,
            ciphers: &Portable,
            users: Users::default(),
        }
    }

    /// Returns the same, with other ciphers for data frames than [`Portable`].
    pub fn with_ciphers(private: PrivateKey, ciphers: &'static dyn Ciphers) -> Self {
        Self {
            ciphers,
            ..Self::new(private)
        }
    }

    /// Returns the node's public key.
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
