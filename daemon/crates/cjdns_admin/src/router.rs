//! What a router tells to the admin API, and what it does for it.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use overlay::{Contact, Query};
use switch::{Label, Scheme};

/// A router as the admin API sees it.
///
/// Lists are asked for by page, so that a long one costs no more than what is told of it; their
/// order must not change while nothing else does. Times are monotonic, as those that the
/// router knows its own events by.
pub trait Router {
    /// The router's public key.
    fn key(&self) -> PublicKey;

    /// The identifier of the router's process.
    fn process(&self) -> u32;

    /// The interfaces to other routers, by number.
    fn interfaces(&self, page: Page) -> Listed<Interface>;

    /// Turns beacons of an interface on or off.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    fn set_beacon(&mut self, interface: u32, beacon: Beacon) -> Result<(), Refused>;

    /// The neighbours, connected or not.
    fn peers(&self, page: Page) -> Listed<Peer>;

    /// Connects to a neighbour.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    fn connect(&mut self, peer: &Connect<'_>) -> Result<(), Refused>;

    /// Forgets the neighbours with a key; tells how many there were.
    fn disconnect(&mut self, key: PublicKey) -> usize;

    /// Shakes hands anew with the neighbours that have a key, or with all.
    fn reset_peers(&mut self, key: Option<PublicKey>);

    /// The nodes that are known, this one not counted.
    fn nodes(&self, page: Page) -> Listed<Node>;

    /// A node that is known.
    fn node(&self, address: Address) -> Option<Node>;

    /// The node that a way leads to, if it is known.
    fn node_by(&self, way: Label) -> Option<Contact>;

    /// The links that begin at a node, as far as they are known; none when the node is not known.
    fn links(&self, parent: Address) -> Vec<Link>;

    /// What this router itself answers to a query; labels begin here, the lowest or the nearest first.
    fn answer(&self, query: Query) -> Vec<Contact>;

    /// The handles by which other nodes write to this one's sessions.
    fn handles(&self, page: Page) -> Listed<u32>;

    /// The session of a handle.
    fn session(&self, handle: u32) -> Option<Session>;

    /// The session with a node.
    fn session_with(&self, address: Address) -> Option<Session>;

    /// The logins of those who may connect.
    fn users(&self, page: Page) -> Listed<Vec<u8>>;

    /// Lets everybody connect who knows a password, by this login; with `only`, if the key has that address.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<(), Refused>;

    /// Lets nobody connect by a login any more; tells how many users had it.
    fn remove_user(&mut self, login: &[u8]) -> usize;

    /// Asks another node. Its answer goes to [`Server::complete`](crate::Server::complete), with the ticket; what
    /// comes later than that, or twice, is ignored there.
    ///
    /// # Errors
    ///
    /// The reason, for people; then there is no answer.
    fn ask(&mut self, ticket: Ticket, ask: &Ask<'_>) -> Result<(), Refused>;
}

/// Why a router does not do something, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The index of its first entry.
    pub first: usize,
    /// How many entries it has at most.
    pub size: usize,
}

/// The entries of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// Those of the page: none behind the list's end.
    pub entries: Vec<T>,
    /// How many there are in all.
    pub total: usize,
}

/// An interface to other routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub number: u32,
    /// What it is.
    pub kind: InterfaceKind,
    /// The address or the device that it is bound to.
    pub bound: String,
    /// What it does with beacons.
    pub beacon: Beacon,
}

/// What carries the frames of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// Ethernet.
    Ethernet,
}

/// What an interface does with beacons, by which neighbours find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beacon {
    /// Nothing.
    Off,
    /// It connects to those that it hears.
    Accept,
    /// It sends some, too.
    Send,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key, protocol version and the way to it; 0 where they are not known.
    pub contact: Contact,
    /// Its address of the layer below.
    pub lower: String,
    /// The number of the interface to it.
    pub interface: u32,
    /// How far the connection is.
    pub state: PeerState,
    /// Whether it is the neighbour who connected.
    pub incoming: bool,
    /// The login by which it connected, or the name that it was given.
    pub user: Option<Vec<u8>>,
    /// Whether the connection has the Noise handshake.
    pub noise: bool,
    /// When it was last heard.
    pub heard: Duration,
    /// Octets of frames from it.
    pub octets_in: u64,
    /// Octets of frames to it.
    pub octets_out: u64,
    /// Kilobits in a second, from it.
    pub kbps_in: u32,
    /// Kilobits in a second, to it.
    pub kbps_out: u32,
    /// What its keys opened.
    pub received: cryptoauth::Received,
}

/// How far a connection or session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Of its handshake.
    Stage(cryptoauth::Stage),
    /// It came by itself, and has not proved yet that it holds its key.
    Unauthenticated,
    /// It stood and is silent now.
    Unresponsive,
    /// Its protocol version is none that can be spoken with.
    Incompatible,
}

/// A neighbour to connect to. Never formatted.
pub struct Connect<'a> {
    /// The number of the interface, of those of its kind.
    pub interface: u32,
    /// Where it is.
    pub target: Target,
    /// Its public key.
    pub key: PublicKey,
    /// The password to show, if any.
    pub password: Option<&'a [u8]>,
    /// The login that names the password.
    pub login: Option<&'a [u8]>,
    /// A name for people.
    pub name: Option<&'a [u8]>,
    /// Its protocol version, when the caller knows it.
    pub version: Option<u32>,
}

/// Where a neighbour is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// UDP.
    Udp(SocketAddr),
    /// Ethernet.
    Ethernet([u8; 6]),
}

/// A node that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its key, protocol version and the best way to it.
    pub contact: Contact,
    /// What that way costs: of two nodes, the one with less is the nearer one.
    pub cost: u32,
    /// When it last answered or was told of.
    pub heard: Duration,
    /// The node before it on that way, if known.
    pub parent: Option<Parent>,
}

/// A link from a node to one of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node at which it begins, and the way there.
    pub parent: Contact,
    /// The node at which it ends, and the way there through the parent.
    pub child: Contact,
    /// The label of the child, relative to the parent.
    pub label: Label,
    /// What the link costs.
    pub cost: u32,
    /// Whether the best way to the child uses this link.
    pub is_best: bool,
}

/// The node before another on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its address.
    pub address: Address,
    /// From there on.
    pub label: Label,
}

/// An inner session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The other node's key, protocol version and the way to it; 0 where they are not known.
    pub contact: Contact,
    /// How far the session is.
    pub stage: cryptoauth::Stage,
    /// By which the other node writes to this one.
    pub handle: u32,
    /// By which this node writes to the other one; 0 while it is not known.
    pub send_handle: u32,
    /// What the way costs.
    pub metric: u32,
    /// When it was last used.
    pub used: Duration,
    /// What its keys opened.
    pub received: cryptoauth::Received,
}

/// Names a question to another node; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A question to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// By a control frame, to the switch at the end of a way.
    Control {
        /// The way.
        path: Label,
        /// What is asked.
        control: Control,
        /// Octets that come back.
        opaque: &'a [u8],
    },
    /// By a DHT message.
    Query {
        /// Whom.
        to: Contact,
        /// What.
        query: Query,
    },
}

/// What a switch is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Whether it is there.
    Ping,
    /// Its public key.
    Key,
    /// Its supernode.
    Snode,
    /// The way back.
    ReturnPath,
    /// As which address of the layer below it sees this node.
    Lower,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To [`Ask::Control`]: an answer.
    Pong(Pong),
    /// To [`Ask::Control`]: a switch refused the frame.
    Error(switch::ErrorCode),
    /// To [`Ask::Query`]: an answer.
    Reply {
        /// The answerer's protocol version.
        version: u32,
        /// Its encoding scheme.
        scheme: Scheme,
        /// The nodes that it tells of, relative to itself.
        nodes: Vec<Contact>,
    },
    /// None.
    Silence,
}

/// A switch's answer. What was not asked is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// The switch's protocol version.
    pub version: u32,
    /// The octets that came back.
    pub opaque: Vec<u8>,
    /// The switch's public key.
    pub key: Option<PublicKey>,
    /// The switch's supernode.
    pub snode: Option<Contact>,
    /// The way back from the switch.
    pub return_path: Option<Label>,
    /// This node's address of the layer below.
    pub lower: Option<String>,
}

impl<T> Listed<T> {
    /// A page of what is there in whole.
    pub fn of(mut all: impl ExactSizeIterator<Item = T>, page: Page) -> Self {
        let total = all.len();
        if page.first > 0 {
            all.nth(page.first - 1);
        }
        Self {
            entries: all.take(page.size).collect(),
            total,
        }
    }
}
