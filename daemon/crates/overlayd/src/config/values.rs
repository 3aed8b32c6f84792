//! Reading single values of the configuration file. Each refusal names the key, the value and what is allowed.

use std::collections::BTreeSet;
use std::net::{SocketAddr, SocketAddrV6};
use std::path::PathBuf;

use cryptoauth::PublicKey;
use daemonkit::config::{is_interface_name, quoted, Fault, INTERFACE_NAME_MAX};
use overlay_node::{Admission, Beacons};
use toml::Spanned;

/// Default of `permit`: no user data with any node.
pub(super) fn nobody() -> Result<Admission, Fault> {
    Ok(Admission::Only(BTreeSet::new()))
}

pub(super) fn public_key(name: &str, raw: &Spanned<String>) -> Result<PublicKey, Fault> {
    let checked = raw.as_ref().parse::<PublicKey>();
    checked
        .and_then(|key| key.node_address().map(|_| key))
        .map_err(|error| {
            let allowed = format!("a public key, 52 characters and .k ({error})");
            Fault::value(name, raw, quoted(raw), allowed)
        })
}

pub(super) fn beacons(name: &str, raw: Option<&Spanned<String>>) -> Result<Beacons, Fault> {
    let Some(raw) = raw else {
        return Ok(Beacons::Off);
    };
    match raw.as_ref().as_str() {
        "off" => Ok(Beacons::Off),
        "accept" => Ok(Beacons::Accept),
        "send" => Ok(Beacons::Send),
        _ => {
            let allowed = "\"off\", \"accept\", \"send\"";
            Err(Fault::value(name, raw, quoted(raw), allowed))
        }
    }
}

pub(super) fn device(key: &str, raw: &Spanned<String>) -> Result<String, Fault> {
    if is_interface_name(raw.as_ref()) {
        return Ok(raw.as_ref().clone());
    }
    let allowed = format!(
        "the name of a device, 1 to {INTERFACE_NAME_MAX} octets without space, slash or colon; not lo"
    );
    Err(Fault::value(key, raw, quoted(raw), allowed))
}

pub(super) fn absolute(key: &str, raw: &Spanned<String>) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(raw.as_ref());
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Fault::value(key, raw, quoted(raw), "an absolute path"))
}

pub(super) fn socket_address(key: &str, raw: &Spanned<String>) -> Result<SocketAddr, Fault> {
    raw.as_ref().parse().map_err(|_| {
        let allowed = "an address and a port, such as 192.0.2.1:33808 or [2001:db8::1]:33808";
        Fault::value(key, raw, quoted(raw), allowed)
    })
}

/// Parses a link-local address and the device that leads to it.
pub(super) fn scoped_address(text: &str) -> Option<(SocketAddrV6, String)> {
    let (before, rest) = text.split_once('%')?;
    let (device, after) = rest.split_once(']')?;
    let address: SocketAddrV6 = format!("{before}]{after}").parse().ok()?;
    let is_sound = is_interface_name(device) && is_link_local(&address.into());
    is_sound.then(|| (address, device.to_owned()))
}

pub(super) fn is_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local())
}

/// Parses the address of one device: six hexadecimal bytes joined by colons, not a group address.
pub(super) fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && !text.contains('+')).then_some(mac)
}
