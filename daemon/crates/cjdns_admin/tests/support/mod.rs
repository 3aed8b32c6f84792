//! A router that tells what node a of the recorded line reported, and notes what it is asked to do.
#![allow(dead_code)] // Each test file uses its part.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cjdns_admin::{
    Ask, Beacon, Connect, Control, Interface, InterfaceKind, Link, Listed, Node, Now, Page, Parent,
    Peer, PeerState, Refused, Router, Session, Ticket,
};
use cryptoauth::{Address, PublicKey, Received, Stage};
use overlay::{Contact, Query};
use switch::Label;

/// The cookie of the recordings: the time at which they were made.
pub const RECORDED_AT: Duration = Duration::from_secs(1_753_107_757);

pub const NOW: Now = Now {
    monotonic: RECORDED_AT,
    unix: RECORDED_AT,
};

pub fn caller(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The lines of a file of tests/vectors/cjdns.
pub fn vectors(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/cjdns");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// Name, request and answer of each recorded dialogue.
pub fn dialogues() -> Vec<[String; 3]> {
    let text = vectors("admin.dialogues");
    let one = |dialogue: &str| {
        let mut lines = dialogue.lines().map(String::from);
        [(); 3].map(|()| lines.next().unwrap())
    };
    text.split("== ").skip(1).map(one).collect()
}

pub fn key(text: &str) -> PublicKey {
    text.parse().unwrap()
}

pub fn a() -> PublicKey {
    key("hhvdz2fk15d0n8pdjmsz4gjfzsznts1y254nyrn97444um86j8n0.k")
}

pub fn b() -> Contact {
    Contact {
        key: key("y08gbq4bm48p3dg60n7k8h2qyk6qf0b490f5mk1lzgu0xz7xc850.k"),
        path: Label(0x13),
        version: 22,
    }
}

pub fn c() -> Contact {
    Contact {
        key: key("lhk1gzbt32470195wx7uvnur9q8gtzm69grctnxfhj7jsnqlysz0.k"),
        path: Label(0x133),
        version: 22,
    }
}

pub fn own() -> Contact {
    Contact {
        key: a(),
        path: Label::SELF,
        version: 22,
    }
}

/// A question as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Control(Label, Control, Vec<u8>),
    Query(Contact, Query),
}

#[derive(Default)]
pub struct Recorded {
    /// What was changed, in words.
    pub changes: Vec<String>,
    /// What was asked of other nodes.
    pub asked: Vec<(Ticket, Asked)>,
    /// Whether the next change or question is refused.
    pub refusing: bool,
    /// How often the one neighbour and the one user are there.
    pub copies: usize,
}

impl Recorded {
    fn change(&mut self, change: String) -> Result<(), Refused> {
        if self.refusing {
            return Err(Refused("not now".into()));
        }
        self.changes.push(change);
        Ok(())
    }

    fn copies(&self) -> usize {
        self.copies.max(1)
    }
}

fn text(octets: Option<&[u8]>) -> String {
    octets.map_or("-".into(), |octets| String::from_utf8_lossy(octets).into())
}

fn node(contact: Contact, cost: u32, age: u64, parent: Parent) -> Node {
    Node {
        contact,
        cost,
        heard: RECORDED_AT - Duration::from_millis(age),
        parent: Some(parent),
    }
}

fn session(contact: Contact, handle: u32, send_handle: u32, metric: u32) -> Session {
    Session {
        contact,
        stage: Stage::Established,
        handle,
        send_handle,
        metric,
        used: Duration::ZERO,
        received: Received::default(),
    }
}

impl Router for Recorded {
    fn key(&self) -> PublicKey {
        a()
    }

    fn process(&self) -> u32 {
        6685
    }

    fn interfaces(&self, page: Page) -> Listed<Interface> {
        let only = Interface {
            number: 0,
            kind: InterfaceKind::Udp4,
            bound: "10.99.1.1:5000".into(),
            beacon: Beacon::Off,
        };
        Listed::of([only].into_iter(), page)
    }

    fn set_beacon(&mut self, interface: u32, beacon: Beacon) -> Result<(), Refused> {
        self.change(format!("beacon {interface} {beacon:?}"))
    }

    fn peers(&self, page: Page) -> Listed<Peer> {
        let peer = Peer {
            contact: b(),
            lower: "10.99.1.2:5000".into(),
            interface: 0,
            state: PeerState::Stage(Stage::Established),
            incoming: false,
            user: Some(b"b".to_vec()),
            noise: false,
            heard: RECORDED_AT,
            octets_in: 1776,
            octets_out: 1740,
            kbps_in: 13,
            kbps_out: 13,
            received: Received::default(),
        };
        Listed::of(vec![peer; self.copies()].into_iter(), page)
    }

    fn connect(&mut self, peer: &Connect<'_>) -> Result<(), Refused> {
        let Connect {
            interface,
            target,
            key,
            version,
            ..
        } = peer;
        let words = [peer.password, peer.login, peer.name].map(text).join(" ");
        self.change(format!(
            "connect {interface} {target:?} {key} {words} {version:?}"
        ))
    }

    fn disconnect(&mut self, key: PublicKey) -> usize {
        self.changes.push(format!("disconnect {key}"));
        usize::from(key == b().key)
    }

    fn reset_peers(&mut self, key: Option<PublicKey>) {
        self.changes.push(format!("reset {key:?}"));
    }

    fn nodes(&self, page: Page) -> Listed<Node> {
        let all = [b(), c()].map(|contact| self.node(contact.key.address()).unwrap());
        Listed::of(all.into_iter(), page)
    }

    fn node(&self, address: Address) -> Option<Node> {
        let parent = |address| Parent {
            address,
            label: Label(0x13),
        };
        let all = [
            node(b(), 1024, 219, parent(a().address())),
            node(c(), 2048, 219, parent(b().key.address())),
        ];
        all.into_iter()
            .find(|node| node.contact.key.address() == address)
    }

    fn node_by(&self, way: Label) -> Option<Contact> {
        [b(), c()].into_iter().find(|contact| contact.path == way)
    }

    fn links(&self, parent: Address) -> Vec<Link> {
        let link = |parent: Contact, child: Contact| Link {
            parent,
            child,
            label: Label(0x13),
            cost: 1024,
            is_best: true,
        };
        let all = [link(own(), b()), link(b(), c()), link(c(), c())];
        all.into_iter()
            .filter(|link| link.parent.key.address() == parent)
            .collect()
    }

    fn answer(&self, query: Query) -> Vec<Contact> {
        match query {
            Query::Peers(_) => vec![own(), b()],
            Query::Find(_) => vec![c(), b()],
            Query::NextHop(_) => vec![b()],
            Query::Ping | Query::Found(_) => vec![],
        }
    }

    fn handles(&self, page: Page) -> Listed<u32> {
        Listed::of([96526, 96525].into_iter(), page)
    }

    fn session(&self, handle: u32) -> Option<Session> {
        match handle {
            96526 => Some(session(c(), 96526, 30638, 4_283_498_707)),
            96525 => Some(session(b(), 96525, 89311, 4_280_287_471)),
            _ => None,
        }
    }

    fn session_with(&self, address: Address) -> Option<Session> {
        (address == c().key.address()).then(|| session(c(), 96526, 30638, 4_283_498_708))
    }

    fn users(&self, page: Page) -> Listed<Vec<u8>> {
        let all = [&b"login-a"[..], b"Local Peers"].map(<[u8]>::to_vec);
        let all = vec![all; self.copies()].concat();
        Listed::of(all.into_iter(), page)
    }

    fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<(), Refused> {
        let words = [login, Some(password)].map(text).join(" ");
        self.change(format!("add {words} {only:?}"))
    }

    fn remove_user(&mut self, login: &[u8]) -> usize {
        self.changes.push(format!("remove {}", text(Some(login))));
        usize::from(login == b"login-a")
    }

    fn ask(&mut self, ticket: Ticket, ask: &Ask<'_>) -> Result<(), Refused> {
        if self.refusing {
            return Err(Refused("not now".into()));
        }
        let asked = match *ask {
            Ask::Control {
                path,
                control,
                opaque,
            } => Asked::Control(path, control, opaque.to_vec()),
            Ask::Query { to, query } => Asked::Query(to, query),
        };
        self.asked.push((ticket, asked));
        Ok(())
    }
}
