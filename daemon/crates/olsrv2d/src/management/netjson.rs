//! NetJSON documents in the format of olsrd2 (`netjsoninfo`).

use std::net::IpAddr;

use olsrv2::{Attached, AttachedView, EdgeView, Family, NeighbourView, Prefix, RouteView};
use serde_json::{json, Map, Value};

use super::answer::{Answer, Piece};
use super::cells::{address_or_prefix, path_text, raw_metric, METRIC_NAME};
use super::state::State;

/// Largest number of subjects in one command. There are two kinds.
const SUBJECTS_MAX: usize = 4;

/// Returns the documents of the requested subjects, or the reason why there are none.
pub fn netjsoninfo(state: &State, subjects: &[&str]) -> Result<Answer, String> {
    if subjects.len() > SUBJECTS_MAX {
        return Err(format!("more than {SUBJECTS_MAX} subjects of netjsoninfo"));
    }
    let mut pieces = Vec::new();
    for subject in subjects {
        let document = match *subject {
            "graph" => graph,
            "route" => route_document,
            unknown => {
                let known = "graph, route";
                return Err(format!(
                    "unknown subject '{unknown}' of netjsoninfo: {known}"
                ));
            }
        };
        for family in Family::ALL {
            if let Some(own) = state.originator(family) {
                let separator = if pieces.is_empty() { "" } else { "," };
                pieces.push(Piece::Text(separator.into()));
                pieces.extend(document(state, family, own));
            }
        }
    }
    let begin = r#"{"type":"NetworkCollection","collection":["#;
    pieces.insert(0, Piece::Text(begin.into()));
    pieces.push(Piece::Text("]}".into()));
    Ok(Answer::new(pieces))
}

/// Returns the beginning of a document, up to the first element of its list `key`.
fn open(document: Map<String, Value>, key: &str) -> Piece {
    let mut text = Value::from(document).to_string();
    text.pop();
    Piece::Text(format!("{text},\"{key}\":["))
}

/// Returns an element for each element of a list for which `entry` returns one.
fn each<T: 'static>(
    state: &State,
    list: impl Fn(&State) -> &[T] + 'static,
    entry: impl Fn(&State, &T) -> Option<Value> + 'static,
) -> Piece {
    let count = list(state).len();
    let render = move |state: &State, index| {
        let element = list(state).get(index)?;
        Some(entry(state, element)?.to_string())
    };
    Piece::Rows(count, ",", Box::new(render))
}

fn head(kind: &str, family: Family, own: IpAddr) -> Map<String, Value> {
    let mut document = Map::new();
    for (key, value) in [
        ("type", kind.to_owned()),
        ("protocol", "olsrv2".to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "revision",
            concat!("olsrv2d-", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("router_id", node_id(own)),
        ("metric", METRIC_NAME.to_owned()),
        ("topology_id", topology_id(family).to_owned()),
    ] {
        document.insert(key.to_owned(), value.into());
    }
    document
}

fn route_document(state: &State, family: Family, own: IpAddr) -> Vec<Piece> {
    let mut document = head("NetworkRoutes", family, own);
    document.insert("properties".into(), json!({"router_addr": own}));
    let routes = each(
        state,
        |state| &state.routes,
        move |state, route: &RouteView| {
            (Family::of(route.destination.addr) == family).then(|| route_entry(state, route))
        },
    );
    vec![open(document, "routes"), routes, Piece::Text("]}".into())]
}

fn route_entry(state: &State, route: &RouteView) -> Value {
    json!({
        "destination": address_or_prefix(route.destination),
        "next": route.next_hop,
        "device": state.name(route.interface),
        "cost": route.metric,
        "cost_text": path_text(route),
        "properties": {
            "destination_id": node_id(route.originator),
            "next_router_id": node_id(route.next_originator),
            "next_router_addr": route.next_originator,
            "hops": route.hops,
            "last_router_id": node_id(route.last_originator),
            "last_router_addr": route.last_originator,
        },
    })
}

fn graph(state: &State, family: Family, own: IpAddr) -> Vec<Piece> {
    let mut document = head("NetworkGraph", family, own);
    document.insert("properties".into(), graph_properties(state, own));
    let mut pieces = vec![open(document, "nodes")];
    pieces.extend(nodes(state, family, own));
    pieces.push(Piece::Text(r#"],"links":["#.into()));
    pieces.extend(links(state, family, own));
    pieces.push(Piece::Text("]}".into()));
    pieces
}

fn graph_properties(state: &State, own: IpAddr) -> Value {
    let mut properties = Map::new();
    properties.insert("router_addr".into(), json!(own));
    if let Some(other) = state.dualstack(own) {
        let topology = topology_id(Family::of(other));
        properties.insert("dualstack_id".into(), json!(node_id(other)));
        properties.insert("dualstack_topology".into(), json!(topology));
        properties.insert("dualstack_addr".into(), json!(other));
    }
    properties.into()
}

fn nodes(state: &State, family: Family, own: IpAddr) -> [Piece; 4] {
    let router = |kind: &'static str| {
        move |state: &State, node: &IpAddr| {
            let label = node.to_string();
            Some(node_entry(state, node_id(*node), label, *node, kind))
        }
    };
    let is_ours = move |prefix: Prefix| Family::of(prefix.addr) == family;
    [
        Piece::Rows(
            1,
            ",",
            Box::new(move |state, _| Some(router("local")(state, &own)?.to_string())),
        ),
        each(
            state,
            move |state| &state.index().remote[&family],
            router("node"),
        ),
        each(
            state,
            |state| &state.local_attached,
            move |state, lan: &Attached| {
                is_ours(lan.prefix).then(|| attached_entry(state, own, lan.prefix, "lan"))
            },
        ),
        each(
            state,
            |state| &state.attached,
            move |state, network: &AttachedView| {
                let (owner, prefix) = (network.originator, network.prefix);
                is_ours(prefix).then(|| attached_entry(state, owner, prefix, "attached"))
            },
        ),
    ]
}

fn attached_entry(state: &State, owner: IpAddr, prefix: Prefix, kind: &str) -> Value {
    node_entry(
        state,
        prefix_id(owner, prefix),
        prefix.to_string(),
        owner,
        kind,
    )
}

fn node_entry(state: &State, id: String, label: String, router: IpAddr, kind: &str) -> Value {
    let mut properties = Map::new();
    properties.insert("router_id".into(), json!(node_id(router)));
    properties.insert("router_addr".into(), json!(router));
    if let Some(other) = state.dualstack(router) {
        properties.insert("dualstack_id".into(), json!(node_id(other)));
        properties.insert("dualstack_addr".into(), json!(other));
    }
    properties.insert("type".into(), json!(kind));
    json!({"id": id, "label": label, "properties": properties})
}

fn links(state: &State, family: Family, own: IpAddr) -> [Piece; 4] {
    let is_ours = move |prefix: Prefix| Family::of(prefix.addr) == family;
    [
        each(
            state,
            |state| &state.neighbours,
            move |state, known: &NeighbourView| {
                let shown = known.symmetric && known.family == family;
                shown.then(|| local_link(state, own, known))?
            },
        ),
        each(
            state,
            |state| &state.edges,
            move |state, edge: &EdgeView| {
                let shown = edge.to_originator && Family::of(edge.from) == family;
                shown.then(|| remote_link(state, own, edge))
            },
        ),
        each(
            state,
            |state| &state.local_attached,
            move |_, lan: &Attached| {
                let (metric, distance) = (lan.metric.get(), lan.distance);
                is_ours(lan.prefix).then(|| network_link(own, lan.prefix, metric, distance, "lan"))
            },
        ),
        each(
            state,
            |state| &state.attached,
            move |_, network: &AttachedView| {
                let (owner, prefix) = (network.originator, network.prefix);
                let (metric, distance) = (network.metric.get(), network.distance);
                is_ours(prefix).then(|| network_link(owner, prefix, metric, distance, "attached"))
            },
        ),
    ]
}

fn local_link(state: &State, own: IpAddr, neighbour: &NeighbourView) -> Option<Value> {
    let target = neighbour.originator?;
    let tree = state
        .routes
        .iter()
        .any(|route| route.next_originator == target && route.originator == target);
    let own_links: Vec<Value> = state
        .links
        .iter()
        .filter(|link| neighbour.addresses.contains(&link.address))
        .map(|link| {
            let interface = state
                .interfaces
                .iter()
                .find(|interface| interface.index == link.interface.0);
            let source = interface.and_then(|interface| match Family::of(link.address) {
                Family::V4 => interface.source_v4,
                Family::V6 => interface.source_v6,
            });
            json!({
                "interface": state.name(link.interface),
                "source_addr": source.unwrap_or(own),
                "target_addr": link.address,
                "cost": raw_metric(link.metric_out),
                "cost_text": raw_metric(link.metric_out).to_string(),
                "in_cost": raw_metric(link.metric_in),
                "in_text": raw_metric(link.metric_in).to_string(),
                "outgoing_tree": tree,
            })
        })
        .collect();
    let (out_cost, in_cost) = (
        raw_metric(neighbour.metric_out),
        raw_metric(neighbour.metric_in),
    );
    let mut link = edge_entry(own, target, out_cost, in_cost, tree, "local");
    link["properties"]["links"] = own_links.into();
    Some(link)
}

fn remote_link(state: &State, own: IpAddr, edge: &EdgeView) -> Value {
    let index = state.index();
    let back = index.metrics.get(&(edge.to, edge.from)).copied();
    let back = back.unwrap_or_else(|| neighbour_metric(state, own, edge));
    let tree = index.last_hops.contains(&(edge.from, edge.to));
    edge_entry(edge.from, edge.to, edge.metric.get(), back, tree, "node")
}

/// Returns the metric of the reverse direction of an edge that ends at this router; otherwise the metric of the edge
/// itself.
fn neighbour_metric(state: &State, own: IpAddr, edge: &EdgeView) -> u32 {
    let neighbour = state
        .neighbours
        .iter()
        .find(|known| edge.to == own && known.originator == Some(edge.from));
    neighbour
        .and_then(|known| known.metric_out)
        .map_or(edge.metric.get(), olsrv2::Metric::get)
}

fn edge_entry(from: IpAddr, to: IpAddr, cost: u32, back: u32, tree: bool, kind: &str) -> Value {
    json!({
        "source": node_id(from),
        "target": node_id(to),
        "cost": cost,
        "cost_text": cost.to_string(),
        "properties": {
            "in_cost": back,
            "in_text": back.to_string(),
            "outgoing_tree": tree,
            "source_addr": from,
            "target_addr": to,
            "type": kind,
        },
    })
}

fn network_link(owner: IpAddr, prefix: Prefix, cost: u32, distance: u8, kind: &str) -> Value {
    json!({
        "source": node_id(owner),
        "target": prefix_id(owner, prefix),
        "cost": cost,
        "cost_text": cost.to_string(),
        "properties": {
            "outgoing_tree": kind == "lan",
            "source_addr": owner,
            "target_addr": prefix.to_string(),
            "hopcount": distance,
            "type": kind,
        },
    })
}

fn node_id(originator: IpAddr) -> String {
    format!("id_{originator}")
}

fn prefix_id(owner: IpAddr, prefix: Prefix) -> String {
    format!("id_{owner}_{prefix}")
}

fn topology_id(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_0",
        Family::V6 => "ipv6_0",
    }
}
