//! The functions: a table of names, arguments and what each does.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::Address;
use overlay::{distance, Contact, Query};
use switch::{Label, Scheme, MAX_SCHEME_OCTETS, PROTOCOL_VERSION};

use crate::answer::{Answer, Field};
use crate::arguments::{Argument, Arguments, Kind, Wrong};
use crate::outcome::Form;
use crate::router::{
    Ask, Beacon, Connect, Control, Interface, InterfaceKind, Node, Peer, PeerState,
};
use crate::router::{Page, Parent, Session, Target};
use crate::{Now, Refused, Router};

/// How many functions a page of `Admin_availableFunctions` tells of, as in cjdns.
pub const FUNCTIONS_PER_PAGE: usize = 8;

/// How many entries a page of each list has, as in cjdns, whose answers had to fit into small buffers.
pub const ENTRIES: Entries = Entries {
    interfaces: 6,
    peers: 6,
    nodes: 4,
    handles: 64,
    users: 16,
};

/// How many entries a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Of `InterfaceController_interfaces`.
    pub interfaces: usize,
    /// Of `InterfaceController_peerStats`.
    pub peers: usize,
    /// Of `NodeStore_dumpTable`.
    pub nodes: usize,
    /// Of `SessionManager_getHandles`.
    pub handles: usize,
    /// Of `AuthorizedPasswords_list`.
    pub users: usize,
}

/// The cost of the way to oneself.
const NO_COST: u32 = 0;
/// The bucket of an address that is the own one; the others are below it.
const OWN_BUCKET: u32 = 127;
/// What an octet string that comes back may have: a frame of control has not much room.
const MAX_OPAQUE: usize = 64;

/// A function as the table has it.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Whether it needs no authentication.
    pub(crate) open: bool,
    pub(crate) arguments: &'static [Argument],
    pub(crate) run: Run,
}

pub(crate) type Run = for<'a, 'r> fn(&mut Call<'a, 'r>) -> Called<'a>;

/// A call of a function.
pub(crate) struct Call<'a, 'r> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) router: &'r mut dyn Router,
    pub(crate) now: Now,
    /// Whether the caller was authenticated of late.
    pub(crate) is_known: bool,
}

/// What a call comes to.
pub(crate) enum Done<'a> {
    /// An answer.
    Answer(Answer),
    /// A question to another node.
    Ask {
        ask: Ask<'a>,
        timeout: Duration,
        form: Form,
    },
}

/// What a function gives back.
type Called<'a> = Result<Done<'a>, Wrong>;

const fn required(name: &'static str, kind: Kind) -> Argument {
    Argument {
        name,
        required: true,
        kind,
    }
}

const fn optional(name: &'static str, kind: Kind) -> Argument {
    Argument {
        name,
        required: false,
        kind,
    }
}

const fn open(name: &'static str, arguments: &'static [Argument], run: Run) -> Function {
    Function {
        name,
        open: true,
        arguments,
        run,
    }
}

const fn closed(name: &'static str, arguments: &'static [Argument], run: Run) -> Function {
    Function {
        name,
        open: false,
        arguments,
        run,
    }
}

const PAGE: &[Argument] = &[optional("page", Kind::Int)];
const BEACON: &[Argument] = &[
    optional("interfaceNumber", Kind::Int),
    optional("state", Kind::Int),
];
const QUERY: &[Argument] = &[
    required("nodeToQuery", Kind::String),
    required("target", Kind::String),
    optional("timeout", Kind::Int),
];

/// Every function, by name; which ones need no authentication is as in cjdns.
pub(crate) const FUNCTIONS: &[Function] = &[
    open("Admin_asyncEnabled", &[], async_enabled),
    open("Admin_availableFunctions", PAGE, available_functions),
    closed(
        "AuthorizedPasswords_add",
        &[
            optional("ipv6", Kind::String),
            required("password", Kind::String),
            optional("user", Kind::String),
        ],
        add_user,
    ),
    closed("AuthorizedPasswords_list", PAGE, list_users),
    closed(
        "AuthorizedPasswords_remove",
        &[required("user", Kind::String)],
        remove_user,
    ),
    open("Core_nodeInfo", &[], node_info),
    open("Core_pid", &[], process),
    closed("ETHInterface_beacon", BEACON, beacon),
    closed(
        "ETHInterface_beginConnection",
        &[
            optional("interfaceNumber", Kind::Int),
            optional("login", Kind::String),
            required("macAddress", Kind::String),
            optional("password", Kind::String),
            optional("peerName", Kind::String),
            required("publicKey", Kind::String),
            optional("version", Kind::Int),
        ],
        connect_ethernet,
    ),
    closed(
        "InterfaceController_disconnectPeer",
        &[required("pubkey", Kind::String)],
        disconnect,
    ),
    closed("InterfaceController_interfaces", PAGE, interfaces),
    open("InterfaceController_peerStats", PAGE, peers),
    closed(
        "InterfaceController_resetPeering",
        &[optional("pubkey", Kind::String)],
        reset_peers,
    ),
    open(
        "NodeStore_dumpTable",
        &[required("page", Kind::Int)],
        dump_table,
    ),
    closed(
        "NodeStore_getRouteLabel",
        &[
            required("pathParentToChild", Kind::String),
            required("pathToParent", Kind::String),
        ],
        route_label,
    ),
    open(
        "NodeStore_nodeForAddr",
        &[optional("ip", Kind::String)],
        node_for_address,
    ),
    closed("RouterModule_findNode", QUERY, find_node),
    closed(
        "RouterModule_getPeers",
        &[
            optional("nearbyPath", Kind::String),
            required("path", Kind::String),
            optional("timeout", Kind::Int),
        ],
        get_peers,
    ),
    closed(
        "RouterModule_lookup",
        &[required("address", Kind::String)],
        lookup,
    ),
    closed("RouterModule_nextHop", QUERY, next_hop),
    closed(
        "RouterModule_pingNode",
        &[
            required("path", Kind::String),
            optional("timeout", Kind::Int),
        ],
        ping_node,
    ),
    closed("SessionManager_getHandles", PAGE, handles),
    closed(
        "SessionManager_sessionStats",
        &[required("handle", Kind::Int)],
        session,
    ),
    closed(
        "SessionManager_sessionStatsByIP",
        &[required("ip6", Kind::String)],
        session_by_address,
    ),
    closed(
        "SwitchPinger_ping",
        &[
            optional("data", Kind::String),
            optional("keyPing", Kind::Int),
            optional("lladdr", Kind::Int),
            required("path", Kind::String),
            optional("rpath", Kind::Int),
            optional("snode", Kind::Int),
            optional("timeout", Kind::Int),
        ],
        ping_switch,
    ),
    closed("UDPInterface_beacon", BEACON, beacon),
    closed(
        "UDPInterface_beginConnection",
        &[
            required("address", Kind::String),
            optional("interfaceNumber", Kind::Int),
            optional("login", Kind::String),
            optional("password", Kind::String),
            optional("peerName", Kind::String),
            required("publicKey", Kind::String),
            optional("version", Kind::Int),
        ],
        connect_udp,
    ),
    open("ping", &[], ping),
];

impl From<Answer> for Done<'_> {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Refused> for Wrong {
    fn from(Refused(reason): Refused) -> Self {
        reason
    }
}

/// The function of that name.
pub(crate) fn find(name: &[u8]) -> Option<&'static Function> {
    let by_name = |function: &Function| function.name.as_bytes().cmp(name);
    let index = FUNCTIONS.binary_search_by(by_name).ok()?;
    FUNCTIONS.get(index)
}

// --- Admin, Core ---

fn ping<'a>(_: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("q", "pong").into())
}

fn async_enabled<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("asyncEnabled", call.is_known).into())
}

fn available_functions<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(FUNCTIONS_PER_PAGE)?;
    let shown = FUNCTIONS.iter().skip(page.first).take(page.size);
    let functions = shown.fold(Answer::new(), |functions, function| {
        functions.with(function.name, described(function.arguments))
    });
    let answer = Answer::new().with("availableFunctions", functions);
    Ok(with_more(answer, page, FUNCTIONS.len()).into())
}

fn described(arguments: &[Argument]) -> Answer {
    arguments.iter().fold(Answer::new(), |described, argument| {
        let details = Answer::new()
            .with("required", argument.required)
            .with("type", argument.kind.name());
        described.with(argument.name, details)
    })
}

fn process<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("pid", call.router.process()).into())
}

fn node_info<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let own = own(call.router);
    let mut octets = [0; MAX_SCHEME_OCTETS];
    let length = Scheme::V3X5X8.encode(&mut octets);
    let compressed: Vec<u8> = octets[..length]
        .iter()
        .flat_map(|octet| format!("{octet:02x}").into_bytes())
        .collect();
    Ok(Answer::error("none")
        .with("compressedSchemeHex", compressed)
        .with("encodingScheme", scheme(&Scheme::V3X5X8))
        .with("myAddr", contact(&own))
        .with("myIp6", address(own.key.address()))
        .with("version", PROTOCOL_VERSION)
        .into())
}

// --- AuthorizedPasswords ---

fn add_user<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let only = call.arguments.address("ipv6")?;
    let login = call.arguments.octets("user");
    let password = call.arguments.octets("password").unwrap_or_default();
    if password.is_empty() {
        return Err("password is empty, allowed is one octet or more".into());
    }
    call.router.add_user(login, password, only)?;
    Ok(Answer::error("none").into())
}

fn list_users<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let users = call.router.users(call.arguments.page(ENTRIES.users)?);
    Ok(Answer::new()
        .with("total", users.total)
        .with("users", Field::from_iter(users.entries))
        .into())
}

fn remove_user<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let login = call.arguments.octets("user").unwrap_or_default();
    match call.router.remove_user(login) {
        0 => Err("no user has that login".into()),
        _ => Ok(Answer::error("none").into()),
    }
}

// --- InterfaceController, UDPInterface, ETHInterface ---

fn interfaces<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.interfaces)?;
    let listed = call.router.interfaces(page);
    let answer = Answer::new()
        .with(
            "ifaces",
            listed.entries.iter().map(interface).collect::<Field>(),
        )
        .with("total", listed.total);
    Ok(with_more(answer, page, listed.total).into())
}

fn interface(interface: &Interface) -> Answer {
    let kind = match interface.kind {
        InterfaceKind::Udp4 => "UDP/IPv4",
        InterfaceKind::Udp6 => "UDP/IPv6",
        InterfaceKind::Ethernet => "ETH",
    };
    let beacon = match interface.beacon {
        Beacon::Off => "DISABLED",
        Beacon::Accept => "ACCEPTING",
        Beacon::Send => "SENDING",
    };
    Answer::new()
        .with("beaconState", beacon)
        .with("ifNum", interface.number)
        .with("name", format!("{kind}/{}", interface.bound))
}

fn beacon<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let number = call.arguments.number("interfaceNumber")?.unwrap_or(0);
    let (beacon, name) = match call.arguments.number::<u32>("state")? {
        Some(0) => (Beacon::Off, "disabled"),
        Some(1) => (Beacon::Accept, "accepting"),
        Some(2) => (Beacon::Send, "sending and accepting"),
        _ => return Err("invalid state, allowed are 0, 1 and 2".into()),
    };
    call.router.set_beacon(number, beacon)?;
    Ok(Answer::error("none")
        .with("state", beacon as u32)
        .with("stateName", name)
        .into())
}

fn connect_udp<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let socket = call.arguments.socket("address")?;
    connect(call, socket.map(Target::Udp))
}

fn connect_ethernet<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let device = call.arguments.ethernet("macAddress")?;
    connect(call, device.map(Target::Ethernet))
}

fn connect<'a>(call: &mut Call<'a, '_>, target: Option<Target>) -> Called<'a> {
    let arguments = &call.arguments;
    let (Some(target), Some(key)) = (target, arguments.key("publicKey")?) else {
        return Err("an address and a publicKey are required".into());
    };
    call.router.connect(&Connect {
        interface: arguments.number("interfaceNumber")?.unwrap_or(0),
        target,
        key,
        password: arguments.octets("password"),
        login: arguments.octets("login"),
        name: arguments.octets("peerName"),
        version: arguments.number("version")?,
    })?;
    Ok(Answer::error("none").into())
}

fn peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.peers)?;
    let listed = call.router.peers(page);
    let shown = listed.entries.into_iter().map(|one| peer(one, call.now));
    let answer = Answer::new()
        .with("peers", shown.collect::<Field>())
        .with("total", listed.total);
    Ok(with_more(answer, page, listed.total).into())
}

fn peer(peer: Peer, now: Now) -> Answer {
    let state = match peer.state {
        PeerState::Stage(stage) => stage_name(stage),
        PeerState::Unauthenticated => "UNAUTHENTICATED",
        PeerState::Unresponsive => "UNRESPONSIVE",
        PeerState::Incompatible => "INCOMPATIBLE",
    };
    received(&peer.received)
        .with("addr", contact(&peer.contact))
        .with("bytesIn", peer.octets_in)
        .with("bytesOut", peer.octets_out)
        .with("ifNum", peer.interface)
        .with("isIncoming", peer.incoming)
        .with("last", now.unix_milliseconds(peer.heard))
        .with("lladdr", peer.lower)
        .with("noiseProto", peer.noise)
        .with("receivedPackets", peer.received.accepted)
        .with("recvKbps", peer.kbps_in)
        .with("sendKbps", peer.kbps_out)
        .with("state", state)
        .with_some("user", peer.user)
}

fn disconnect<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let (count, error) = match call.arguments.key("pubkey") {
        Ok(key) => match key.map_or(0, |key| call.router.disconnect(key)) {
            0 => (0, Some("no peer found for that key".into())),
            count => (count, None),
        },
        Err(error) => (0, Some(error)),
    };
    Ok(Answer::new()
        .with("sessionsDisconnected", count)
        .with("success", error.is_none())
        .with_some("error", error)
        .into())
}

fn reset_peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let key = call.arguments.key("pubkey");
    if let Ok(key) = key {
        call.router.reset_peers(key);
    }
    Ok(Answer::new()
        .with("success", key.is_ok())
        .with_some("error", key.err())
        .into())
}

// --- NodeStore ---

/// This node is the first of the table.
fn dump_table<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.nodes)?;
    let own = own(call.router);
    let others = Page {
        first: page.first.saturating_sub(1),
        size: page.size - usize::from(page.first == 0),
    };
    let listed = call.router.nodes(others);
    let itself = (page.first == 0).then(|| itself(&own, call.now));
    let shown = itself.iter().chain(&listed.entries);
    let table = shown.map(|node| in_table(node, own.key.address(), call.now));
    let answer = Answer::new()
        .with("routingTable", table.collect::<Field>())
        .with("count", listed.total.saturating_add(1))
        .with("deprecation", "ip,path,version will soon be removed")
        .with("peers", call.router.peers(Page { first: 0, size: 0 }).total);
    Ok(with_more(answer, page, listed.total.saturating_add(1)).into())
}

fn in_table(node: &Node, own: Address, now: Now) -> Answer {
    let of = node.contact.key.address();
    let age = now.monotonic.saturating_sub(node.heard);
    Answer::new()
        .with("addr", contact(&node.contact))
        .with("bucket", distance(own, of).leading_zeros().min(OWN_BUCKET))
        .with("ip", address(of))
        .with("link", node.cost)
        .with("path", format!("{}", node.contact.path))
        .with("time", milliseconds(age))
        .with("version", node.contact.version)
}

/// Without an address this node itself; of a node that is not known the result is empty.
fn node_for_address<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let own = own(call.router);
    let asked = call.arguments.address("ip")?;
    let node = match asked.filter(|asked| *asked != own.key.address()) {
        Some(other) => call.router.node(other),
        None => Some(itself(&own, call.now)),
    };
    let result = node.map_or_else(Answer::new, |node| details(&node));
    Ok(Answer::error("none").with("result", result).into())
}

fn details(node: &Node) -> Answer {
    let parent = node.parent.map(|parent| {
        Answer::new()
            .with("ip", address(parent.address))
            .with(
                "isOneHop",
                parent.label.first_hop() == parent.label && parent.label != Label::SELF,
            )
            .with("parentChildLabel", format!("{}", parent.label))
    });
    Answer::new()
        .with_some("bestParent", parent)
        .with("cost", node.cost)
        .with("encodingScheme", scheme(&Scheme::V3X5X8))
        .with("key", format!("{}", node.contact.key))
        .with("linkCount", node.ways)
        .with("protocolVersion", node.contact.version)
        .with("routeLabel", format!("{}", node.contact.path))
}

fn route_label<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let via = call.arguments.label("pathToParent")?;
    let rest = call.arguments.label("pathParentToChild")?;
    let label = rest.zip(via).and_then(|(rest, via)| rest.after(via));
    let label = label.ok_or("the two paths are too long for one label")?;
    Ok(Answer::error("none")
        .with("result", format!("{label}"))
        .into())
}

// --- RouterModule, SwitchPinger ---

fn lookup<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let node = match call.arguments.address("address")? {
        Some(asked) if asked == call.router.key().address() => Some(Label::SELF),
        Some(asked) => call.router.node(asked).map(|node| node.contact.path),
        None => None,
    };
    let result = node.map_or("not found".into(), |label| format!("{label}"));
    Ok(Answer::error("none").with("result", result).into())
}

fn ping_node<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("path", call.router)?;
    query(call, to, Query::Ping, Form::Ping { of: to })
}

fn get_peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("path", call.router)?;
    let from = call.arguments.label("nearbyPath")?.unwrap_or(Label(0));
    query(call, to, Query::Peers(from), Form::Peers)
}

fn find_node<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("nodeToQuery", call.router)?;
    let target = target(call)?;
    query(call, to, Query::Find(target), Form::Nodes { via: to.path })
}

fn next_hop<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("nodeToQuery", call.router)?;
    let target = target(call)?;
    query(
        call,
        to,
        Query::NextHop(target),
        Form::Nodes { via: to.path },
    )
}

fn target(call: &Call<'_, '_>) -> Result<Address, Wrong> {
    let target = call.arguments.address("target")?;
    target.ok_or_else(|| "target is required".into())
}

fn query<'a>(call: &Call<'a, '_>, to: Contact, query: Query, form: Form) -> Called<'a> {
    Ok(Done::Ask {
        ask: Ask::Query { to, query },
        timeout: call.arguments.timeout()?,
        form,
    })
}

fn ping_switch<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let arguments = &call.arguments;
    let path = arguments.label("path")?.ok_or("path is required")?;
    let opaque = arguments.octets("data").unwrap_or_default();
    if opaque.len() > MAX_OPAQUE {
        let length = opaque.len();
        return Err(format!(
            "data has {length} octets, allowed are {MAX_OPAQUE}"
        ));
    }
    let kinds = [
        ("keyPing", Control::Key),
        ("lladdr", Control::Lower),
        ("snode", Control::Snode),
        ("rpath", Control::ReturnPath),
    ];
    let mut asked = kinds.iter().filter(|(name, _)| arguments.is_set(name));
    let control = asked.next().map_or(Control::Ping, |(_, control)| *control);
    if asked.next().is_some() {
        return Err("Can only be one of keyPing, lladdr, snode OR rpath".into());
    }
    Ok(Done::Ask {
        ask: Ask::Control {
            path,
            control,
            opaque,
        },
        timeout: arguments.timeout()?,
        form: Form::Control { path },
    })
}

// --- SessionManager ---

fn handles<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.handles)?;
    let listed = call.router.handles(page);
    let answer = Answer::new()
        .with("handles", Field::from_iter(listed.entries))
        .with("total", listed.total);
    Ok(with_more(answer, page, listed.total).into())
}

fn session<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let handle = call.arguments.number("handle")?;
    shown(
        handle.and_then(|handle| call.router.session(handle)),
        call.now,
    )
}

fn session_by_address<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let asked = call.arguments.address("ip6")?;
    shown(
        asked.and_then(|asked| call.router.session_with(asked)),
        call.now,
    )
}

fn shown<'a>(session: Option<Session>, now: Now) -> Called<'a> {
    let session = session.ok_or("no such session")?;
    Ok(received(&session.received)
        .with("addr", contact(&session.contact))
        .with("handle", session.handle)
        .with("ip6", address(session.contact.key.address()))
        .with("metric", session.metric)
        .with("noiseProto", false)
        .with("sendHandle", session.send_handle)
        .with("state", stage_name(session.stage))
        .with("timeOfLastUsage", now.unix_milliseconds(session.used))
        .into())
}

// --- what several functions tell ---

/// Whether there are pages behind this one.
fn with_more(answer: Answer, page: Page, total: usize) -> Answer {
    let more = page.first.saturating_add(page.size) < total;
    answer.with_some("more", more.then_some(1_u32))
}

fn received(received: &cryptoauth::Received) -> Answer {
    Answer::new()
        .with("duplicates", received.duplicate)
        .with("lostPackets", received.lost)
        .with("receivedOutOfRange", received.late)
}

const fn stage_name(stage: cryptoauth::Stage) -> &'static str {
    use cryptoauth::Stage;
    match stage {
        Stage::Init => "INIT",
        Stage::SentHello => "SENT_HELLO",
        Stage::ReceivedHello => "RECEIVED_HELLO",
        Stage::SentKey => "SENT_KEY",
        Stage::ReceivedKey => "RECEIVED_KEY",
        Stage::Established => "ESTABLISHED",
    }
}

fn own(router: &dyn Router) -> Contact {
    Contact {
        key: router.key(),
        path: Label::SELF,
        version: PROTOCOL_VERSION,
    }
}

/// This node in its own table.
fn itself(own: &Contact, now: Now) -> Node {
    Node {
        contact: *own,
        cost: NO_COST,
        ways: 1,
        heard: now.monotonic,
        parent: Some(Parent {
            address: own.key.address(),
            label: Label::SELF,
        }),
    }
}

/// A node as existing tools read it: `v22.0000.0000.0000.0013.KEY.k`.
pub(crate) fn contact(contact: &Contact) -> Vec<u8> {
    let Contact { key, path, version } = contact;
    format!("v{version}.{path}.{key}").into_bytes()
}

/// An address in full, with all of its 32 digits.
pub(crate) fn address(address: Address) -> Vec<u8> {
    let pairs = address.octets().chunks_exact(2);
    let groups: Vec<_> = pairs
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":").into_bytes()
}

pub(crate) fn scheme(scheme: &Scheme) -> Field {
    let form = |form: &switch::SchemeForm| {
        let prefix = match form.prefix_bits {
            0 => Vec::new(),
            _ => prefix(form.prefix),
        };
        Answer::new()
            .with("bitCount", u32::from(form.bits))
            .with("prefix", prefix)
            .with("prefixLen", u32::from(form.prefix_bits))
    };
    scheme.forms().iter().map(form).collect()
}

/// In hexadecimal digits, without octets that are 0 before the last one.
fn prefix(prefix: u32) -> Vec<u8> {
    let digits = 2 * (4 - (prefix | 1).leading_zeros() as usize / 8);
    format!("{prefix:0digits$x}").into_bytes()
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
