//! Tables in olsrd2's form: the keys, types and order that an orchestrator of olsrd2 reads.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use olsrv2::{Family, LinkView, Metric, Prefix, RouteView};
use serde_json::{json, Value};

use super::state::{State, StationView};

/// Name of the metric; every link has the configured constant until it is measured.
pub const METRIC_NAME: &str = "constant_metric";
/// olsrd2's name of the MPR algorithm of RFC 7181, appendix B.
const MPR_NAME: &str = "mpr";

/// Rows of named fields.
pub struct Table {
    name: &'static str,
    rows: Vec<Row>,
}

type Row = Vec<(&'static str, Value)>;

impl Table {
    /// As JSON, in olsrd2's layout.
    pub fn to_json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(json_row).collect();
        format!("{{\"{}\": [{}]}}", self.name, rows.join(","))
    }

    /// As text: a line for each row, tabs between its values.
    pub fn to_text(&self) -> String {
        self.rows.iter().map(text_row).collect()
    }
}

fn json_row(row: &Row) -> String {
    let fields: Vec<String> = row
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{\n{}}}", fields.join(",\n"))
}

fn text_row(row: &Row) -> String {
    let values: Vec<String> = row.iter().map(|(_, value)| text_value(value)).collect();
    format!("{}\n", values.join("\t"))
}

fn text_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The table `subject` of `olsrv2info`.
pub fn olsrv2info(state: &State, subject: &str) -> Option<Table> {
    let (name, rows) = match subject {
        "originator" => ("originator", originators(state)),
        "old_originator" => ("old_originator", Vec::new()),
        "local" => ("local", local(state)),
        "node" => ("node", nodes(state)),
        "edge" => ("edge", edges(state)),
        "attached_network" => ("attached_network", attached(state)),
        "lan" => ("lan", lans(state)),
        "route" => ("route", routes(state)),
        _ => return None,
    };
    Some(Table { name, rows })
}

/// The table `subject` of `nhdpinfo`.
pub fn nhdpinfo(state: &State, subject: &str) -> Option<Table> {
    let (name, rows) = match subject {
        "interface" => ("interface", interfaces(state)),
        "link" => (
            "link",
            state
                .links
                .iter()
                .map(|link| link_row(state, link))
                .collect(),
        ),
        "link_twohop" => ("link_twohop", two_hops(state)),
        "neighbor" => ("neighbor", neighbours(state)),
        _ => return None,
    };
    Some(Table { name, rows })
}

/// The table `subject` of `layer2info`.
pub fn layer2info(state: &State, subject: &str) -> Option<Table> {
    (subject == "neighbor").then(|| Table {
        name: "neighbor",
        rows: state
            .stations
            .iter()
            .map(|view| station_row(state, view))
            .collect(),
    })
}

/// A station of the link layer; what its driver does not tell is a dash.
fn station_row(state: &State, view: &StationView) -> Row {
    let StationView { station, .. } = view;
    let rate = |bits: Option<NonZeroU64>| number_or_dash(bits.map(NonZeroU64::get));
    let count = |count: Option<u32>| number_or_dash(count.map(u64::from));
    vec![
        ("if", json!(state.name(view.interface))),
        ("neighbor_mac", json!(mac(Some(station.mac)))),
        ("reachable", text_bool(view.reachable)),
        (
            "mesh_peer",
            station.established.map_or(json!("-"), text_bool),
        ),
        ("inactive_ms", count(station.inactive_ms)),
        (
            "signal_dbm",
            station
                .signal_dbm
                .map_or(json!("-"), |signal| json!(signal)),
        ),
        ("tx_bitrate", rate(station.tx_bit_rate)),
        ("expected_throughput", rate(station.expected_throughput)),
        ("tx_packets", count(station.tx_packets)),
        ("tx_retries", count(station.tx_retries)),
        ("tx_failed", count(station.tx_failed)),
        ("airtime_metric", count(station.airtime_metric)),
        (
            "metric_in",
            number_or_dash(view.metric.map(|metric| metric.get().into())),
        ),
    ]
}

fn originators(state: &State) -> Vec<Row> {
    state
        .originators
        .iter()
        .map(|(address, _)| vec![("originator", json!(address))])
        .collect()
}

fn local(state: &State) -> Vec<Row> {
    let ansn = state.originators.first().map_or(0, |(_, ansn)| *ansn);
    vec![vec![
        ("local_ansn", json!(ansn.to_string())),
        ("local_itime", seconds(state.config.tc.interval)),
        ("local_vtime", seconds(state.config.tc.validity)),
        ("local_orig4", or_dash(state.originator(Family::V4))),
        ("local_orig6", or_dash(state.originator(Family::V6))),
    ]]
}

fn nodes(state: &State) -> Vec<Row> {
    let mut rows: Vec<(IpAddr, u16, Duration, bool)> = state
        .nodes
        .iter()
        .map(|node| (node.originator, node.ansn, state.left(node.expires), false))
        .collect();
    for edge in state.edges.iter().filter(|edge| edge.to_originator) {
        if rows.iter().all(|(originator, ..)| *originator != edge.to) {
            rows.push((edge.to, 0, state.left(edge.expires), true));
        }
    }
    rows.sort_by_key(|(originator, ..)| *originator);
    rows.into_iter()
        .map(|(originator, ansn, validity, is_virtual)| {
            let symmetric = |known: &&olsrv2::NeighbourView| {
                known.originator == Some(originator) && known.symmetric
            };
            vec![
                ("node", json!(originator)),
                ("node_ansn", json!(ansn)),
                ("node_vtime", seconds(validity)),
                ("node_virtual", text_bool(is_virtual)),
                (
                    "node_neighbor",
                    text_bool(state.neighbours.iter().any(|known| symmetric(&known))),
                ),
            ]
        })
        .collect()
}

fn edges(state: &State) -> Vec<Row> {
    let rows = state.edges.iter().filter(|edge| edge.to_originator);
    rows.map(|edge| {
        let mut row = vec![
            ("node", json!(edge.from)),
            ("edge", json!(edge.to)),
            ("edge_ansn", json!(edge.ansn)),
        ];
        row.extend(domain("0".into()));
        row.extend(metric_out(Some(edge.metric)));
        row
    })
    .collect()
}

fn attached(state: &State) -> Vec<Row> {
    state
        .attached
        .iter()
        .map(|network| {
            let mut row = vec![
                ("node", json!(network.originator)),
                ("attached_net", json!(network.prefix.to_string())),
                ("attached_net_src", json!(any_source(network.prefix))),
                ("attached_net_ansn", json!(network.ansn)),
            ];
            row.extend(domain("0".into()));
            row.extend(metric_out(Some(network.metric)));
            row.push(("domain_distance", json!(network.distance)));
            row
        })
        .collect()
}

fn lans(state: &State) -> Vec<Row> {
    state
        .config
        .attached
        .iter()
        .map(|network| {
            let mut row = vec![
                ("lan", json!(network.prefix.to_string())),
                ("lan_src", json!(any_source(network.prefix))),
            ];
            row.extend(domain("0".into()));
            row.extend(metric_out(Some(network.metric)));
            row.push(("domain_distance", json!(network.distance)));
            row
        })
        .collect()
}

fn routes(state: &State) -> Vec<Row> {
    state
        .routes
        .iter()
        .map(|route| route_row(state, route))
        .collect()
}

fn route_row(state: &State, route: &RouteView) -> Row {
    let settings = state.config.route;
    let mut row = vec![
        ("route_dst", json!(address_or_prefix(route.destination))),
        ("route_gw", json!(route.next_hop)),
        ("route_src_ip", json!(route.source)),
        ("route_src_prefix", json!(any_source(route.destination))),
        ("route_metric", json!(settings.metric)),
        ("route_table", json!(settings.table)),
        ("route_proto", json!(settings.protocol)),
        ("route_if", json!(state.name(route.interface))),
        ("route_ifindex", json!(route.interface.0)),
        ("route_lasthop", json!(route.last_originator)),
    ];
    row.extend(domain("0".into()));
    row.push(("domain_metric_out", json!(path_text(route))));
    row.push(("domain_metric_out_raw", json!(route.metric)));
    row.push(("domain_path_hops", json!(route.hops)));
    row
}

fn interfaces(state: &State) -> Vec<Row> {
    state
        .interfaces
        .iter()
        .map(|interface| {
            let floods = |family| {
                state.links.iter().any(|link| {
                    link.interface.0 == interface.index
                        && link.is_flooding_selector
                        && Family::of(link.address) == family
                })
            };
            vec![
                ("if", json!(interface.name)),
                ("if_bindto_v4", or_dash(interface.source_v4)),
                ("if_bindto_v6", or_dash(interface.source_v6)),
                ("if_mac", json!(mac(interface.mac))),
                ("if_flooding_v4", text_bool(floods(Family::V4))),
                ("if_flooding_v6", text_bool(floods(Family::V6))),
                // Each family floods for itself.
                ("if_dualstack_mode", json!("-")),
            ]
        })
        .collect()
}

fn link_row(state: &State, link: &LinkView) -> Row {
    let other_originator = link
        .originator
        .and_then(|originator| state.dualstack(originator));
    let mut row = vec![
        ("if", json!(state.name(link.interface))),
        ("link_bindto", json!(link.address)),
        (
            "link_vtime_value",
            json!(link.hello_validity.as_secs_f64().to_string()),
        ),
        (
            "link_itime_value",
            json!(link.hello_interval.as_secs_f64().to_string()),
        ),
        ("link_symtime", seconds(state.left(link.symmetric_until))),
        ("link_heardtime", seconds(state.left(link.heard_until))),
        ("link_vtime", seconds(state.left(link.expires))),
        ("link_status", json!(link.status.to_string())),
        (
            "link_dualstack",
            or_dash(state.other_family(link).map(|other| other.address)),
        ),
        ("link_mac", json!(mac(link.mac))),
        ("link_flood_local", text_bool(link.is_flooding_selector)),
        ("link_flood_remote", text_bool(link.is_flooding_mpr)),
        ("link_flood_willingness", json!(link.flooding_willingness)),
        ("neighbor_originator", or_dash(link.originator)),
        ("neighbor_dualstack", or_dash(other_originator)),
    ];
    row.extend(domain(json!(0)));
    row.extend(metric_in(link.metric_in));
    row.extend(metric_out(link.metric_out));
    row.push(("domain_metric_internal", json!("")));
    row
}

fn two_hops(state: &State) -> Vec<Row> {
    state
        .two_hops
        .iter()
        .map(|two_hop| {
            let mut row = vec![
                ("if", json!(state.name(two_hop.interface))),
                ("link_bindto", json!(two_hop.link_address)),
                ("neighbor_originator", or_dash(two_hop.neighbour_originator)),
                ("twohop_address", json!(two_hop.address)),
                ("twohop_same_interface", text_bool(false)),
                ("twohop_vtime", seconds(state.left(two_hop.expires))),
                ("domain_metric", json!(METRIC_NAME)),
            ];
            row.extend(metric_in(two_hop.metric_in));
            row.extend(metric_out(two_hop.metric_out));
            row
        })
        .collect()
}

fn neighbours(state: &State) -> Vec<Row> {
    state
        .neighbours
        .iter()
        .map(|neighbour| {
            let mut row = vec![
                ("neighbor_originator", or_dash(neighbour.originator)),
                ("neighbor_dualstack", or_dash(neighbour.other_originator)),
                ("neighbor_symmetric", text_bool(neighbour.symmetric)),
                ("neighbor_linkcount", json!(neighbour.links)),
            ];
            row.extend(domain(json!(0)));
            row.extend(metric_in(neighbour.metric_in));
            row.extend(metric_out(neighbour.metric_out));
            row.push(("domain_mpr", json!(MPR_NAME)));
            row.push(("domain_mpr_local", text_bool(neighbour.is_routing_selector)));
            row.push(("domain_mpr_remote", text_bool(neighbour.is_routing_mpr)));
            row.push((
                "domain_mpr_willingness",
                json!(neighbour.routing_willingness),
            ));
            row
        })
        .collect()
}

fn domain(number: Value) -> Row {
    vec![("domain", number), ("domain_metric", json!(METRIC_NAME))]
}

fn metric_in(metric: Option<Metric>) -> Row {
    let raw = raw_metric(metric);
    vec![
        ("domain_metric_in", json!(raw.to_string())),
        ("domain_metric_in_raw", json!(raw)),
    ]
}

fn metric_out(metric: Option<Metric>) -> Row {
    let raw = raw_metric(metric);
    vec![
        ("domain_metric_out", json!(raw.to_string())),
        ("domain_metric_out_raw", json!(raw)),
    ]
}

/// An unknown metric (RFC 7181, section 8.1: UNKNOWN_METRIC) is shown as olsrd2's infinite one.
pub fn raw_metric(metric: Option<Metric>) -> u32 {
    metric.map_or(0x00ff_ffff, Metric::get)
}

/// The cost of a path as a person reads it.
pub fn path_text(route: &RouteView) -> String {
    format!("{} ({} hops)", route.metric, route.hops)
}

/// An address alone where the prefix is a single one.
pub fn address_or_prefix(prefix: Prefix) -> String {
    if prefix.is_host() {
        prefix.addr.to_string()
    } else {
        prefix.to_string()
    }
}

/// The source prefix of a route that is not source-specific.
fn any_source(prefix: Prefix) -> &'static str {
    match Family::of(prefix.addr) {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    }
}

fn or_dash(address: Option<IpAddr>) -> Value {
    address.map_or(json!("-"), |address| json!(address))
}

fn number_or_dash(number: Option<u64>) -> Value {
    number.map_or(json!("-"), |number| json!(number))
}

fn text_bool(value: bool) -> Value {
    json!(value.to_string())
}

/// Seconds with three decimals, a whole number where there are none.
fn seconds(duration: Duration) -> Value {
    let millis = duration.as_millis() as u64;
    if millis % 1000 == 0 {
        json!(millis / 1000)
    } else {
        json!(millis as f64 / 1000.0)
    }
}

fn mac(octets: Option<[u8; 6]>) -> String {
    let Some(octets) = octets else {
        return "-".into();
    };
    let pairs: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    pairs.join(":")
}
