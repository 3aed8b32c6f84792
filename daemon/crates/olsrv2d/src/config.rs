//! Reads the configuration file. The result is checked values, or an error that names file, line, key, bad value and
//! what is allowed.

mod raw;
mod values;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemonkit::config::{ConfigError, Fault};
use olsrv2::{Accept, Attached, Metric, Prefix, Signatures};

use raw::RawConfig;

use crate::netlink::Route;
use crate::probation::Probation;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Originators that the operator configured, at most one of each family. If empty, they are taken from `lo`.
    pub originators: Vec<IpAddr>,
    /// Names of the MANET interfaces. An interface need not exist yet.
    pub interfaces: Vec<String>,
    /// HELLO_INTERVAL and H_HOLD_TIME of each interface (RFC 6130, section 5.3), by name.
    pub hellos: BTreeMap<String, Timing>,
    /// The longest interval and the longest validity time in `hellos`.
    pub hello: Timing,
    /// TC_INTERVAL and T_HOLD_TIME (RFC 7181, section 5.4.3).
    pub tc: Timing,
    /// Metric of a link that is off probation and has neither a measured nor a configured metric (RFC 7181, section 6).
    pub metric: Metric,
    /// How the metric of each interface's links is found, by interface name.
    pub weights: BTreeMap<String, Weight>,
    /// WILL_FLOODING and WILL_ROUTING, 0 (never) to 15 (always) (RFC 7181, section 5.4.8).
    pub willingness: u8,
    /// Attributes of the routes that olsrv2d adds to the kernel.
    pub route: RouteSettings,
    /// Networks reachable through this router (RFC 7181, section 7.2).
    pub attached: Vec<Attached>,
    /// Destinations to which routes are installed. Networks that this machine is connected to are never among them.
    pub accept: Accept,
    /// How messages without a valid signature of their originator are treated.
    pub signatures: Signatures,
    /// Socket of the program that signs this router's messages; `None` if they are not signed.
    pub signer: Option<PathBuf>,
    /// Management interfaces.
    pub management: Management,
}

/// How often a message is sent, and how long its contents are valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Time between two periodic messages.
    pub interval: Duration,
    /// Validity time that the message announces.
    pub validity: Duration,
}

/// Where the metric of an interface's links comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The measurement of the wireless driver; without one as [`Weight::Hop`].
    Auto,
    /// The configured metric of the router, so that paths are compared by their number of hops.
    Hop,
    /// This fixed metric.
    Constant(Metric),
}

/// Attributes of every kernel route of olsrv2d. Together they distinguish its routes from those of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Routing table.
    pub table: u32,
    /// Protocol number (`rtm_protocol`).
    pub protocol: u8,
    /// Priority (`RTA_PRIORITY`) of routes to addresses of routers.
    pub metric: u32,
    /// Priority of routes to attached networks.
    pub network_metric: u32,
}

impl RouteSettings {
    /// Returns the priority of olsrv2d's route to `destination`.
    pub fn metric_of(&self, destination: Prefix) -> u32 {
        if destination.is_host() {
            self.metric
        } else {
            self.network_metric
        }
    }

    /// Returns whether olsrv2d would install a route to the same destination with the same table and metric.
    pub fn is_place_of_ours(&self, route: &Route) -> bool {
        (route.table, route.metric) == (self.table, self.metric_of(route.destination))
    }

    /// Returns whether olsrv2d installed this route.
    pub fn is_ours(&self, route: &Route) -> bool {
        route.protocol == self.protocol && self.is_place_of_ours(route)
    }
}

/// Management interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Management {
    /// TCP address of the text interface; `None` if it does not listen on TCP.
    pub telnet: Option<SocketAddr>,
    /// Path of the text interface's UNIX socket; `None` if there is none.
    pub query: Option<PathBuf>,
    /// Path of the change stream's UNIX socket; `None` if there is none.
    pub socket: Option<PathBuf>,
    /// Group whose members may connect to both UNIX sockets.
    pub socket_group: Option<String>,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has an unknown key, or a value outside its range.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        daemonkit::config::load(path, Self::parse)
    }

    /// Returns the protocol's configuration. `originators` are those in force, `connected` the networks outside the
    /// mesh.
    pub fn router(
        &self,
        originators: &[IpAddr],
        connected: &[Prefix],
        first_sequence_number: u16,
    ) -> olsrv2::Config {
        olsrv2::Config {
            originator_v4: originators.iter().find_map(|address| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            }),
            originator_v6: originators.iter().find_map(|address| match address {
                IpAddr::V4(_) => None,
                IpAddr::V6(address) => Some(*address),
            }),
            attached: self.attached.clone(),
            accept: Accept {
                connected: connected.to_vec(),
                ..self.accept.clone()
            },
            flooding_willingness: self.willingness,
            routing_willingness: self.willingness,
            link_metric: Probation::metric(self.metric),
            timing: olsrv2::Timing {
                hello_interval: self.hello.interval,
                hello_validity: self.hello.validity,
                tc_interval: self.tc.interval,
                tc_validity: self.tc.validity,
                ..olsrv2::Timing::default()
            },
            signatures: self.signatures,
            first_sequence_number: Some(first_sequence_number),
            ..olsrv2::Config::default()
        }
    }

    /// Returns the socket of the program that signs this router's messages; `None` if they are not to be signed.
    pub fn wanted_signer(&self) -> Option<&Path> {
        let wanted = self.signatures != Signatures::Off;
        self.signer.as_deref().filter(|_| wanted)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let raw: RawConfig = daemonkit::config::decode(text)?;
        raw.check()
    }
}

/// Returns whether an address may be an originator: a unicast address whose scope is wider than the link.
pub fn is_routable(address: IpAddr) -> bool {
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return false;
    }
    match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_broadcast(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
