//! Decodes the messages of nl80211, and encodes requests.
//!
//! Messages are checked: an attribute that is truncated, too short or unknown is skipped, and nothing panics.

use std::num::NonZeroU64;

use netlinkkit::{attributes, text, u16_of, u32_of, Message};

/// A hardware address.
pub type Mac = [u8; 6];

/// Commands and attributes of linux/genetlink.h.
mod ctrl {
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

/// What nl80211 makes of a generic netlink message.
pub trait Nl80211: Sized {
    /// Asks for all stations of an interface.
    fn stations(family: u16, interface: u32) -> Self;

    /// Asks for an Ethernet frame to be sent straight to the mesh peer that is its destination.
    fn probe(family: u16, interface: u32, mac: Mac, frame: &[u8]) -> Self;

    /// Asks for a station to be forgotten.
    fn removal(family: u16, interface: u32, mac: Mac) -> Self;

    /// Returns the nl80211 family if this answer of the controller describes it.
    fn nl80211(&self) -> Option<Family>;

    /// Returns the station that this answer of nl80211 describes.
    fn station(&self) -> Option<Station>;

    /// Returns the notice in this message; `None` if it is about something else.
    fn notice(&self) -> Option<Notice>;
}

impl Nl80211 for Message {
    fn stations(family: u16, interface: u32) -> Self {
        let interface = interface.to_ne_bytes();
        Self::new(
            family,
            nl80211::CMD_GET_STATION,
            &[(nl80211::ATTR_IFINDEX, &interface)],
        )
    }

    fn probe(family: u16, interface: u32, mac: Mac, frame: &[u8]) -> Self {
        let interface = interface.to_ne_bytes();
        let attributes: [(u16, &[u8]); 3] = [
            (nl80211::ATTR_IFINDEX, &interface),
            (nl80211::ATTR_MAC, &mac),
            (nl80211::ATTR_FRAME, frame),
        ];
        Self::new(family, nl80211::CMD_PROBE_MESH_LINK, &attributes)
    }

    fn removal(family: u16, interface: u32, mac: Mac) -> Self {
        let interface = interface.to_ne_bytes();
        let attributes: [(u16, &[u8]); 2] = [
            (nl80211::ATTR_IFINDEX, &interface),
            (nl80211::ATTR_MAC, &mac),
        ];
        Self::new(family, nl80211::CMD_DEL_STATION, &attributes)
    }

    fn nl80211(&self) -> Option<Family> {
        let id = self.family_id(b"nl80211")?;
        let groups =
            attributes(&self.attributes).find(|(kind, _)| *kind == ctrl::ATTR_MCAST_GROUPS);
        let mlme = attributes(groups?.1).find_map(|(_, group)| group_id(group, b"mlme"));
        Some(Family { id, mlme: mlme? })
    }

    fn station(&self) -> Option<Station> {
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

    fn notice(&self) -> Option<Notice> {
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

#[cfg(test)]
mod tests;
