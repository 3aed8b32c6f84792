//! Reads the configuration file. The result is checked values, or an error that names file, line, key, bad value and
//! what is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemonkit::config::{
    is_interface_name, quoted, ConfigError, Fault, INTERFACE_NAME_MAX, SOCKET_PATH_MAX,
};
use olsrv2::{Accept, AcceptedNetwork, Attached, Metric, Prefix};
use serde::Deserialize;
use toml::Spanned;

use crate::netlink::Route;
use crate::probation::Probation;

/// Largest number of MANET interfaces, more than any router has. Bounds the sockets and the size of a HELLO.
const INTERFACES_MAX: usize = 64;
/// Largest number of attached networks. Keeps the TCs of one router within a few packets.
const ATTACHED_MAX: usize = 256;
/// Metric of routes to networks: larger than those of the default routes of DHCP and NetworkManager (100 to 20600).
const NETWORK_METRIC: i64 = 32_768;
/// Intervals that RFC 5497 can express and a mesh can use, in seconds.
const INTERVAL_SECONDS: RangeInclusive<f64> = 0.05..=3600.0;
/// Largest validity time: ten of the largest intervals, in seconds.
const VALIDITY_SECONDS_MAX: f64 = 36_000.0;
/// Validity time in intervals when none is configured. It bridges two lost messages.
const VALIDITY_INTERVALS: u32 = 3;

/// Directory of the sockets when no path is configured.
const DIRECTORY: &str = "/run/olsrv2d";

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
            first_sequence_number: Some(first_sequence_number),
            ..olsrv2::Config::default()
        }
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let raw: RawConfig = daemonkit::config::decode(text)?;
        raw.check()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    #[serde(default)]
    originators: Vec<Spanned<String>>,
    #[serde(default)]
    interface: Vec<RawInterface>,
    metric: Option<Spanned<i64>>,
    willingness: Option<Spanned<i64>>,
    #[serde(default)]
    tc: RawTc,
    #[serde(default)]
    route: RawRoute,
    #[serde(default)]
    attached: Vec<RawAttached>,
    #[serde(default)]
    accept: RawAccept,
    #[serde(default)]
    management: RawManagement,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInterface {
    name: Spanned<String>,
    hello_interval: Option<Spanned<f64>>,
    hello_validity: Option<Spanned<f64>>,
    metric: Option<Spanned<RawWeight>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "\"auto\", \"hop\" or a number")]
enum RawWeight {
    Number(i64),
    Word(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTc {
    interval: Option<Spanned<f64>>,
    validity: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoute {
    table: Option<Spanned<i64>>,
    protocol: Option<Spanned<i64>>,
    metric: Option<Spanned<i64>>,
    network_metric: Option<Spanned<i64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccept {
    hosts: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    network: Vec<RawNetwork>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    prefix: Spanned<String>,
    from: Spanned<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAttached {
    prefix: Spanned<String>,
    distance: Option<Spanned<i64>>,
    metric: Option<Spanned<i64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManagement {
    telnet: Option<Spanned<String>>,
    query: Option<Spanned<String>>,
    socket: Option<Spanned<String>>,
    socket_group: Option<String>,
}

impl RawConfig {
    fn check(&self) -> Result<Config, Fault> {
        let defaults = olsrv2::Timing::default();
        let hellos = hellos(&self.interface, defaults.hello_interval)?;
        Ok(Config {
            originators: originators(&self.originators)?,
            interfaces: interfaces(&self.interface)?,
            hello: longest(hellos.values(), defaults.hello_interval),
            hellos,
            tc: timing(
                ["tc.interval", "tc.validity"],
                self.tc.interval.as_ref(),
                self.tc.validity.as_ref(),
                defaults.tc_interval,
            )?,
            metric: metric(
                "metric",
                self.metric.as_ref(),
                olsrv2::Config::DEFAULT_LINK_METRIC,
            )?,
            weights: weights(&self.interface)?,
            willingness: integer("willingness", self.willingness.as_ref(), 0..=15, 7)? as u8,
            route: self.route.check()?,
            attached: attached(&self.attached)?,
            accept: self.accept.check()?,
            management: self.management.check()?,
        })
    }
}

impl RawInterface {
    fn weight(&self) -> Result<Weight, Fault> {
        let Some(raw) = &self.metric else {
            return Ok(Weight::Auto);
        };
        let range = Metric::MIN.get()..=Metric::MAX.get();
        let allowed = format!("\"auto\", \"hop\", {} to {}", range.start(), range.end());
        match raw.as_ref() {
            RawWeight::Word(word) if word == "auto" => Ok(Weight::Auto),
            RawWeight::Word(word) if word == "hop" => Ok(Weight::Hop),
            RawWeight::Word(word) => Err(Fault::value(
                "interface.metric",
                raw,
                format!("{word:?}"),
                allowed,
            )),
            RawWeight::Number(number) => u32::try_from(*number)
                .ok()
                .and_then(Metric::new)
                .map(Weight::Constant)
                .ok_or_else(|| Fault::value("interface.metric", raw, number, allowed)),
        }
    }

    fn hello(&self, default: Duration) -> Result<Timing, Fault> {
        let keys = ["interface.hello_interval", "interface.hello_validity"];
        timing(
            keys,
            self.hello_interval.as_ref(),
            self.hello_validity.as_ref(),
            default,
        )
    }
}

fn weights(raw: &[RawInterface]) -> Result<BTreeMap<String, Weight>, Fault> {
    raw.iter()
        .map(|interface| Ok((interface.name.as_ref().clone(), interface.weight()?)))
        .collect()
}

impl RawRoute {
    fn check(&self) -> Result<RouteSettings, Fault> {
        Ok(RouteSettings {
            table: integer(
                "route.table",
                self.table.as_ref(),
                1..=i64::from(u32::MAX),
                254,
            )? as u32,
            // 0 to 4 belong to the kernel and the operator (rtnetlink(7)).
            protocol: integer("route.protocol", self.protocol.as_ref(), 5..=255, 100)? as u8,
            metric: integer(
                "route.metric",
                self.metric.as_ref(),
                1..=i64::from(u32::MAX),
                2,
            )? as u32,
            network_metric: integer(
                "route.network_metric",
                self.network_metric.as_ref(),
                1..=i64::from(u32::MAX),
                NETWORK_METRIC,
            )? as u32,
        })
    }
}

impl RawAccept {
    fn check(&self) -> Result<Accept, Fault> {
        let hosts = match &self.hosts {
            None => default_hosts(),
            Some(hosts) => hosts
                .iter()
                .map(|host| prefix("accept.hosts", host))
                .collect::<Result<_, _>>()?,
        };
        if self.network.len() > ATTACHED_MAX {
            let last = &self.network[ATTACHED_MAX].prefix;
            let allowed = format!("at most {ATTACHED_MAX} networks");
            return Err(Fault::value(
                "accept.network.prefix",
                last,
                quoted(last),
                allowed,
            ));
        }
        let networks = self.network.iter().map(RawNetwork::check);
        Ok(Accept {
            hosts,
            networks: networks.collect::<Result<_, _>>()?,
            connected: Vec::new(),
        })
    }
}

impl RawNetwork {
    fn check(&self) -> Result<AcceptedNetwork, Fault> {
        let allowed = "originators of routers that may announce this network, at least one, such as [\"fd77::3\"]";
        let key = "accept.network.from";
        let originator = |text: &Spanned<String>| {
            let address = text.as_ref().parse().ok();
            address
                .filter(|address| is_routable(*address))
                .ok_or_else(|| Fault::value(key, text, quoted(text), allowed))
        };
        if self.from.as_ref().is_empty() {
            return Err(Fault::value(key, &self.from, "[]", allowed));
        }
        let from = self.from.as_ref().iter().map(originator);
        Ok(AcceptedNetwork {
            prefix: prefix("accept.network.prefix", &self.prefix)?,
            from: from.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the unique local IPv6 addresses (RFC 4193), and the IPv4 addresses that are not routed in the internet (RFC
/// 1918, RFC 6598).
fn default_hosts() -> Vec<Prefix> {
    let texts = [
        "fc00::/7",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "172.16.0.0/12",
        "192.168.0.0/16",
    ];
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl RawManagement {
    fn check(&self) -> Result<Management, Fault> {
        let socket = path("management.socket", self.socket.as_ref(), || {
            PathBuf::from(DIRECTORY).join("changes.sock")
        })?;
        let query = path("management.query", self.query.as_ref(), || {
            let beside = socket.as_deref().and_then(Path::parent);
            beside.unwrap_or(Path::new(DIRECTORY)).join("query.sock")
        })?;
        if let Some(raw) = self
            .query
            .as_ref()
            .filter(|_| query.is_some() && query == socket)
        {
            let allowed = "another path than management.socket";
            return Err(Fault::value("management.query", raw, quoted(raw), allowed));
        }
        Ok(Management {
            telnet: telnet(self.telnet.as_ref())?,
            query,
            socket,
            socket_group: self.socket_group.clone(),
        })
    }
}

fn originators(raw: &[Spanned<String>]) -> Result<Vec<IpAddr>, Fault> {
    let allowed = "at most one routable IPv4 and one routable IPv6 address";
    let mut found: Vec<IpAddr> = Vec::new();
    for text in raw {
        let refuse = || Fault::value("originators", text, quoted(text), allowed);
        let address: IpAddr = text.as_ref().parse().map_err(|_| refuse())?;
        if !is_routable(address)
            || found
                .iter()
                .any(|other| other.is_ipv4() == address.is_ipv4())
        {
            return Err(refuse());
        }
        found.push(address);
    }
    Ok(found)
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

fn interfaces(raw: &[RawInterface]) -> Result<Vec<String>, Fault> {
    let mut names = BTreeSet::new();
    for RawInterface { name, .. } in raw {
        let fresh = is_interface_name(name.as_ref()) && names.insert(name.as_ref().clone());
        if !fresh || names.len() > INTERFACES_MAX {
            let allowed = format!(
                "1 to {INTERFACE_NAME_MAX} octets without space, slash or colon; not lo; each name once; at most {INTERFACES_MAX}"
            );
            return Err(Fault::value("interface.name", name, quoted(name), allowed));
        }
    }
    Ok(names.into_iter().collect())
}

/// Returns the HELLO timing of each interface, by name.
fn hellos(raw: &[RawInterface], default: Duration) -> Result<BTreeMap<String, Timing>, Fault> {
    let own = |interface: &RawInterface| {
        let name = interface.name.as_ref().clone();
        Ok((name, interface.hello(default)?))
    };
    raw.iter().map(own).collect()
}

/// Returns the longest interval and the longest validity time, or the defaults if there is no interface.
fn longest<'a>(timings: impl Iterator<Item = &'a Timing>, default: Duration) -> Timing {
    let longer = |a: Timing, b: Timing| Timing {
        interval: a.interval.max(b.interval),
        validity: a.validity.max(b.validity),
    };
    timings.copied().reduce(longer).unwrap_or(Timing {
        interval: default,
        validity: default * VALIDITY_INTERVALS,
    })
}

fn timing(
    [interval_key, validity_key]: [&str; 2],
    interval: Option<&Spanned<f64>>,
    validity: Option<&Spanned<f64>>,
    default: Duration,
) -> Result<Timing, Fault> {
    let interval = seconds(interval_key, interval, INTERVAL_SECONDS, default)?;
    let range = interval.as_secs_f64()..=VALIDITY_SECONDS_MAX;
    let validity = seconds(validity_key, validity, range, interval * VALIDITY_INTERVALS)?;
    Ok(Timing { interval, validity })
}

fn seconds(
    key: &str,
    raw: Option<&Spanned<f64>>,
    range: RangeInclusive<f64>,
    default: Duration,
) -> Result<Duration, Fault> {
    let Some(raw) = raw else {
        return Ok(default);
    };
    let value = *raw.as_ref();
    if !range.contains(&value) {
        let allowed = format!("{} to {} seconds", range.start(), range.end());
        return Err(Fault::value(key, raw, value, allowed));
    }
    Ok(Duration::from_secs_f64(value))
}

fn integer(
    key: &str,
    raw: Option<&Spanned<i64>>,
    range: RangeInclusive<i64>,
    default: i64,
) -> Result<i64, Fault> {
    let Some(raw) = raw else {
        return Ok(default);
    };
    let value = *raw.as_ref();
    if !range.contains(&value) {
        let allowed = format!("{} to {}", range.start(), range.end());
        return Err(Fault::value(key, raw, value, allowed));
    }
    Ok(value)
}

fn metric(key: &str, raw: Option<&Spanned<i64>>, default: Metric) -> Result<Metric, Fault> {
    let range = i64::from(Metric::MIN.get())..=i64::from(Metric::MAX.get());
    let value = integer(key, raw, range, i64::from(default.get()))?;
    Ok(Metric::new(value as u32).unwrap_or(default))
}

fn attached(raw: &[RawAttached]) -> Result<Vec<Attached>, Fault> {
    let mut prefixes = BTreeSet::new();
    raw.iter()
        .map(|entry| {
            let prefix = prefix("attached.prefix", &entry.prefix)?;
            if !prefixes.insert(prefix) || prefixes.len() > ATTACHED_MAX {
                let allowed = format!("each prefix once, at most {ATTACHED_MAX}");
                return Err(Fault::value(
                    "attached.prefix",
                    &entry.prefix,
                    quoted(&entry.prefix),
                    allowed,
                ));
            }
            Ok(Attached {
                prefix,
                distance: integer("attached.distance", entry.distance.as_ref(), 0..=255, 1)? as u8,
                metric: metric("attached.metric", entry.metric.as_ref(), Metric::MIN)?,
            })
        })
        .collect()
}

fn prefix(key: &str, raw: &Spanned<String>) -> Result<Prefix, Fault> {
    let allowed = "ADDRESS/LENGTH with all bits after LENGTH zero, such as 10.1.0.0/16 or ::/0";
    let parsed = raw.as_ref().parse::<Prefix>().ok();
    parsed
        .filter(|prefix| *prefix == prefix.canonical())
        .ok_or_else(|| Fault::value(key, raw, quoted(raw), allowed))
}

/// Returns the TCP address of the text interface. Off by default: every local account can connect to a TCP port.
fn telnet(raw: Option<&Spanned<String>>) -> Result<Option<SocketAddr>, Fault> {
    let Some(raw) = raw.filter(|raw| raw.as_ref() != "off") else {
        return Ok(None);
    };
    match raw.as_ref().parse::<SocketAddr>() {
        // Only a loopback address: the text interface has no authentication, so other hosts must not reach it.
        Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
        _ => Err(Fault::value(
            "management.telnet",
            raw,
            quoted(raw),
            "\"off\", or a loopback address with a port such as 127.0.0.1:2009 or [::1]:2009",
        )),
    }
}

/// Returns the path of a UNIX socket; `None` if it is switched off.
fn path(
    key: &str,
    raw: Option<&Spanned<String>>,
    default: impl FnOnce() -> PathBuf,
) -> Result<Option<PathBuf>, Fault> {
    let Some(raw) = raw else {
        return Ok(Some(default()));
    };
    match raw.as_ref().as_str() {
        "off" => Ok(None),
        path if path.starts_with('/') && path.len() <= SOCKET_PATH_MAX && !path.contains('\0') => {
            Ok(Some(PathBuf::from(path)))
        }
        _ => {
            let allowed =
                format!("\"off\", or an absolute path of at most {SOCKET_PATH_MAX} octets");
            Err(Fault::value(key, raw, quoted(raw), allowed))
        }
    }
}

#[cfg(test)]
mod tests;
