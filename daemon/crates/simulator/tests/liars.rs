//! A stranger in reach of one router sends arbitrary OLSRv2 messages. No route between honest routers changes
//! (docs/development/adr/0050).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Accept, AcceptedNetwork, Config, Family, Metric, Prefix};
use rfc5444::iana::{
    address_tlv, link_metric, link_status, local_if, message, message_tlv, nbr_addr_type,
    other_neighb,
};
use rfc5444::{AddressEntry, Message, Packet, Tlv};
use simulator::{truth, Field, Mesh, NodeId, Port, RADIO};

const SEEDS: std::ops::Range<u64> = 0..12;
/// Number of half seconds in which forged TCs are sent.
const ROUNDS: u16 = 80;
const STEP: Duration = Duration::from_millis(200);
/// The time code of 45 days.
const LONGEST: u8 = 0xff;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The liar's originator, and the link-local address from which it sends.
const LIAR: &str = "fd66::6";
const SOURCE: &str = "fe80::6666";

/// A TLV with the smallest value for all metrics of an address.
fn metric() -> Tlv {
    let code = rfc5444::metric::compress(Metric::MIN);
    let all = link_metric::INCOMING_LINK
        | link_metric::OUTGOING_LINK
        | link_metric::INCOMING_NEIGHBOR
        | link_metric::OUTGOING_NEIGHBOR;
    Tlv::new(address_tlv::LINK_METRIC, 0, (all | code).to_be_bytes())
}

fn entry(address: IpAddr, tlvs: Vec<Tlv>) -> AddressEntry {
    AddressEntry {
        prefix: Prefix::host(address),
        tlvs,
    }
}

fn header(message: &mut Message, extra: Tlv) {
    message.tlvs = vec![Tlv::new(message_tlv::VALIDITY_TIME, 0, [LONGEST]), extra];
}

/// A HELLO of the liar with a link to the router with this link-local address, and with all these neighbours.
fn hello(victim: IpAddr, claimed: &[IpAddr], own: &[IpAddr]) -> Message {
    let mut hello = Message::new(message::HELLO, address(LIAR));
    header(&mut hello, Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]));
    let local = |value| vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])];
    let heard = Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::SYMMETRIC]);
    hello.addresses = vec![
        entry(address(SOURCE), local(local_if::THIS_IF)),
        entry(address(LIAR), local(local_if::OTHER_IF)),
        entry(victim, vec![heard, metric()]),
    ];
    hello
        .addresses
        .extend(own.iter().map(|own| entry(*own, local(local_if::OTHER_IF))));
    let symmetric = Tlv::new(address_tlv::OTHER_NEIGHB, 0, [other_neighb::SYMMETRIC]);
    let claimed = claimed
        .iter()
        .map(|one| entry(*one, vec![symmetric.clone(), metric()]));
    hello.addresses.extend(claimed);
    hello
}

/// A TC of `originator` that claims these neighbours and networks.
fn tc(originator: IpAddr, number: u16, neighbours: &[IpAddr], attached: &[Prefix]) -> Message {
    let mut tc = Message::new(message::TC, originator);
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(number));
    header(
        &mut tc,
        Tlv::new(message_tlv::CONT_SEQ_NUM, 0, number.to_be_bytes()),
    );
    let kind = Tlv::new(
        address_tlv::NBR_ADDR_TYPE,
        0,
        [nbr_addr_type::ROUTABLE_ORIG],
    );
    let neighbours = neighbours
        .iter()
        .map(|to| entry(*to, vec![metric(), kind.clone()]));
    let gateway = Tlv::new(address_tlv::GATEWAY, 0, [0]);
    let attached = attached.iter().map(|prefix| AddressEntry {
        prefix: *prefix,
        tlvs: vec![metric(), gateway.clone()],
    });
    tc.addresses = neighbours.chain(attached).collect();
    tc
}

fn send(mesh: &mut Mesh, victim: NodeId, message: Message) {
    let packet = Packet {
        messages: vec![message],
        ..Packet::default()
    };
    let port = Port {
        node: victim,
        interface: RADIO,
    };
    mesh.inject(port, address(SOURCE), &packet.encode().unwrap());
}

fn link_local(mesh: &Mesh, node: NodeId) -> IpAddr {
    let interfaces = mesh.router(node).unwrap().interfaces();
    interfaces[0].addresses[0]
}

fn everybody(mesh: &Mesh) -> Vec<IpAddr> {
    (0..mesh.node_count())
        .map(|node| mesh.originator(node, Family::V6))
        .collect()
}

/// Returns the next hop from each node to each other node.
fn ways(mesh: &Mesh) -> BTreeMap<(NodeId, IpAddr), IpAddr> {
    let all = everybody(mesh);
    let of = |node| {
        mesh.router(node)
            .unwrap()
            .routes()
            .into_iter()
            .map(move |route| (node, route))
    };
    let ways = (0..mesh.node_count()).flat_map(of);
    ways.filter(|(_, route)| all.contains(&route.destination.addr))
        .map(|(node, route)| ((node, route.destination.addr), route.next_originator))
        .collect()
}

/// Returns the routes whose next hop differs from `before`. Destinations that were unreachable before do not count: a
/// stranger may claim to reach them.
fn moved(mesh: &Mesh, before: &BTreeMap<(NodeId, IpAddr), IpAddr>) -> Vec<(NodeId, IpAddr)> {
    let now = ways(mesh);
    let moved = before
        .iter()
        .filter(|(way, next)| now.get(*way) != Some(*next));
    moved.map(|(way, _)| *way).collect()
}

fn knows_the_liar(mesh: &Mesh, node: NodeId) -> bool {
    let routes = mesh.router(node).unwrap().routes();
    routes
        .iter()
        .any(|route| route.destination == Prefix::host(address(LIAR)))
}

/// Returns a converged network, and the node that the liar reaches.
fn network(seed: u64, config: Config) -> (Mesh, NodeId) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let nodes = rng.usize(6..25);
    let field = Field::random(nodes, 6.0, &mut rng);
    let mut mesh = Mesh::new(seed, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    mesh.set_radio_pairs(&field.pairs());
    mesh.run_for(seconds(20));
    assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
    (mesh, rng.usize(..nodes))
}

/// Lets the liar claim, every 2 s, the address of each router as a neighbour, as its own address and as an attached
/// network.
fn lie(mesh: &mut Mesh, victim: NodeId, rounds: u16) {
    let others: Vec<IpAddr> = everybody(mesh)
        .into_iter()
        .filter(|one| *one != mesh.originator(victim, Family::V6))
        .collect();
    let hosts: Vec<Prefix> = others.iter().map(|one| Prefix::host(*one)).collect();
    let own = link_local(mesh, victim);
    for round in 0..rounds {
        send(mesh, victim, hello(own, &[], &others));
        send(mesh, victim, hello(own, &others, &[]));
        send(mesh, victim, tc(address(LIAR), 2 * round, &[], &hosts));
        send(mesh, victim, tc(address(LIAR), 2 * round + 1, &others, &[]));
        mesh.run_for(seconds(2));
    }
}

#[test]
fn a_liar_moves_no_route_and_is_forgotten() {
    for seed in SEEDS {
        let (mut mesh, victim) = network(seed, Config::default());
        let before = ways(&mesh);
        lie(&mut mesh, victim, 10);
        assert!(
            knows_the_liar(&mesh, victim),
            "seed {seed}: nothing was believed"
        );
        assert!(
            moved(&mesh, &before).is_empty(),
            "seed {seed}: {:?}",
            moved(&mesh, &before)
        );
        mesh.run_for(seconds(150));
        assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
    }
}

#[test]
fn the_same_liar_moves_routes_where_routers_tell_their_selectors_alone() {
    let config = Config {
        advertise_all: false,
        ..Config::default()
    };
    let hurt = SEEDS.filter(|seed| {
        let (mut mesh, victim) = network(*seed, config.clone());
        let before = ways(&mesh);
        lie(&mut mesh, victim, 10);
        !moved(&mesh, &before).is_empty()
    });
    assert!(hurt.count() > 0, "the detector sees nothing");
}

#[test]
fn a_liar_next_to_both_ends_of_a_link_does_not_get_between_them() {
    // All nodes hear each other, and the liar is a real neighbour of all. The metrics that it claims do not count.
    for seed in SEEDS {
        let mut mesh = Mesh::new(seed, Config::default(), &[Family::V6]);
        mesh.add_nodes(4);
        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        pairs.iter().for_each(|(a, b)| mesh.connect(*a, *b));
        mesh.run_for(seconds(20));
        let before = ways(&mesh);
        let all = everybody(&mesh);
        for round in 0..10 {
            for node in 0..4 {
                let own = link_local(&mesh, node);
                send(&mut mesh, node, hello(own, &all, &[]));
                send(&mut mesh, node, tc(address(LIAR), round, &all, &[]));
            }
            mesh.run_for(seconds(2));
        }
        assert!((0..4).all(|node| knows_the_liar(&mesh, node)));
        assert_eq!(ways(&mesh), before, "seed {seed}");
    }
}

/// Sends two TCs per second under another router's originator to `victim`, with increasing numbers and no content.
fn poison(mesh: &mut Mesh, victim: NodeId, originator: IpAddr, hop_limit: u8) -> Vec<bool> {
    let before = ways(mesh);
    let ansn = mesh.router(victim).unwrap().nodes();
    let known = ansn.iter().find(|node| node.originator == originator);
    let first = known.map_or(0, |node| node.ansn).wrapping_add(100);
    let kept = |round: u16, mesh: &mut Mesh| {
        let mut forged = tc(originator, first.wrapping_add(round), &[], &[]);
        forged.hop_limit = Some(hop_limit);
        forged.tlvs.push(Tlv::new(228, 0, []));
        send(mesh, victim, forged);
        mesh.run_for(Duration::from_millis(500));
        moved(mesh, &before).is_empty()
    };
    (0..ROUNDS).map(|round| kept(round, mesh)).collect()
}

#[test]
fn poisoned_numbers_of_a_neighbour_change_nothing() {
    for seed in SEEDS {
        let (mut mesh, victim) = network(seed, Config::default());
        let own = link_local(&mesh, victim);
        send(&mut mesh, victim, hello(own, &[], &[]));
        mesh.run_for(seconds(2));
        let neighbour = *mesh.symmetric_neighbours(victim).first().unwrap();
        let originator = mesh.originator(neighbour, Family::V6);
        let kept = poison(&mut mesh, victim, originator, 255);
        assert!(kept.iter().all(|kept| *kept), "seed {seed}: {kept:?}");
    }
}

#[test]
fn poisoned_numbers_of_a_far_router_keep_no_route_away_for_longer_than_two_of_its_tcs() {
    let mut hurt = 0;
    for seed in SEEDS {
        let (mut mesh, victim) = network(seed, Config::default());
        let distances = truth::Distances::of(&mesh);
        let Some(far) =
            (0..mesh.node_count()).find(|node| distances.between(victim, *node) >= Some(2))
        else {
            continue;
        };
        let own = link_local(&mesh, victim);
        send(&mut mesh, victim, hello(own, &[], &[]));
        mesh.run_for(seconds(2));
        let originator = mesh.originator(far, Family::V6);
        let kept = poison(&mut mesh, victim, originator, 1);
        assert!(
            kept.iter().all(|kept| *kept),
            "seed {seed}: a TC that ends here"
        );
        let kept = poison(&mut mesh, victim, originator, 255);
        let last = kept
            .iter()
            .rposition(|kept| !kept)
            .map_or(0, |last| last + 1);
        println!("seed {seed}: routes away for {last} half seconds");
        hurt += usize::from(last > 0);
        assert!(last <= 25, "seed {seed}: {last} half seconds");
    }
    assert!(hurt > 0, "the detector sees nothing");
}

#[test]
fn networks_are_taken_from_those_who_are_named() {
    let gateway = address(LIAR);
    let prefixes: Vec<Prefix> = ["::/0", "2001:db8::/64"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    let named = AcceptedNetwork {
        prefix: prefixes[0],
        from: vec![gateway],
    };
    let taken = |accept: Accept| {
        let config = Config {
            accept,
            ..Config::default()
        };
        let (mut mesh, victim) = network(1, config);
        let own = link_local(&mesh, victim);
        send(&mut mesh, victim, hello(own, &[], &[]));
        send(&mut mesh, victim, tc(gateway, 1, &[], &prefixes));
        mesh.run_for(STEP);
        let routes = mesh.router(victim).unwrap().routes();
        let found: Vec<Prefix> = routes.iter().map(|route| route.destination).collect();
        let taken: Vec<bool> = prefixes
            .iter()
            .map(|prefix| found.contains(prefix))
            .collect();
        taken
    };
    assert_eq!(taken(Accept::default()), [false, false]);
    let accept = Accept {
        networks: vec![named.clone()],
        ..Accept::default()
    };
    assert_eq!(taken(accept), [true, false]);
    let other = AcceptedNetwork {
        from: vec![address("fd66::7")],
        ..named
    };
    let accept = Accept {
        networks: vec![other],
        ..Accept::default()
    };
    assert_eq!(taken(accept), [false, false]);
}
