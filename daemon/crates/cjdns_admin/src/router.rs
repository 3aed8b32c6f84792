//! The interface between the admin API and the router: the data that a router provides, and the changes that it carries
//! out.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use overlay::{Contact, Query};
use switch::{Label, Scheme};

/// A router, as the admin API uses it.
///
/// Lists are requested by page, so that the cost of a long list depends only on the page. Their order must not change
/// while nothing else does. Times are monotonic and come from the clock with which the router records its events.
pub trait Router {
    /// Returns the router's public key.
    fn key(&self) -> PublicKey;

    /// Returns the identifier of the router's process.
    fn process(&self) -> u32;

    /// Returns the interfaces to other routers, by number.
    fn interfaces(&self, page: Page) -> Listed<Interface>;

    /// Sets what an interface does with beacons.
    ///
    /// # Errors
    ///
    /// The error is the reason, for people.
    fn set_beacon(&mut self, interface: u32, beacon: Beacon) -> Result<(), Refused>;

    /// Returns the neighbours, connected or not.
    fn peers(&self, page: Page) -> Listed<Peer>;

    /// Connects to a neighbour.
    ///
    /// # Errors
    ///
    /// The error is the reason, for people.
    fn connect(&mut self, peer: &Connect<'_>) -> Result<(), Refused>;

    /// Removes the neighbours with a key. Returns how many there were.
    fn disconnect(&mut self, key: PublicKey) -> usize;

    /// Repeats the handshake with the neighbours that have a key, or with all.
    fn reset_peers(&mut self, key: Option<PublicKey>);

    /// Returns the known nodes, without this one.
    fn nodes(&self, page: Page) -> Listed<Node>;

    /// Returns a node if it is known.
    fn node(&self, address: Address) -> Option<Node>;

    /// Returns the node at the end of a path, if it is known.
    fn node_by(&self, way: Label) -> Option<Contact>;

    /// Returns the known links that start at a node; none if the node is unknown.
    fn links(&self, parent: Address) -> Vec<Link>;

    /// Returns this router's own answer to a query. Labels start here; the lowest or the nearest node is first.
    fn answer(&self, query: Query) -> Vec<Contact>;

    /// Returns the handles with which other nodes send to this node's sessions.
    fn handles(&self, page: Page) -> Listed<u32>;

    /// Returns the session of a handle.
    fn session(&self, handle: u32) -> Option<Session>;

    /// Returns the session with a node.
    fn session_with(&self, address: Address) -> Option<Session>;

    /// Returns the logins of the users that may connect.
    fn users(&self, page: Page) -> Listed<Vec<u8>>;

    /// Adds a user: everybody who knows the password may connect with this login. With `only`, the key must have that
    /// address.
    ///
    /// # Errors
    ///
    /// The error is the reason, for people.
    fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<(), Refused>;

    /// Removes the users with a login. Returns how many there were.
    fn remove_user(&mut self, login: &[u8]) -> usize;

    /// Asks another node. The caller passes the answer and the ticket to [`Server::complete`](crate::Server::complete),
    /// which ignores late and repeated answers.
    ///
    /// # Errors
    ///
    /// The error is the reason, for people. There is no answer then.
    fn ask(&mut self, ticket: Ticket, ask: &Ask<'_>) -> Result<(), Refused>;
}

/// The reason, for people, why a router refuses something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Index of its first entry.
    pub first: usize,
    /// Largest number of its entries.
    pub size: usize,
}

/// The entries of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// Entries of the page; empty after the end of the list.
    pub entries: Vec<T>,
    /// Number of entries of the whole list.
    pub total: usize,
}

/// An interface to other routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub number: u32,
    /// What carries its frames.
    pub kind: InterfaceKind,
    /// Address or device that it is bound to.
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

/// What an interface does with beacons, through which neighbours find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beacon {
    /// Nothing.
    Off,
    /// It connects to the senders of the beacons that it receives.
    Accept,
    /// It also sends beacons.
    Send,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key, protocol version and path; 0 where they are unknown.
    pub contact: Contact,
    /// Its address in the layer below.
    pub lower: String,
    /// The number of the interface to it.
    pub interface: u32,
    /// State of the connection.
    pub state: PeerState,
    /// Whether the neighbour started the connection.
    pub incoming: bool,
    /// The login with which it connected, or its configured name.
    pub user: Option<Vec<u8>>,
    /// Whether the connection uses the Noise handshake.
    pub noise: bool,
    /// Time at which it was last heard.
    pub heard: Duration,
    /// Bytes of frames from it.
    pub octets_in: u64,
    /// Bytes of frames to it.
    pub octets_out: u64,
    /// Kilobits per second from it.
    pub kbps_in: u32,
    /// Kilobits per second to it.
    pub kbps_out: u32,
    /// Counts of the frames received with its keys.
    pub received: cryptoauth::Received,
}

/// State of a connection or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// The stage of its handshake.
    Stage(cryptoauth::Stage),
    /// It connected by itself and has not yet proved that it has its key.
    Unauthenticated,
    /// It was established and is silent now.
    Unresponsive,
    /// Its protocol version is not supported.
    Incompatible,
}

/// A neighbour to connect to. Never formatted.
pub struct Connect<'a> {
    /// Number of the interface among those of its kind.
    pub interface: u32,
    /// Its address.
    pub target: Target,
    /// Its public key.
    pub key: PublicKey,
    /// Password to send, if any.
    pub password: Option<&'a [u8]>,
    /// Login that names the password.
    pub login: Option<&'a [u8]>,
    /// A name for people.
    pub name: Option<&'a [u8]>,
    /// Its protocol version, when the caller knows it.
    pub version: Option<u32>,
}

/// Address of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// UDP.
    Udp(SocketAddr),
    /// Ethernet.
    Ethernet([u8; 6]),
}

/// A known node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its key, protocol version and best path.
    pub contact: Contact,
    /// Cost of that path. Of two nodes, the one with the smaller cost is nearer.
    pub cost: u32,
    /// Time of its last answer, or of the last report about it.
    pub heard: Duration,
    /// The node before it on that path, if known.
    pub parent: Option<Parent>,
}

/// A link from a node to one of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node at which it starts, and the path there.
    pub parent: Contact,
    /// The node at which it ends, and the path there through the parent.
    pub child: Contact,
    /// The label of the child, relative to the parent.
    pub label: Label,
    /// Cost of the link.
    pub cost: u32,
    /// Whether the best path to the child uses this link.
    pub is_best: bool,
}

/// The node before another on the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its address.
    pub address: Address,
    /// The label from this node on.
    pub label: Label,
}

/// An inner session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The other node's key, protocol version and path; 0 where they are unknown.
    pub contact: Contact,
    /// Stage of the session.
    pub stage: cryptoauth::Stage,
    /// Handle with which the other node sends to this one.
    pub handle: u32,
    /// Handle with which this node sends to the other one; 0 while it is unknown.
    pub send_handle: u32,
    /// Cost of the path.
    pub metric: u32,
    /// Time of its last use.
    pub used: Duration,
    /// Counts of the frames received with its keys.
    pub received: cryptoauth::Received,
}

/// Identifies a question to another node. Each ticket is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A question to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// A control frame to the switch at the end of a path.
    Control {
        /// The path.
        path: Label,
        /// The question.
        control: Control,
        /// Bytes that the switch sends back.
        opaque: &'a [u8],
    },
    /// A DHT message.
    Query {
        /// The receiver.
        to: Contact,
        /// The query.
        query: Query,
    },
}

/// A question to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Whether it answers.
    Ping,
    /// Its public key.
    Key,
    /// Its supernode.
    Snode,
    /// The path back.
    ReturnPath,
    /// The address of this node in the layer below, as the switch sees it.
    Lower,
}

/// The outcome of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answer to [`Ask::Control`].
    Pong(Pong),
    /// A switch refused the frame of [`Ask::Control`].
    Error(switch::ErrorCode),
    /// Answer to [`Ask::Query`].
    Reply {
        /// The answerer's protocol version.
        version: u32,
        /// Its encoding scheme.
        scheme: Scheme,
        /// The nodes in its answer, relative to itself.
        nodes: Vec<Contact>,
    },
    /// There was no answer.
    Silence,
}

/// A switch's answer. What was not requested is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// The switch's protocol version.
    pub version: u32,
    /// The bytes that the switch sent back.
    pub opaque: Vec<u8>,
    /// The switch's public key.
    pub key: Option<PublicKey>,
    /// The switch's supernode.
    pub snode: Option<Contact>,
    /// The path back from the switch.
    pub return_path: Option<Label>,
    /// This node's address in the layer below.
    pub lower: Option<String>,
}

impl<T> Listed<T> {
    /// Returns a page of a complete list.
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
