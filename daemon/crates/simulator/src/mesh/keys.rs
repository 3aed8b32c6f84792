//! Keys of nodes, and the signing of what their routers send.

use std::net::Ipv6Addr;

use icv::{address_of, Signer};
use olsrv2::{Router, Time};

use super::{Mesh, NodeId};

/// Counters that a restart skips, because they may have been used.
const RESERVED: u64 = 4096;

/// A node's private key, and the counter of the last message that it signed.
#[derive(Debug)]
pub(super) struct Key {
    signer: Signer,
    address: Ipv6Addr,
    counter: u64,
}

impl Key {
    /// Returns a key that belongs to a number. Its address is in fc00::/8.
    fn new(number: u64) -> Self {
        let keys = (0_u64..).map(|attempt| {
            let mut seed = [0; icv::KEY_LENGTH];
            seed[..8].copy_from_slice(&number.to_be_bytes());
            seed[8..16].copy_from_slice(&attempt.to_be_bytes());
            Signer::new(&seed)
        });
        let with_address = |signer: Signer| {
            let address = address_of(&signer.public())?;
            (address.octets()[0] == 0xfc).then_some((signer, address))
        };
        let mut keys = keys.filter_map(with_address);
        let (signer, address) = keys.next().expect("one of 256 keys has such an address");
        Self {
            signer,
            address,
            counter: 0,
        }
    }

    /// Returns the address of the key in fd00::/8.
    pub(super) fn locator(&self) -> Ipv6Addr {
        let mut octets = self.address.octets();
        octets[0] = 0xfd;
        octets.into()
    }

    /// Continues with counters that were not used before.
    pub(super) fn restart(&mut self) {
        self.counter = (self.counter / RESERVED + 1) * RESERVED;
    }

    /// Signs all messages that wait for it.
    pub(super) fn sign_all(&mut self, now: Time, router: &mut Router) {
        while let Some(request) = router.poll_sign() {
            self.counter += 1;
            let floor = request.floor.unwrap_or(self.counter);
            let age = u32::try_from(self.counter - floor).unwrap_or(u32::MAX);
            if let Ok(signed) = self.signer.sign(&request.message, self.counter, age) {
                router.handle_signed(now, &request, &signed, self.counter);
            }
        }
    }
}

impl Mesh {
    /// Gives a node the key with this number, from which its originator follows, and restarts its router.
    pub fn give_key(&mut self, node: NodeId, number: u64) {
        self.nodes[node].key = Some(Key::new(number));
        self.start(node);
    }

    /// Gives a node another key while its router runs: from now on its messages are signed with it. Counters go on.
    pub fn change_key(&mut self, node: NodeId, number: u64) {
        let key = &mut self.nodes[node].key;
        let counter = key.as_ref().map_or(0, |key| key.counter);
        *key = Some(Key {
            counter,
            ..Key::new(number)
        });
        self.act(node, |router| router.set_signing(true));
    }

    /// Returns the originator and the public key that follow from the number of a key.
    pub fn identity(number: u64) -> (Ipv6Addr, [u8; icv::KEY_LENGTH]) {
        let key = Key::new(number);
        (key.locator(), key.signer.public())
    }

    /// Lets a node sign a message as its router does; for the tests of what an insider can do.
    ///
    /// # Panics
    ///
    /// If the node has no key, or the message is malformed.
    pub fn sign(&mut self, node: NodeId, message: &[u8]) -> Vec<u8> {
        let key = self.nodes[node].key.as_mut().expect("the node has a key");
        key.counter += 1;
        let signed = key.signer.sign(message, key.counter, 0);
        signed.expect("the message has room for a signature")
    }
}
