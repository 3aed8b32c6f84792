//! The admin API survives any datagram, and any arguments of an authenticated caller; its answers are bencoding of bounded
//! length, and what is not authenticated changes nothing.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use cjdns_admin::{
    Ask, Beacon, Connect, Interface, Link, Listed, Node, Now, Page, Password, Peer, Refused, Router,
    Server, Session, Ticket, MAX_ANSWER, MAX_REQUEST,
};
use cryptoauth::{Address, PublicKey};
use libfuzzer_sys::fuzz_target;
use overlay::bencode::{Dictionary, Value};
use overlay::{Contact, Query};
use sha2::{Digest, Sha256};
use switch::Label;

/// The cookie of the recorded requests: their hashes are right at that time.
const RECORDED_AT: Duration = Duration::from_secs(1_753_107_757);

const PASSWORD: &[u8] = b"NONE";

fuzz_target!(|octets: &[u8]| {
    let is_auth = |fields: &Dictionary| fields.string("q") == Some(b"auth");
    let value = Value::decode(octets).ok();
    let fields = value.as_ref().and_then(Value::as_dictionary);
    let changed = handle(octets);
    assert!(!changed || fields.is_some_and(is_auth));
    if let Some(fields) = fields {
        handle(&signed(fields));
    }
});

/// Whether a datagram changes something.
fn handle(datagram: &[u8]) -> bool {
    let now = Now {
        monotonic: RECORDED_AT,
        unix: RECORDED_AT,
    };
    let password = Password::new(PASSWORD).expect("not empty");
    let mut server = Server::new(Some(password));
    let from = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut router = Alone::default();
    if let Some(answer) = server.handle(now, from, datagram, &mut router) {
        assert!(answer.len() <= MAX_ANSWER);
        assert!(datagram.len() > MAX_REQUEST || Value::decode(&answer).is_ok());
    }
    router.changed
}

/// The same request as an authenticated caller sends it.
fn signed(fields: &Dictionary) -> Vec<u8> {
    let cookie = RECORDED_AT.as_secs().to_string();
    let inner = hex(&[PASSWORD, cookie.as_bytes()].concat());
    let mut fields = fields.clone();
    fields.insert(b"q", Value::String(b"auth"));
    fields.insert(b"cookie", Value::String(cookie.as_bytes()));
    fields.insert(b"hash", Value::String(inner.as_bytes()));
    let mut first = Vec::new();
    fields.encode(&mut first);
    let hash = hex(&first);
    fields.insert(b"hash", Value::String(hash.as_bytes()));
    let mut out = Vec::new();
    fields.encode(&mut out);
    out
}

fn hex(octets: &[u8]) -> String {
    let hash = Sha256::digest(octets);
    hash.iter().map(|octet| format!("{octet:02x}")).collect()
}

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

    fn links(&self, _: Address) -> Vec<Link> {
        Vec::new()
    }

    fn answer(&self, _: Query) -> Vec<Contact> {
        Vec::new()
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
