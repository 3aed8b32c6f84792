//! Decodes the generic netlink messages of the controller and of nl80211, and encodes requests.
//!
//! Messages are checked: an attribute that is truncated, too short or unknown is skipped, and nothing panics.

use std::convert::Infallible;
use std::num::NonZeroU64;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};

/// A hardware address.
pub type Mac = [u8; 6];

/// Number of the controller's family, which lists all other families (GENL_ID_CTRL).
pub const CONTROLLER: u16 = 16;
/// Length of `struct genlmsghdr` in bytes: command, version, 16 reserved bits.
const HEADER: usize = 4;
/// Length of `struct nlattr` in bytes.
const ATTRIBUTE_HEADER: usize = 4;

/// Commands and attributes of linux/genetlink.h.
mod ctrl {
    pub const CMD_GETFAMILY: u8 = 3;
    pub const ATTR_FAMILY_ID: u16 = 1;
    pub const ATTR_FAMILY_NAME: u16 = 2;
    pub const ATTR_MCAST_GROUPS: u16 = 7;
    pub const ATTR_MCAST_GRP_NAME: u16 = 1;
    pub const ATTR_MCAST_GRP_ID: u16 = 2;
}

/// Commands and attributes of linux/nl80211.h.
mod nl80211 {
    pub const CMD_GET_STATION: u8 = 17;
    pub const CMD_NEW_STATION: u8 = 19;
    pub const CMD_DEL_STATION: u8 = 20;
    pub const CMD_PROBE_MESH_LINK: u8 = 136;
    pub const ATTR_IFINDEX: u16 = 3;
    pub const ATTR_MAC: u16 = 6;
    pub const ATTR_STA_INFO: u16 = 21;
    pub const ATTR_FRAME: u16 = 51;
    pub const STA_INFO_INACTIVE_TIME: u16 = 1;
    pub const STA_INFO_LLID: u16 = 4;
    pub const STA_INFO_PLID: u16 = 5;
    pub const STA_INFO_PLINK_STATE: u16 = 6;
    pub const STA_INFO_SIGNAL: u16 = 7;
    pub const STA_INFO_TX_BITRATE: u16 = 8;
    pub const STA_INFO_TX_PACKETS: u16 = 10;
    pub const STA_INFO_TX_RETRIES: u16 = 11;
    pub const STA_INFO_TX_FAILED: u16 = 12;
    pub const STA_INFO_BSS_PARAM: u16 = 15;
    pub const STA_INFO_EXPECTED_THROUGHPUT: u16 = 27;
    pub const STA_INFO_AIRTIME_LINK_METRIC: u16 = 41;
    pub const RATE_INFO_BITRATE: u16 = 1;
    pub const RATE_INFO_BITRATE32: u16 = 5;
    pub const STA_BSS_PARAM_BEACON_INTERVAL: u16 = 5;
    pub const PLINK_LISTEN: u8 = 0;
    pub const PLINK_ESTAB: u8 = 4;
}

/// A generic netlink message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the family.
    pub family: u16,
    /// The command.
    pub command: u8,
    /// The attributes, not decoded.
    pub attributes: Vec<u8>,
}

/// The nl80211 family of this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its number.
    pub id: u16,
    /// The number of its multicast group "mlme", which reports stations.
    pub mlme: u32,
}

/// What the driver reports about a station. A value that it does not report is `None`, and so is a rate of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Its hardware address.
    pub mac: Mac,
    /// Time in ms since it was last heard: a frame, a beacon of the same mesh or an acknowledgement.
    pub inactive_ms: Option<u32>,
    /// Whether the mesh peering is established; only 802.11s reports this.
    pub established: Option<bool>,
    /// Whether there is no mesh peering, and none is being made or ended; only 802.11s reports this.
    pub listening: bool,
    /// Local and remote identifier of the mesh peering. Each peering has new ones; 0 means none.
    pub peering: [u16; 2],
    /// Signal in dBm.
    pub signal_dbm: Option<i8>,
    /// Rate of the last frame sent to it, in bit/s.
    pub tx_bit_rate: Option<NonZeroU64>,
    /// Throughput to it in bit/s that rate control expects, losses included.
    pub expected_throughput: Option<NonZeroU64>,
    /// Frames sent to it.
    pub tx_packets: Option<u32>,
    /// Repetitions of frames sent to it.
    pub tx_retries: Option<u32>,
    /// Frames that it never acknowledged.
    pub tx_failed: Option<u32>,
    /// Airtime link metric (IEEE 802.11-2020, section 14.9) in units of 10.24 us.
    pub airtime_metric: Option<u32>,
    /// Beacon interval of our interface in time units of 1024 us.
    pub beacon_interval_tu: Option<u16>,
}

/// A notice of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A station appeared.
    Come {
        /// Interface index.
        interface: u32,
    },
    /// A station is gone.
    Gone {
        /// Interface index.
        interface: u32,
        /// Its hardware address.
        mac: Mac,
    },
}

impl Message {
    /// Asks the controller for all families.
    pub fn families() -> Self {
        Self::request(CONTROLLER, ctrl::CMD_GETFAMILY, &[])
    }

    /// Asks for all stations of an interface.
    pub fn stations(family: u16, interface: u32) -> Self {
        let interface = interface.to_ne_bytes();
        Self::request(
            family,
            nl80211::CMD_GET_STATION,
            &[(nl80211::ATTR_IFINDEX, &interface)],
        )
    }

    /// Asks for an Ethernet frame to be sent straight to the mesh peer that is its destination.
    pub fn probe(family: u16, interface: u32, mac: Mac, frame: &[u8]) -> Self {
        let interface = interface.to_ne_bytes();
        let attributes: [(u16, &[u8]); 3] = [
            (nl80211::ATTR_IFINDEX, &interface),
            (nl80211::ATTR_MAC, &mac),
            (nl80211::ATTR_FRAME, frame),
        ];
        Self::request(family, nl80211::CMD_PROBE_MESH_LINK, &attributes)
    }

    /// Asks for a station to be forgotten.
    pub fn removal(family: u16, interface: u32, mac: Mac) -> Self {
        let interface = interface.to_ne_bytes();
        let attributes: [(u16, &[u8]); 2] = [
            (nl80211::ATTR_IFINDEX, &interface),
            (nl80211::ATTR_MAC, &mac),
        ];
        Self::request(family, nl80211::CMD_DEL_STATION, &attributes)
    }

    fn request(family: u16, command: u8, attributes: &[(u16, &[u8])]) -> Self {
        let mut octets = Vec::new();
        for (kind, value) in attributes {
            let length = (ATTRIBUTE_HEADER + value.len()) as u16;
            octets.extend_from_slice(&length.to_ne_bytes());
            octets.extend_from_slice(&kind.to_ne_bytes());
            octets.extend_from_slice(value);
            octets.resize(octets.len().next_multiple_of(4), 0);
        }
        Self {
            family,
            command,
            attributes: octets,
        }
    }

    /// Returns the nl80211 family if this answer of the controller describes it.
    pub fn nl80211(&self) -> Option<Family> {
        let (mut id, mut named, mut mlme) = (None, false, None);
        for (kind, value) in attributes(&self.attributes) {
            match kind {
                ctrl::ATTR_FAMILY_ID => id = u16_of(value),
                ctrl::ATTR_FAMILY_NAME => named = text(value) == b"nl80211",
                ctrl::ATTR_MCAST_GROUPS => {
                    mlme = attributes(value).find_map(|(_, group)| group_id(group, b"mlme"));
                }
                _ => {}
            }
        }
        Some(Family {
            id: id.filter(|_| named)?,
            mlme: mlme?,
        })
    }

    /// Returns the station that this answer of nl80211 describes.
    pub fn station(&self) -> Option<Station> {
        let mut mac = None;
        let mut info: &[u8] = &[];
        for (kind, value) in attributes(&self.attributes) {
            match kind {
                nl80211::ATTR_MAC => mac = value.try_into().ok(),
                nl80211::ATTR_STA_INFO => info = value,
                _ => {}
            }
        }
        (self.command == nl80211::CMD_NEW_STATION).then_some(())?;
        Some(Station::read(mac?, info))
    }

    /// Returns the notice in this message; `None` if it is about something else.
    pub fn notice(&self) -> Option<Notice> {
        let (mut interface, mut mac) = (None, None);
        for (kind, value) in attributes(&self.attributes) {
            match kind {
                nl80211::ATTR_IFINDEX => interface = u32_of(value),
                nl80211::ATTR_MAC => mac = value.try_into().ok(),
                _ => {}
            }
        }
        let interface = interface?;
        match self.command {
            nl80211::CMD_NEW_STATION => Some(Notice::Come { interface }),
            nl80211::CMD_DEL_STATION => Some(Notice::Gone {
                interface,
                mac: mac?,
            }),
            _ => None,
        }
    }
}

impl Station {
    /// Returns whether a mesh peering is established and its identifiers are known.
    pub fn is_peer(&self) -> bool {
        self.established == Some(true) && !self.peering.contains(&0)
    }

    fn read(mac: Mac, info: &[u8]) -> Self {
        let mut station = Self {
            mac,
            ..Self::default()
        };
        for (kind, value) in attributes(info) {
            station.take(kind, value);
        }
        station
    }

    fn take(&mut self, kind: u16, value: &[u8]) {
        match kind {
            nl80211::STA_INFO_INACTIVE_TIME => self.inactive_ms = u32_of(value),
            nl80211::STA_INFO_PLINK_STATE => {
                self.established = value.first().map(|state| *state == nl80211::PLINK_ESTAB);
                self.listening = value.first() == Some(&nl80211::PLINK_LISTEN);
            }
            nl80211::STA_INFO_LLID => self.peering[0] = u16_of(value).unwrap_or(0),
            nl80211::STA_INFO_PLID => self.peering[1] = u16_of(value).unwrap_or(0),
            nl80211::STA_INFO_SIGNAL => {
                self.signal_dbm = value.first().map(|octet| i8::from_ne_bytes([*octet]));
            }
            nl80211::STA_INFO_TX_BITRATE => self.tx_bit_rate = bit_rate(value),
            nl80211::STA_INFO_EXPECTED_THROUGHPUT => {
                self.expected_throughput = u32_of(value).and_then(|kilobits| bits(kilobits, 1000));
            }
            nl80211::STA_INFO_TX_PACKETS => self.tx_packets = u32_of(value),
            nl80211::STA_INFO_TX_RETRIES => self.tx_retries = u32_of(value),
            nl80211::STA_INFO_TX_FAILED => self.tx_failed = u32_of(value),
            nl80211::STA_INFO_AIRTIME_LINK_METRIC => self.airtime_metric = u32_of(value),
            nl80211::STA_INFO_BSS_PARAM => {
                self.beacon_interval_tu = attributes(value)
                    .find(|(kind, _)| *kind == nl80211::STA_BSS_PARAM_BEACON_INTERVAL)
                    .and_then(|(_, value)| u16_of(value));
            }
            _ => {}
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = Infallible;

    /// Decodes a message. One that is shorter than its header gets command 0, which no family knows.
    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self {
            family: header.message_type,
            command: payload.first().copied().unwrap_or(0),
            attributes: payload.get(HEADER..).unwrap_or_default().to_vec(),
        })
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER);
        header.copy_from_slice(&[self.command, 1, 0, 0]);
        attributes.copy_from_slice(&self.attributes);
    }
}

/// Returns the attributes before the first malformed one.
fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(octets).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(ATTRIBUTE_HEADER..end)?))
    })
}

fn group_id(group: &[u8], wanted: &[u8]) -> Option<u32> {
    let (mut id, mut named) = (None, false);
    for (kind, value) in attributes(group) {
        match kind {
            ctrl::ATTR_MCAST_GRP_NAME => named = text(value) == wanted,
            ctrl::ATTR_MCAST_GRP_ID => id = u32_of(value),
            _ => {}
        }
    }
    id.filter(|_| named)
}

/// Returns the rate in `struct rate_info`, which is in units of 100 kbit/s. The 32-bit form can exceed 6.5 Gbit/s.
fn bit_rate(info: &[u8]) -> Option<NonZeroU64> {
    let (mut short, mut long) = (None, None);
    for (kind, value) in attributes(info) {
        match kind {
            nl80211::RATE_INFO_BITRATE => short = u16_of(value).map(u32::from),
            nl80211::RATE_INFO_BITRATE32 => long = u32_of(value),
            _ => {}
        }
    }
    bits(long.or(short)?, 100_000)
}

fn bits(number: u32, unit: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(u64::from(number) * unit)
}

/// Returns a string without the zero byte at its end.
fn text(value: &[u8]) -> &[u8] {
    value.strip_suffix(b"\0").unwrap_or(value)
}

fn u16_of(value: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?))
}

fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
