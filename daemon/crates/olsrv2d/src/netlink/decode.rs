//! Converts netlink messages to typed values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::AddressFamily;
use olsrv2::Prefix;

use super::{Address, Link, Path, Route};

/// Returns the link of a message; `None` if the message names no link (some wireless events).
pub fn link(message: &LinkMessage) -> Option<Link> {
    let mut name = None;
    let mut mac = None;
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Address(octets) => mac = octets.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let flags = message.header.flags;
    Some(Link {
        index: message.header.index,
        name: name?,
        usable: flags.contains(LinkFlags::Up | LinkFlags::Running | LinkFlags::LowerUp),
        admin_up: flags.contains(LinkFlags::Up),
        mac,
        shared: flags.contains(LinkFlags::Broadcast) && !flags.contains(LinkFlags::Noarp),
    })
}

/// Returns the address of a message; on a point-to-point interface the local one.
pub fn address(message: &AddressMessage) -> Option<Address> {
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let unverified =
        flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic);
    Some(Address {
        interface: message.header.index,
        address: local.or(other)?,
        prefix_len: message.header.prefix_len,
        usable: !unverified && !flags.contains(AddressFlags::Dadfailed),
    })
}

/// Returns a unicast route as one value for each next hop; empty for other kinds of routes.
pub fn routes(message: &RouteMessage) -> Vec<Route> {
    let header = &message.header;
    if header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let mut destination = unspecified(header.address_family);
    let mut table = u32::from(header.table);
    let mut metric = 0;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            _ => {}
        }
    }
    let Some(destination) =
        destination.and_then(|address| Prefix::new(address, header.destination_prefix_length))
    else {
        return Vec::new();
    };
    let protocol = header.protocol.into();
    paths(&message.attributes)
        .into_iter()
        .map(|path| Route {
            destination,
            table,
            protocol,
            metric,
            path,
        })
        .collect()
}

fn paths(attributes: &[RouteAttribute]) -> Vec<Path> {
    let mut single = Path {
        next_hop: None,
        interface: 0,
        source: None,
    };
    let mut several = Vec::new();
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(address) => single.next_hop = ip(address),
            RouteAttribute::Oif(index) => single.interface = *index,
            RouteAttribute::PrefSource(address) => single.source = ip(address),
            RouteAttribute::MultiPath(hops) => several.clone_from(hops),
            _ => {}
        }
    }
    if several.is_empty() {
        return vec![single];
    }
    several
        .iter()
        .map(|hop| Path {
            next_hop: hop.attributes.iter().find_map(gateway),
            interface: hop.interface_index,
            source: single.source,
        })
        .collect()
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(Ipv4Addr::UNSPECIFIED.into()),
        AddressFamily::Inet6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}
