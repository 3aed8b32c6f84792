//! The admin API survives any datagram; its answers are bencoding of bounded length, and what is not authenticated changes
//! nothing.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use cjdns_admin::{
    Ask, Beacon, Connect, Interface, Listed, Node, Now, Page, Password, Peer, Refused, Router,
    Server, Session, Ticket, MAX_ANSWER,
};
use cryptoauth::{Address, PublicKey};
use libfuzzer_sys::fuzz_target;
use overlay::bencode::Value;
use overlay::Contact;
use switch::Label;

/// The cookie of the recorded requests: their hashes are right at that time.
const RECORDED_AT: Duration = Duration::from_secs(1_753_107_757);

fuzz_target!(|octets: &[u8]| {
    let now = Now {
        monotonic: RECORDED_AT,
        unix: RECORDED_AT,
    };
    let password = Password::new(b"NONE").expect("not empty");
    let mut server = Server::new(Some(password));
    let from = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut router = Alone::default();
    let answer = server.handle(now, from, octets, &mut router);
    if let Some(answer) = &answer {
        assert!(answer.len() <= MAX_ANSWER);
        assert!(Value::decode(answer).is_ok());
    }
    let authentic = Value::decode(octets).is_ok_and(|value| {
        let fields = value.as_dictionary();
        fields.and_then(|fields| fields.string("q")) == Some(b"auth")
    });
    assert!(!router.changed || authentic);
});

/// A router that knows nobody.
#[derive(Default)]
struct Alone {
    changed: bool,
}

const NOTHING: usize = 0;

fn empty<T>() -> Listed<T> {
    Listed {
        entries: Vec::new(),
        total: NOTHING,
    }
}

impl Alone {
    fn change(&mut self) -> Result<(), Refused> {
        self.changed = true;
        Ok(())
    }
}

impl Router for Alone {
    fn key(&self) -> PublicKey {
        PublicKey::from_octets([9; 32])
    }

    fn process(&self) -> u32 {
        1
    }

    fn interfaces(&self, _: Page) -> Listed<Interface> {
        empty()
    }

    fn set_beacon(&mut self, _: u32, _: Beacon) -> Result<(), Refused> {
        self.change()
    }

    fn peers(&self, _: Page) -> Listed<Peer> {
        empty()
    }

    fn connect(&mut self, _: &Connect<'_>) -> Result<(), Refused> {
        self.change()
    }

    fn disconnect(&mut self, _: PublicKey) -> usize {
        self.changed = true;
        NOTHING
    }

    fn reset_peers(&mut self, _: Option<PublicKey>) {
        self.changed = true;
    }

    fn nodes(&self, _: Page) -> Listed<Node> {
        empty()
    }

    fn node(&self, _: Address) -> Option<Node> {
        None
    }

    fn node_by(&self, _: Label) -> Option<Contact> {
        None
    }

    fn handles(&self, _: Page) -> Listed<u32> {
        empty()
    }

    fn session(&self, _: u32) -> Option<Session> {
        None
    }

    fn session_with(&self, _: Address) -> Option<Session> {
        None
    }

    fn reset_session(&mut self, _: Address) -> bool {
        self.changed = true;
        false
    }

    fn users(&self, _: Page) -> Listed<Vec<u8>> {
        empty()
    }

    fn add_user(&mut self, _: Option<&[u8]>, _: &[u8], _: Option<Address>) -> Result<(), Refused> {
        self.change()
    }

    fn remove_user(&mut self, _: &[u8]) -> usize {
        self.changed = true;
        NOTHING
    }

    fn ask(&mut self, _: Ticket, _: &Ask<'_>) -> Result<(), Refused> {
        self.change()
    }
}
