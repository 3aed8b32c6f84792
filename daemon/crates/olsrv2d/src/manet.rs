//! The MANET interfaces that are up. Their sockets follow the kernel's links.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use olsrv2::{Family, InterfaceEvent, InterfaceId};

use crate::links::{Links, Usable};
use crate::mesh;
use crate::reactor::{Reactor, Token};

/// Largest number of interface names that are kept. Events may still mention an interface that is gone.
const NAMES_MAX: usize = 256;

/// A MANET interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name in the kernel.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Link-layer address.
    pub mac: Option<[u8; 6]>,
    /// Address from which IPv4 packets are sent.
    pub source_v4: Option<IpAddr>,
    /// Address from which IPv6 packets are sent.
    pub source_v6: Option<IpAddr>,
}

/// The MANET interfaces that are up.
#[derive(Default)]
pub struct Manet {
    interfaces: BTreeMap<u32, Entry>,
    names: BTreeMap<u32, String>,
}

struct Entry {
    usable: Usable,
    v4: Option<(Ipv4Addr, UdpSocket)>,
    v6: Option<UdpSocket>,
}

/// Result of a synchronisation.
#[derive(Default)]
pub struct Synchronised {
    /// Events for the router, in this order.
    pub events: Vec<InterfaceEvent>,
    /// Whether a socket could not be opened, so that the synchronisation must be repeated.
    pub incomplete: bool,
}

impl Manet {
    /// Opens sockets on the interfaces of `wanted` that are up in the kernel, and closes the others. An interface
    /// without an IPv4 address sends from `originator`.
    pub fn synchronise(
        &mut self,
        wanted: &[String],
        links: &Links,
        originator: Option<Ipv4Addr>,
        reactor: &Reactor,
    ) -> Synchronised {
        let usable: BTreeMap<u32, (String, Usable)> = wanted
            .iter()
            .filter_map(|name| {
                links
                    .usable(name)
                    .map(|usable| (usable.index, (name.clone(), usable)))
            })
            .collect();
        let mut result = Synchronised::default();
        self.interfaces.retain(|index, _| {
            let stays = usable
                .get(index)
                .is_some_and(|(name, _)| self.names.get(index) == Some(name));
            if !stays {
                result.events.push(InterfaceEvent::Down {
                    interface: InterfaceId(*index),
                });
            }
            stays
        });
        if self.names.len() > NAMES_MAX {
            self.names
                .retain(|index, _| self.interfaces.contains_key(index));
        }
        for (index, (name, usable)) in usable {
            self.names.insert(index, name.clone());
            result.events.extend(self.update(usable.clone()));
            let opened = self.open_sockets(index, &name, originator, reactor);
            if let Err(error) = opened {
                log::error!("{name}: its socket cannot be opened: {error}");
                result.incomplete = true;
            }
        }
        result
    }

    /// Returns the event that informs the router of a new or changed interface.
    fn update(&mut self, usable: Usable) -> Option<InterfaceEvent> {
        let interface = InterfaceId(usable.index);
        let addresses = usable.addresses.clone();
        match self.interfaces.get_mut(&usable.index) {
            Some(entry) if entry.usable == usable => None,
            Some(entry) => {
                entry.usable = usable;
                Some(InterfaceEvent::Addresses {
                    interface,
                    addresses,
                })
            }
            None => {
                self.interfaces.insert(
                    usable.index,
                    Entry {
                        usable,
                        v4: None,
                        v6: None,
                    },
                );
                Some(InterfaceEvent::Up {
                    interface,
                    addresses,
                })
            }
        }
    }

    fn open_sockets(
        &mut self,
        index: u32,
        name: &str,
        originator: Option<Ipv4Addr>,
        reactor: &Reactor,
    ) -> io::Result<()> {
        let Some(entry) = self.interfaces.get_mut(&index) else {
            return Ok(());
        };
        let source = entry.usable.source_v4().or(originator);
        if entry.v4.as_ref().map(|(source, _)| *source) != source {
            entry.v4 = None;
            if let Some(source) = source {
                let socket = mesh::open(Family::V4, name, index, Some(source))?;
                reactor.add(&socket, Token::MeshV4(index))?;
                entry.v4 = Some((source, socket));
            }
        }
        if entry.v6.is_some() != entry.usable.source_v6().is_some() {
            entry.v6 = None;
            if entry.usable.source_v6().is_some() {
                let socket = mesh::open(Family::V6, name, index, None)?;
                reactor.add(&socket, Token::MeshV6(index))?;
                entry.v6 = Some(socket);
            }
        }
        Ok(())
    }

    /// Returns the socket of a family on an interface.
    pub fn socket(&self, family: Family, index: u32) -> Option<&UdpSocket> {
        let entry = self.interfaces.get(&index)?;
        match family {
            Family::V4 => entry.v4.as_ref().map(|(_, socket)| socket),
            Family::V6 => entry.v6.as_ref(),
        }
    }

    /// Returns the names of all MANET interfaces that have been up, by index.
    pub fn names(&self) -> &BTreeMap<u32, String> {
        &self.names
    }

    /// Describes the interfaces for the management interfaces.
    pub fn interfaces(&self) -> Vec<Interface> {
        let describe = |(index, entry): (&u32, &Entry)| Interface {
            name: self.names.get(index).cloned().unwrap_or_default(),
            index: *index,
            mac: entry.usable.mac,
            source_v4: entry.v4.as_ref().map(|(source, _)| IpAddr::V4(*source)),
            source_v6: entry.usable.source_v6().map(IpAddr::V6),
        };
        self.interfaces.iter().map(describe).collect()
    }
    /// Returns an event of an interface in words, for the log.
    pub fn describe(&self, event: &InterfaceEvent) -> String {
        match event {
            InterfaceEvent::Up {
                interface,
                addresses,
            } => format!(
                "{} is up: {}",
                name(self.names(), *interface),
                list(addresses)
            ),
            InterfaceEvent::Addresses {
                interface,
                addresses,
            } => format!(
                "{} has other addresses: {}",
                name(self.names(), *interface),
                list(addresses)
            ),
            InterfaceEvent::Down { interface } => {
                format!("{} is down", name(self.names(), *interface))
            }
            InterfaceEvent::NeighbourLost { interface, address } => {
                format!("{}: {address} is lost", name(self.names(), *interface))
            }
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    shown.join(", ")
}

/// Returns the name of an interface; for an interface that is gone, its last name.
pub fn name(names: &BTreeMap<u32, String>, interface: InterfaceId) -> String {
    names
        .get(&interface.0)
        .cloned()
        .unwrap_or_else(|| format!("if{interface}"))
}
