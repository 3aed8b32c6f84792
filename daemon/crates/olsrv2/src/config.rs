//! What an operator may choose.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use nhdp::Family;
use rfc5444::{iana, Metric, Prefix};

use crate::accept::Accept;
use crate::signatures::Signatures;

/// The configuration of a router. `Config::default()` has no originator and so runs no family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The IPv4 originator; `None` leaves IPv4 out.
    pub originator_v4: Option<Ipv4Addr>,
    /// The IPv6 originator, not link-local; `None` leaves IPv6 out.
    pub originator_v6: Option<Ipv6Addr>,
    /// The local attached network set (RFC 7181, section 7.2).
    pub attached: Vec<Attached>,
    /// WILL_FLOODING, 0 (never) to 15 (always); greater values count as 15.
    pub flooding_willingness: u8,
    /// WILL_ROUTING, 0 (never) to 15 (always); greater values count as 15.
    pub routing_willingness: u8,
    /// The incoming metric of every link for which
    /// [`Router::set_link_metric`](crate::Router::set_link_metric) has set no other.
    pub link_metric: Metric,
    /// Whether TCs advertise all symmetric neighbours, as RFC 7181, section 17.3, permits, or routing
    /// MPR selectors alone. With all of them a router that loses a link knows a way around it at once.
    /// A router that is never willing to route, or whose neighbours do not fit into one packet,
    /// advertises its selectors alone in any case.
    pub advertise_all: bool,
    /// Intervals, validity times and jitter.
    pub timing: Timing,
    /// Which destinations are routed to.
    pub accept: Accept,
    /// How messages without a valid signature are treated.
    pub signatures: Signatures,
    /// Bounds against spoofed topology.
    pub limits: Limits,
    /// The longest RFC 5444 packet in octets, at least 256. One message that exceeds it travels alone.
    pub packet_size: usize,
    /// The first ANSN and message sequence number; `None` takes a random one.
    ///
    /// A restarted router is believed at once when its numbers go on beyond
    /// those of its predecessor. The wall clock in quarter seconds, modulo
    /// 65536, does that without stored state.
    pub first_sequence_number: Option<u16>,
}

/// A network that this router announces as reachable through it (RFC 7181, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attached {
    /// The network; host bits are ignored.
    pub prefix: Prefix,
    /// AL_dist in hops; 0 is an address of the router itself.
    pub distance: u8,
    /// AL_metric.
    pub metric: Metric,
}

/// Intervals, validity times and jitter (RFC 6130, sections 5.3 and 5.4; RFC 7181, sections 5.3 and 5.4).
///
/// Times travel as RFC 5497 codes, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// HELLO_INTERVAL and REFRESH_INTERVAL, unless
    /// [`Router::set_hello_timing`](crate::Router::set_hello_timing) has set others for an interface.
    pub hello_interval: Duration,
    /// H_HOLD_TIME likewise; L_HOLD_TIME, N_HOLD_TIME and I_HOLD_TIME.
    pub hello_validity: Duration,
    /// HELLO_MIN_INTERVAL.
    pub hello_min_interval: Duration,
    /// TC_INTERVAL.
    pub tc_interval: Duration,
    /// T_HOLD_TIME and A_HOLD_TIME (RFC 7181, section 5.4.4).
    pub tc_validity: Duration,
    /// TC_MIN_INTERVAL.
    pub tc_min_interval: Duration,
    /// RX_HOLD_TIME, P_HOLD_TIME, F_HOLD_TIME and O_HOLD_TIME.
    pub duplicate_hold_time: Duration,
    /// HP_MAXJITTER and TP_MAXJITTER as a fraction of their interval: one
    /// `n`-th, at least 2, and never more than half of the minimum interval (RFC 5148, section 5.4).
    pub periodic_jitter_divisor: u32,
    /// HT_MAXJITTER and TT_MAXJITTER.
    pub triggered_jitter: Duration,
    /// F_MAXJITTER.
    pub forward_jitter: Duration,
    /// The shortest pause between two calculations of the routing set; it
    /// doubles up to `route_max_interval` while changes go on.
    pub route_min_interval: Duration,
    /// The longest pause between two calculations of the routing set.
    pub route_max_interval: Duration,
}

/// HELLO_INTERVAL and H_HOLD_TIME, which are interface parameters (RFC 6130, sections 5.3.1 and 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloTiming {
    /// HELLO_INTERVAL and REFRESH_INTERVAL.
    pub interval: Duration,
    /// H_HOLD_TIME, at least `interval`.
    pub validity: Duration,
}

/// Bounds on what the network can make a router store or do. What exceeds
/// one is dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Link tuples of a family.
    pub links: usize,
    /// 2-hop tuples of a family.
    pub two_hops: usize,
    /// Remote routers of a family.
    pub nodes: usize,
    /// Edges, routable addresses and attached networks of one remote router, each.
    pub advertised: usize,
    /// Edges, routable addresses and attached networks of all remote routers of a family, each.
    pub edges: usize,
    /// Entries of the processed set, and of the received and forwarded sets, each.
    pub duplicates: usize,
    /// Messages accepted from one source address in a second, over a burst of as many.
    pub messages_per_second: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            originator_v4: None,
            originator_v6: None,
            attached: Vec::new(),
            flooding_willingness: iana::willingness::DEFAULT,
            routing_willingness: iana::willingness::DEFAULT,
            link_metric: Self::DEFAULT_LINK_METRIC,
            advertise_all: true,
            timing: Timing::default(),
            accept: Accept::default(),
            signatures: Signatures::default(),
            limits: Limits::default(),
            packet_size: 1280 - 48,
            first_sequence_number: None,
        }
    }
}

impl Config {
    /// What olsrd2's directional airtime metric (2^31 over the bit rate) gives a lossless link of
    /// 1 kbit/s, its assumption where the rate is unknown: links of both then weigh about the same.
    pub const DEFAULT_LINK_METRIC: Metric = match Metric::new(2_105_088) {
        Some(metric) => metric,
        None => Metric::MAX,
    };

    /// How HELLOs are timed where nothing else was set for an interface.
    pub(crate) fn hello_timing(&self) -> HelloTiming {
        HelloTiming {
            interval: self.timing.hello_interval,
            validity: self.timing.hello_validity,
        }
    }

    /// The originator of a family.
    pub fn originator(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.originator_v4.map(IpAddr::V4),
            Family::V6 => self.originator_v6.map(IpAddr::V6),
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        let hello_interval = Duration::from_secs(2);
        let tc_interval = Duration::from_secs(5);
        Self {
            hello_interval,
            hello_validity: 3 * hello_interval,
            hello_min_interval: Duration::from_millis(200),
            tc_interval,
            tc_validity: 3 * tc_interval,
            tc_min_interval: Duration::from_millis(300),
            duplicate_hold_time: Duration::from_secs(30),
            periodic_jitter_divisor: 4,
            triggered_jitter: Duration::from_millis(30),
            forward_jitter: Duration::from_millis(30),
            route_min_interval: Duration::from_millis(10),
            route_max_interval: Duration::from_millis(500),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            links: 256,
            two_hops: 16_384,
            nodes: 4096,
            advertised: 1024,
            edges: 65_536,
            duplicates: 65_536,
            messages_per_second: 4096,
        }
    }
}
