//! Tables in the format of olsrd2, with the keys, types and order that its orchestrators read.

use std::net::IpAddr;
use std::num::NonZeroU64;

use olsrv2::{
    Attached, AttachedView, EdgeView, Family, LinkView, NeighbourView, RouteView, TwoHopView,
};
use serde_json::{json, Value};

use super::answer::{Answer, Piece, Render};
use super::cells::{
    address_or_prefix, any_source, domain, mac, metric_in, metric_out, number_or_dash, or_dash,
    path_text, seconds, text_bool, Row, METRIC_NAME,
};
use super::state::{Node, State, StationView};
use crate::manet::Interface;

/// Name in olsrd2 of the MPR algorithm of RFC 7181, appendix B.
const MPR_NAME: &str = "mpr";

/// Writes the row with a number.
type RowOf = Box<dyn Fn(&State, usize) -> Option<Row>>;

/// Rows of named fields.
pub struct Table {
    name: &'static str,
    count: usize,
    row: RowOf,
}

impl Table {
    /// Makes a table with a row for each entry of a list.
    fn of<T: 'static>(
        name: &'static str,
        state: &State,
        list: fn(&State) -> &[T],
        row: fn(&State, &T) -> Row,
    ) -> Self {
        Self {
            name,
            count: list(state).len(),
            row: Box::new(move |state, index| Some(row(state, list(state).get(index)?))),
        }
    }

    /// Makes a table with a row for those entries of a list that have one.
    fn of_some<T: 'static>(
        name: &'static str,
        state: &State,
        list: fn(&State) -> &[T],
        row: fn(&State, &T) -> Option<Row>,
    ) -> Self {
        Self {
            name,
            count: list(state).len(),
            row: Box::new(move |state, index| row(state, list(state).get(index)?)),
        }
    }

    /// Writes the table as JSON in the layout of olsrd2.
    pub fn into_json(self) -> Answer {
        let Self { name, count, row } = self;
        let render: Render = Box::new(move |state, index| Some(json_row(&row(state, index)?)));
        Answer::new([
            Piece::Text(format!("{{\"{name}\": [")),
            Piece::Rows(count, ",", render),
            Piece::Text("]}".into()),
        ])
    }

    /// Writes the table as text: a line for each row, with tabs between the values.
    pub fn into_text(self) -> Answer {
        let Self { count, row, .. } = self;
        let render: Render = Box::new(move |state, index| Some(text_row(&row(state, index)?)));
        Answer::new([Piece::Rows(count, "", render)])
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

/// Returns the table `subject` of `olsrv2info`.
pub fn olsrv2info(state: &State, subject: &str) -> Option<Table> {
    Some(match subject {
        "originator" => Table::of("originator", state, |state| &state.originators, originator),
        "old_originator" => Table::of::<()>("old_originator", state, |_| &[], |_, ()| Vec::new()),
        "local" => Table::of("local", state, |_| &[()], |state, ()| local(state)),
        "node" => Table::of("node", state, |state| &state.index().nodes, node),
        "edge" => Table::of_some("edge", state, |state| &state.edges, edge),
        "attached_network" => {
            Table::of("attached_network", state, |state| &state.attached, attached)
        }
        "lan" => Table::of("lan", state, |state| &state.local_attached, lan),
        "route" => Table::of("route", state, |state| &state.routes, route_row),
        _ => return None,
    })
}

/// Returns the table `subject` of `nhdpinfo`.
pub fn nhdpinfo(state: &State, subject: &str) -> Option<Table> {
    Some(match subject {
        "interface" => Table::of("interface", state, |state| &state.interfaces, interface),
        "link" => Table::of("link", state, |state| &state.links, link_row),
        "link_twohop" => Table::of("link_twohop", state, |state| &state.two_hops, two_hop),
        "neighbor" => Table::of("neighbor", state, |state| &state.neighbours, neighbour),
        _ => return None,
    })
}

/// Returns the table `subject` of `layer2info`.
pub fn layer2info(state: &State, subject: &str) -> Option<Table> {
    let table = || Table::of("neighbor", state, |state| &state.stations, station_row);
    (subject == "neighbor").then(table)
}

/// Returns the row of a station of the link layer. A value that its driver does not report is a dash.
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

fn originator(_: &State, (address, _): &(IpAddr, u16)) -> Row {
    vec![("originator", json!(address))]
}

fn local(state: &State) -> Row {
    let ansn = state.originators.first().map_or(0, |(_, ansn)| *ansn);
    vec![
        ("local_ansn", json!(ansn.to_string())),
        ("local_itime", seconds(state.config.tc.interval)),
        ("local_vtime", seconds(state.config.tc.validity)),
        ("local_orig4", or_dash(state.originator(Family::V4))),
        ("local_orig6", or_dash(state.originator(Family::V6))),
    ]
}

fn node(state: &State, node: &Node) -> Row {
    let is_neighbour = state.index().neighbours.contains(&node.originator);
    vec![
        ("node", json!(node.originator)),
        ("node_ansn", json!(node.ansn)),
        ("node_vtime", seconds(state.left(node.expires))),
        ("node_virtual", text_bool(node.is_virtual)),
        ("node_neighbor", text_bool(is_neighbour)),
    ]
}

fn edge(_: &State, edge: &EdgeView) -> Option<Row> {
    let mut row = vec![
        ("node", json!(edge.from)),
        ("edge", json!(edge.to)),
        ("edge_ansn", json!(edge.ansn)),
    ];
    row.extend(domain("0".into()));
    row.extend(metric_out(Some(edge.metric)));
    edge.to_originator.then_some(row)
}

fn attached(_: &State, network: &AttachedView) -> Row {
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
}

fn lan(_: &State, network: &Attached) -> Row {
    let mut row = vec![
        ("lan", json!(network.prefix.to_string())),
        ("lan_src", json!(any_source(network.prefix))),
    ];
    row.extend(domain("0".into()));
    row.extend(metric_out(Some(network.metric)));
    row.push(("domain_distance", json!(network.distance)));
    row
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

fn interface(state: &State, interface: &Interface) -> Row {
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
        // Each address family floods separately.
        ("if_dualstack_mode", json!("-")),
    ]
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

fn two_hop(state: &State, two_hop: &TwoHopView) -> Row {
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
}

fn neighbour(_: &State, neighbour: &NeighbourView) -> Row {
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
}
