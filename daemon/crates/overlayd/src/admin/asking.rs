//! The node as the admin API asks it.

use std::net::SocketAddr;

use cjdns_admin::{
    Ask, Beacon, Connect, Control, InterfaceKind, Listed, Page, PeerState, Refused, Router, Target,
    Ticket,
};
use cryptoauth::{Address, Credential, PublicKey, Stage, UserId};
use daemonkit::Time;
use overlay::{Contact, Query};
use overlay_node::{Beacons, Connection, Link, LinkAddress, Node, PeerView, Question, SessionView};
use rand_core::{OsRng, TryRngCore};
use switch::{Label, PROTOCOL_VERSION};

use super::{Asked, Pings, View};
use crate::neighbours::{link_address, reason};

/// The node, while a request is handled.
pub(super) struct Asking<'a, 'b> {
    pub(super) view: &'a mut View<'b>,
    pub(super) pings: &'a mut Pings,
}

impl Router for Asking<'_, '_> {
    fn key(&self) -> PublicKey {
        *self.view.node.key()
    }

    fn process(&self) -> u32 {
        std::process::id()
    }

    fn interfaces(&self, page: Page) -> Listed<cjdns_admin::Interface> {
        let shown = self.view.ports.iter().enumerate();
        let shown = shown.map(|(number, port)| {
            let kind = match port.address() {
                None => InterfaceKind::Ethernet,
                Some(SocketAddr::V4(_)) => InterfaceKind::Udp4,
                Some(SocketAddr::V6(_)) => InterfaceKind::Udp6,
            };
            cjdns_admin::Interface {
                number: number as u32,
                kind,
                bound: port.bound().to_owned(),
                beacon: match port.beacons_are {
                    Beacons::Off => Beacon::Off,
                    Beacons::Accept => Beacon::Accept,
                    Beacons::Send => Beacon::Send,
                },
            }
        });
        Listed::of(shown, page)
    }

    fn set_beacon(&mut self, interface: u32, beacon: Beacon) -> Result<(), Refused> {
        let beacons = match beacon {
            Beacon::Off => Beacons::Off,
            Beacon::Accept => Beacons::Accept,
            Beacon::Send => Beacons::Send,
        };
        let port = self.view.ports.get_mut(interface as usize);
        let port = port.ok_or_else(|| Refused("no such interface".into()))?;
        let (now, rng) = (self.view.now, &mut OsRng.unwrap_err());
        self.view.node.set_beacons(now, rng, port.id, beacons);
        port.beacons_are = beacons;
        Ok(())
    }

    fn peers(&self, page: Page) -> Listed<cjdns_admin::Peer> {
        let mut peers: Vec<_> = self.view.node.peers(self.view.now).collect();
        peers.sort_by_key(|peer| (peer.label, peer.key));
        Listed::of(peers.iter().map(|peer| self.peer(peer)), page)
    }

    fn connect(&mut self, peer: &Connect<'_>) -> Result<(), Refused> {
        let (is_udp, to) = match peer.target {
            Target::Udp(address) => (true, LinkAddress::Udp(address)),
            Target::Ethernet(mac) => (false, LinkAddress::Ethernet(mac)),
        };
        let mut kind = self.view.ports.iter();
        let mut kind = kind
            .by_ref()
            .filter(|port| port.address().is_some() == is_udp);
        let port = kind.nth(peer.interface as usize);
        let connection = Connection {
            interface: port.ok_or_else(|| Refused("no such interface".into()))?.id,
            to,
            key: peer.key,
            credential: peer.password.map(|password| match peer.login {
                Some(login) => Credential::login(login, password),
                None => Credential::password(password),
            }),
        };
        let neighbours = &mut self.view.neighbours;
        neighbours
            .connect(self.view.now, self.view.node, connection)
            .map_err(|error| Refused(reason(error).into()))
    }

    fn disconnect(&mut self, key: PublicKey) -> usize {
        let neighbours = &mut self.view.neighbours;
        neighbours
            .disconnect(self.view.now, self.view.node, &key)
            .into()
    }

    fn reset_peers(&mut self, key: Option<PublicKey>) {
        let neighbours = &mut self.view.neighbours;
        neighbours.reset(self.view.now, self.view.node, key);
    }

    fn nodes(&self, page: Page) -> Listed<cjdns_admin::Node> {
        let known: Vec<_> = self.view.node.store().iter().collect();
        Listed::of(known.iter().map(|(_, node)| known_node(node)), page)
    }

    fn node(&self, address: Address) -> Option<cjdns_admin::Node> {
        self.view.node.store().get(address).map(known_node)
    }

    fn node_by(&self, way: Label) -> Option<Contact> {
        let mut known = self.view.node.store().iter();
        known.find_map(|(_, node)| node.way(way).map(|way| node.by(way.label)))
    }

    fn links(&self, parent: Address) -> Vec<cjdns_admin::Link> {
        let store = self.view.node.store();
        let (parent, cost) = if parent == self.view.node.address() {
            (own(self.view.node), Time::ZERO)
        } else {
            let Some(best) = store
                .get(parent)
                .and_then(|node| Some((node, node.ways().first()?)))
            else {
                return Vec::new();
            };
            (best.0.by(best.1.label), best.1.latency.unwrap_or_default())
        };
        let links = store
            .iter()
            .flat_map(|(_, node)| links_to(node, parent, cost));
        let mut links: Vec<_> = links.collect();
        links.sort_by_key(|link| link.label);
        links
    }

    fn answer(&self, query: Query) -> Vec<Contact> {
        self.view.node.consult(query)
    }

    fn handles(&self, page: Page) -> Listed<u32> {
        let sessions: Vec<_> = self.view.node.sessions().collect();
        Listed::of(
            sessions.iter().map(|session| session.state.own_handle),
            page,
        )
    }

    fn session(&self, handle: u32) -> Option<cjdns_admin::Session> {
        let mut sessions = self.view.node.sessions();
        let found = sessions.find(|session| session.state.own_handle == handle);
        found.map(|session| self.admin_session(&session))
    }

    fn session_with(&self, address: Address) -> Option<cjdns_admin::Session> {
        let mut sessions = self.view.node.sessions();
        let found = sessions.find(|session| session.state.address == address);
        found.map(|session| self.admin_session(&session))
    }

    fn users(&self, page: Page) -> Listed<Vec<u8>> {
        let logins: Vec<_> = self.view.neighbours.logins().collect();
        Listed::of(logins.iter().map(|login| login.to_vec()), page)
    }

    fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<(), Refused> {
        let neighbours = &mut self.view.neighbours;
        neighbours
            .add_user(self.view.node, login, password, only)
            .map_err(|error| Refused(error.to_string()))
    }

    fn remove_user(&mut self, login: &[u8]) -> usize {
        let neighbours = &mut self.view.neighbours;
        neighbours.remove_user(self.view.now, self.view.node, login)
    }

    fn ask(&mut self, ticket: Ticket, ask: &Ask<'_>) -> Result<(), Refused> {
        let (now, node) = (self.view.now, &mut *self.view.node);
        let (id, asked) = match ask {
            Ask::Control {
                path,
                control,
                opaque,
            } => {
                let id = node.ping_switch(now, *path, question(*control));
                (id, Asked::Control(opaque.to_vec()))
            }
            Ask::Query {
                to,
                query: Query::Ping,
            } => {
                let id = node.ping_node(now, to.key.address(), Some(to.path));
                (id, Asked::Query)
            }
            Ask::Query { to, query } => (node.ask_node(now, *to, *query), Asked::Query),
        };
        let id =
            id.ok_or_else(|| Refused("no path is known, or too many questions are open".into()))?;
        self.pings.insert(id, (ticket, asked));
        Ok(())
    }
}

fn question(control: Control) -> Question {
    match control {
        Control::Ping => Question::Presence,
        Control::Key => Question::Key,
        Control::Snode => Question::Supernode,
        Control::ReturnPath => Question::WayBack,
        Control::Lower => Question::Link,
    }
}

impl Asking<'_, '_> {
    fn peer(&self, peer: &PeerView) -> cjdns_admin::Peer {
        use overlay_node::PeerState as State;
        cjdns_admin::Peer {
            contact: Contact {
                key: peer.key,
                path: peer.label.unwrap_or(Label(0)),
                version: peer.version.unwrap_or(0),
            },
            lower: link_address(&peer.link_address),
            interface: peer.interface.number().into(),
            state: match peer.state {
                State::Unauthenticated => PeerState::Unauthenticated,
                State::Handshake => PeerState::Stage(Stage::SentHello),
                State::Established => PeerState::Stage(Stage::Established),
                State::Unresponsive => PeerState::Unresponsive,
            },
            incoming: peer.incoming,
            user: peer.user.and_then(|user| self.login_of(user)),
            noise: peer.link == Link::Noise,
            heard: peer.heard,
            octets_in: peer.octets_in,
            octets_out: peer.octets_out,
            kbps_in: peer.kbps_in,
            kbps_out: peer.kbps_out,
            received: peer.received,
        }
    }

    fn login_of(&self, user: UserId) -> Option<Vec<u8>> {
        self.view.neighbours.login_of(user).map(<[u8]>::to_vec)
    }

    fn admin_session(&self, session: &SessionView) -> cjdns_admin::Session {
        let state = &session.state;
        let known = self.view.node.store().get(state.address);
        cjdns_admin::Session {
            contact: Contact {
                key: state.key,
                path: session.way.unwrap_or(Label(0)),
                version: known.map_or(PROTOCOL_VERSION, |node| node.version),
            },
            stage: state.stage,
            handle: state.own_handle,
            send_handle: state.their_handle.unwrap_or(0),
            metric: known.map_or(0, |node| known_node(node).cost),
            used: state.used,
            received: state.received,
        }
    }
}

/// Converts a node of the store. The cost of the best path to it is its latency in microseconds.
fn known_node(node: &overlay::Node) -> cjdns_admin::Node {
    let best = node.ways().first();
    cjdns_admin::Node {
        contact: node.by(best.map_or(Label(0), |way| way.label)),
        cost: microseconds(best.and_then(|way| way.latency)),
        heard: best.map_or(Time::ZERO, |way| way.heard),
        parent: None,
    }
}

fn own(node: &Node) -> Contact {
    Contact {
        key: *node.key(),
        path: Label::SELF,
        version: PROTOCOL_VERSION,
    }
}

/// Returns the links from `parent` that the node's paths of one more hop use. The path to `parent` costs `cost`.
fn links_to(
    node: &overlay::Node,
    parent: Contact,
    cost: Time,
) -> impl Iterator<Item = cjdns_admin::Link> + '_ {
    node.ways()
        .iter()
        .enumerate()
        .filter_map(move |(rank, way)| {
            let label = way.label.beyond(parent.path)?;
            let latency = way.latency.map(|latency| latency.saturating_sub(cost));
            (label != Label::SELF && label.first_hop() == label).then(|| cjdns_admin::Link {
                parent,
                child: node.by(way.label),
                label,
                cost: microseconds(latency),
                is_best: rank == 0,
            })
        })
}

/// Returns the cost of a path: its latency in microseconds, or the highest number if it is unknown.
fn microseconds(latency: Option<Time>) -> u32 {
    latency.map_or(u32::MAX, |latency| {
        u32::try_from(latency.as_micros()).unwrap_or(u32::MAX)
    })
}
