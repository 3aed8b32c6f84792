//! The tables of the configuration file, and how each is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemonkit::config::{is_interface_name, quoted, Fault, INTERFACE_NAME_MAX};
use olsrv2::{Accept, AcceptedNetwork, Attached, Metric, Prefix, Signatures};
use serde::Deserialize;
use toml::Spanned;

use super::values::{
    integer, longest, metric, originators, path, prefix, signatures, telnet, timing,
};
use super::{is_routable, Config, Management, RouteSettings, Timing, Weight};

/// Largest number of MANET interfaces, more than any router has. Bounds the sockets and the size of a HELLO.
const INTERFACES_MAX: usize = 64;
/// Largest number of attached networks. Keeps the TCs of one router within a few packets.
const ATTACHED_MAX: usize = 256;
/// Metric of routes to networks: larger than those of the default routes of DHCP and NetworkManager (100 to 20600).
const NETWORK_METRIC: i64 = 32_768;
/// Metric of routes to addresses of routers: larger than that of meshsecd's protected routes to clients.
const ROUTE_METRIC: i64 = 20;
/// Where olsrv2-signer's unit listens.
const SIGNER: &str = "/run/olsrv2-signer/sign.sock";
/// Directory of the sockets when no path is configured.
const DIRECTORY: &str = "/run/olsrv2d";

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    originators: Vec<Spanned<String>>,
    #[serde(default)]
    interface: Vec<RawInterface>,
    metric: Option<Spanned<i64>>,
    willingness: Option<Spanned<i64>>,
    signatures: Option<Spanned<String>>,
    signer: Option<Spanned<String>>,
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
    /// Checks all values.
    pub(super) fn check(&self) -> Result<Config, Fault> {
        let defaults = olsrv2::Timing::default();
        let hellos = hellos(&self.interface, defaults.hello_interval)?;
        let signer = match &self.signer {
            Some(raw) => path("signer", Some(raw), PathBuf::new)?,
            None => None,
        };
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
            signatures: self.signatures(signer.is_some())?,
            signer,
            management: self.management.check()?,
        })
    }

    /// Checks `signatures`. A router that signs nothing itself may not ask others for it: with `require` nobody that
    /// requires signatures would hear it, and with `prefer` it would be the last resort of all.
    fn signatures(&self, has_signer: bool) -> Result<Signatures, Fault> {
        let found = signatures(self.signatures.as_ref())?;
        match &self.signatures {
            Some(raw) if found != Signatures::Off && !has_signer => {
                let allowed = format!(
                    "\"off\" without a signer; add signer = \"{SIGNER}\" and start olsrv2-signer"
                );
                Err(Fault::value("signatures", raw, quoted(raw), allowed))
            }
            _ => Ok(found),
        }
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
                ROUTE_METRIC,
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
