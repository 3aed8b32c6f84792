//! What is ours in every session.

use crate::{PrivateKey, PublicKey, Users};

/// The node's key pair and those who may connect to it.
pub struct Local {
    private: PrivateKey,
    public: PublicKey,
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
            users: Users::default(),
        }
    }

    /// The node's public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.private
    }
}
