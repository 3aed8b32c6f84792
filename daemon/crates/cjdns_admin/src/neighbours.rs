//! AuthorizedPasswords, InterfaceController, UDPInterface and ETHInterface: neighbours, and the users that may become
//! one.

use alloc::format;

use crate::answer::{Answer, Field};
use crate::call::{Call, Called};
use crate::now::Now;
use crate::router::{Beacon, Connect, Interface, InterfaceKind, Peer, PeerState, Target};
use crate::words::{contact, received, stage_name, with_more, ENTRIES};

pub(crate) fn add_user<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let only = call.arguments.address("ipv6")?;
    let login = call.arguments.octets("user");
    let password = call.arguments.octets("password").unwrap_or_default();
    if password.is_empty() {
        return Err("password is empty, allowed is one octet or more".into());
    }
    call.router.add_user(login, password, only)?;
    Ok(Answer::error("none").into())
}

pub(crate) fn list_users<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let users = call.router.users(call.arguments.page(ENTRIES.users)?);
    Ok(Answer::new()
        .with("total", users.total)
        .with("users", Field::from_iter(users.entries))
        .into())
}

pub(crate) fn remove_user<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let login = call.arguments.octets("user").unwrap_or_default();
    match call.router.remove_user(login) {
        0 => Err("no user has that login".into()),
        _ => Ok(Answer::error("none").into()),
    }
}

pub(crate) fn interfaces<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
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

pub(crate) fn interface(interface: &Interface) -> Answer {
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

pub(crate) fn beacon<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
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

pub(crate) fn connect_udp<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let socket = call.arguments.socket("address")?;
    connect(call, socket.map(Target::Udp))
}

pub(crate) fn connect_ethernet<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let device = call.arguments.ethernet("macAddress")?;
    connect(call, device.map(Target::Ethernet))
}

pub(crate) fn connect<'a>(call: &mut Call<'a, '_>, target: Option<Target>) -> Called<'a> {
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

pub(crate) fn peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.peers)?;
    let listed = call.router.peers(page);
    let shown = listed.entries.into_iter().map(|one| peer(one, call.now));
    let answer = Answer::new()
        .with("peers", shown.collect::<Field>())
        .with("total", listed.total);
    Ok(with_more(answer, page, listed.total).into())
}

pub(crate) fn peer(peer: Peer, now: Now) -> Answer {
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

pub(crate) fn disconnect<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
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

pub(crate) fn reset_peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let key = call.arguments.key("pubkey");
    if let Ok(key) = key {
        call.router.reset_peers(key);
    }
    Ok(Answer::new()
        .with("success", key.is_ok())
        .with_some("error", key.err())
        .into())
}
