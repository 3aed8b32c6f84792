//! Requests to the kernel. Each call returns after the kernel's answer.
//!
//! rtnetlink handles a request while it is being sent, so that the answer is already queued when `send` returns. These
//! calls therefore do not wait.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NetlinkPayload, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL,
    NLM_F_REPLACE,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{protocols::NETLINK_ROUTE, Socket};
use netlinkkit::{error_of, Asker};

use super::{decode, Address, Link, Route};
use crate::config::RouteSettings;

/// Attempts at a dump that concurrent changes interrupt (NLM_F_DUMP_INTR).
const DUMP_ATTEMPTS: usize = 4;

/// How to treat existing routes with the same destination, table and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddMode {
    /// Fail with EEXIST.
    Exclusive,
    /// Keep them and add the new route after them.
    Append,
    /// Replace the first one.
    Replace,
}

impl AddMode {
    fn flags(self) -> u16 {
        match self {
            Self::Exclusive => NLM_F_CREATE | NLM_F_EXCL,
            Self::Append => NLM_F_CREATE | NLM_F_APPEND,
            Self::Replace => NLM_F_CREATE | NLM_F_REPLACE,
        }
    }
}

/// A netlink socket for requests.
pub struct Requests {
    asker: Asker,
}

impl Requests {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        // Kernels before 4.20 do not have this option and dump everything. The caller then filters the routes itself.
        if let Err(error) = socket.set_netlink_get_strict_chk(true) {
            log::debug!("netlink: no filtered dumps: {error}");
        }
        Ok(Self {
            asker: Asker::over(socket)?,
        })
    }

    /// Returns the port number under which the kernel reports our own changes.
    pub fn port(&self) -> u32 {
        self.asker.port()
    }

    /// Returns all links.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let answers = self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        Ok(answers
            .iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(message) => decode::link(message),
                _ => None,
            })
            .collect())
    }

    /// Returns all addresses.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let answers = self.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        Ok(answers
            .iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewAddress(message) => decode::address(message),
                _ => None,
            })
            .collect())
    }

    /// Returns the routes with our table, protocol and metrics.
    pub fn routes(&mut self, settings: RouteSettings) -> io::Result<Vec<Route>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.header.protocol = settings.protocol.into();
            message
                .attributes
                .push(RouteAttribute::Table(settings.table));
            found.extend(self.dump_routes(message)?);
        }
        found.retain(|route| settings.is_ours(route));
        Ok(found)
    }

    fn dump_routes(&mut self, message: RouteMessage) -> io::Result<Vec<Route>> {
        let answers = match self.dump(RouteNetlinkMessage::GetRoute(message)) {
            // The table has never been used.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            answers => answers?,
        };
        Ok(answers
            .iter()
            .flat_map(|answer| match answer {
                RouteNetlinkMessage::NewRoute(message) => decode::routes(message),
                _ => Vec::new(),
            })
            .collect())
    }

    /// Adds a route.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn add_route(&mut self, route: &Route, mode: AddMode) -> io::Result<()> {
        self.execute(RouteNetlinkMessage::NewRoute(encode(route)), mode.flags())
    }

    /// Deletes exactly this route.
    ///
    /// # Errors
    /// The kernel refuses the request; `ESRCH` if there is no such route.
    pub fn delete_route(&mut self, route: &Route) -> io::Result<()> {
        self.execute(RouteNetlinkMessage::DelRoute(encode(route)), 0)
    }

    fn execute(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let sequence = self.asker.send(message, NLM_F_ACK | flags)?;
        loop {
            for answer in self.asker.receive::<RouteNetlinkMessage>(sequence)? {
                if let NetlinkPayload::Error(error) = answer.payload {
                    return error_of(error.raw_code());
                }
            }
        }
    }

    fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(answers) = self.dump_once(message.clone())? {
                return Ok(answers);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::Interrupted,
            "the kernel's tables change too fast for a dump",
        ))
    }

    /// Makes one dump. Returns `None` if a change interrupted it, because the dump may then be incomplete.
    fn dump_once(
        &mut self,
        message: RouteNetlinkMessage,
    ) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        let sequence = self.asker.send(message, NLM_F_DUMP)?;
        let (mut found, mut whole) = (Vec::new(), true);
        loop {
            for answer in self.asker.receive(sequence)? {
                whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => found.push(message),
                    NetlinkPayload::Done(_) => return Ok(whole.then_some(found)),
                    NetlinkPayload::Error(error) => error_of(error.raw_code())?,
                    _ => {}
                }
            }
        }
    }
}

fn encode(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: match route.destination.addr {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        },
        destination_prefix_length: route.destination.len,
        // Tables above 255 are given by the attribute alone.
        table: u8::try_from(route.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC),
        protocol: route.protocol.into(),
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(route.destination.addr.into()),
        RouteAttribute::Table(route.table),
        RouteAttribute::Priority(route.metric),
        RouteAttribute::Oif(route.path.interface),
    ];
    if let Some(next_hop) = route.path.next_hop {
        // The next hop may be outside the subnets of the interface, because MANET interfaces have host addresses.
        message.header.flags = RouteFlags::Onlink;
        message
            .attributes
            .push(RouteAttribute::Gateway(RouteAddress::from(next_hop)));
    }
    if let Some(source) = route.path.source {
        message
            .attributes
            .push(RouteAttribute::PrefSource(source.into()));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Path;

    #[test]
    fn the_kernel_lists_its_loopback() {
        let mut requests = Requests::open().unwrap();
        let links = requests.links().unwrap();
        let loopback = links.iter().find(|link| link.name == "lo").unwrap();
        for address in requests.addresses().unwrap() {
            assert!(links.iter().any(|link| link.index == address.interface));
        }
        assert_eq!(loopback.mac, Some([0; 6]));
    }

    #[test]
    fn a_refusal_comes_back_as_the_kernels_error() {
        let mut requests = Requests::open().unwrap();
        let absent = Route {
            destination: "203.0.113.7/32".parse().unwrap(),
            table: 4_000_000_000,
            protocol: 100,
            metric: 2,
            path: Path {
                next_hop: None,
                interface: 1,
                source: None,
            },
        };
        let error = requests.delete_route(&absent).unwrap_err();
        // Without privileges EPERM comes first.
        let allowed = [rustix::io::Errno::SRCH, rustix::io::Errno::PERM];
        assert!(
            allowed
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&error.raw_os_error()),
            "{error}"
        );
        assert!(requests.links().is_ok());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let route = Route {
            destination: "fd77::3/128".parse().unwrap(),
            table: 1000,
            protocol: 100,
            metric: 2,
            path: Path {
                next_hop: "fe80::1".parse().ok(),
                interface: 7,
                source: "fd77::1".parse().ok(),
            },
        };
        assert_eq!(decode::routes(&encode(&route)), [route]);
        let default = Route {
            destination: "0.0.0.0/0".parse().unwrap(),
            path: Path {
                next_hop: "10.0.0.1".parse().ok(),
                source: None,
                ..route.path
            },
            ..route
        };
        assert_eq!(decode::routes(&encode(&default)), [default]);
    }
}
