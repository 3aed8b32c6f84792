//! NetJSON documents in olsrd2's form (`netjsoninfo`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use olsrv2::{EdgeView, Family, NeighbourView, Prefix, RouteView};
use serde_json::{json, Map, Value};

use super::olsrd2::{address_or_prefix, path_text, raw_metric, METRIC_NAME};
use super::state::State;

/// The documents of the subjects that are asked for, or the subject that is unknown.
pub fn netjsoninfo<'a>(state: &State, subjects: &[&'a str]) -> Result<Value, &'a str> {
    let mut collection = Vec::new();
    for subject in subjects {
        let document = match *subject {
            "graph" => graph,
            "route" => route_document,
            unknown => return Err(unknown),
        };
        let families = Family::ALL
            .into_iter()
            .filter_map(|family| state.originator(family).map(|own| (family, own)));
        collection.extend(families.map(|(family, own)| document(state, family, own)));
    }
    Ok(json!({"type": "NetworkCollection", "collection": collection}))
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

fn route_document(state: &State, family: Family, own: IpAddr) -> Value {
    let mut document = head("NetworkRoutes", family, own);
    let routes = state
        .routes
        .iter()
        .filter(|route| Family::of(route.destination.addr) == family);
    document.insert("properties".into(), json!({"router_addr": own}));
    document.insert(
        "routes".into(),
        routes.map(|route| route_entry(state, route)).collect(),
    );
    document.into()
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

fn graph(state: &State, family: Family, own: IpAddr) -> Value {
    let mut document = head("NetworkGraph", family, own);
    document.insert("properties".into(), graph_properties(state, own));
    document.insert("nodes".into(), nodes(state, family, own));
    document.insert("links".into(), links(state, family, own));
    document.into()
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

fn nodes(state: &State, family: Family, own: IpAddr) -> Value {
    let mut remote: BTreeSet<IpAddr> = symmetric(state, family)
        .filter_map(|known| known.originator)
        .collect();
    remote.extend(edges(state, family).flat_map(|edge| [edge.from, edge.to]));
    remote.remove(&own);
    let local = node_entry(state, node_id(own), own.to_string(), own, "local");
    let routers = remote
        .into_iter()
        .map(|node| node_entry(state, node_id(node), node.to_string(), node, "node"));
    let lans = own_prefixes(state, family).map(|prefix| attached_entry(state, own, prefix, "lan"));
    let networks = state
        .attached
        .iter()
        .filter(|network| Family::of(network.prefix.addr) == family);
    let networks = networks
        .map(|network| attached_entry(state, network.originator, network.prefix, "attached"));
    std::iter::once(local)
        .chain(routers)
        .chain(lans)
        .chain(networks)
        .collect()
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

fn links(state: &State, family: Family, own: IpAddr) -> Value {
    let local = symmetric(state, family).filter_map(|neighbour| local_link(state, own, neighbour));
    let remote = edges(state, family).map(|edge| remote_link(state, own, edge));
    let lans = state
        .config
        .attached
        .iter()
        .filter(|network| Family::of(network.prefix.addr) == family);
    let lans = lans.map(|network| {
        network_link(
            own,
            network.prefix,
            network.metric.get(),
            network.distance,
            "lan",
        )
    });
    let networks = state
        .attached
        .iter()
        .filter(|network| Family::of(network.prefix.addr) == family);
    let networks = networks.map(|network| {
        network_link(
            network.originator,
            network.prefix,
            network.metric.get(),
            network.distance,
            "attached",
        )
    });
    local.chain(remote).chain(lans).chain(networks).collect()
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
    let reverse = state
        .edges
        .iter()
        .find(|other| (other.from, other.to) == (edge.to, edge.from));
    let back = reverse.map_or_else(
        || neighbour_metric(state, own, edge),
        |other| other.metric.get(),
    );
    let on_path = |route: &&RouteView| {
        route.destination == Prefix::host(edge.to)
            && route.last_originator == edge.from
            && route.hops > 1
    };
    let tree = state.routes.iter().any(|route| on_path(&route));
    edge_entry(edge.from, edge.to, edge.metric.get(), back, tree, "node")
}

/// The metric of the way back over an edge that ends here, or else that of the edge itself.
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

fn symmetric(state: &State, family: Family) -> impl Iterator<Item = &NeighbourView> {
    state
        .neighbours
        .iter()
        .filter(move |known| known.symmetric && known.family == family)
}

fn edges(state: &State, family: Family) -> impl Iterator<Item = &EdgeView> {
    state
        .edges
        .iter()
        .filter(move |edge| edge.to_originator && Family::of(edge.from) == family)
}

fn own_prefixes(state: &State, family: Family) -> impl Iterator<Item = Prefix> + '_ {
    let prefixes = state.config.attached.iter().map(|network| network.prefix);
    prefixes.filter(move |prefix| Family::of(prefix.addr) == family)
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
