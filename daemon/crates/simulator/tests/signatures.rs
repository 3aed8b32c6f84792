//! Routers that sign, among liars: nobody speaks for another, no link counts that one end alone claims, and nothing is
//! believed twice (docs/development/adr/0092).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, Family, Metric, Prefix, Signatures};
use rfc5444::iana::{address_tlv, link_metric, link_status, message, message_tlv, nbr_addr_type};
use rfc5444::{AddressEntry, Message, Packet, Tlv};
use simulator::{truth, Field, Mesh, NodeId, Port, Recorded, RADIO};

const SEEDS: std::ops::Range<u64> = 0..8;
const STEP: Duration = Duration::from_millis(10);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn config(signatures: Signatures) -> Config {
    Config {
        signatures,
        ..Config::default()
    }
}

/// A line of nodes, of which those for which `signs` is true have keys.
fn line(seed: u64, nodes: usize, signatures: Signatures, signs: impl Fn(usize) -> bool) -> Mesh {
    let mut mesh = Mesh::new(seed, config(signatures), &[Family::V6]);
    mesh.add_nodes(nodes);
    let signers = (0..nodes).filter(|node| signs(*node));
    signers.for_each(|node| mesh.give_key(node, node as u64));
    (1..nodes).for_each(|node| mesh.connect(node - 1, node));
    mesh
}

#[test]
fn where_signatures_are_required_a_line_of_10_still_converges_within_5_s() {
    for seed in SEEDS {
        let mut mesh = line(seed, 10, Signatures::Require, |_| true);
        let time = mesh.run_until_converged(seconds(5), STEP);
        println!("seed {seed}: {time:?}");
        assert!(time.is_some(), "seed {seed}: {:?}", truth::check(&mesh));
        // And stays so.
        for _ in 0..60 {
            mesh.run_for(seconds(1));
            assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
        }
    }
}

#[test]
fn where_signatures_are_required_who_does_not_sign_is_nobody() {
    let mut mesh = line(1, 3, Signatures::Require, |node| node != 1);
    mesh.run_for(seconds(30));
    assert!((0..3).all(|node| mesh.router(node).unwrap().routes().is_empty()));
    let refused = mesh
        .counters()
        .iter()
        .map(|counters| counters.not_signed)
        .sum::<u64>();
    assert!(refused > 0);
}

#[test]
fn where_signatures_are_preferred_who_does_not_sign_still_relays() {
    for seed in SEEDS {
        let mut mesh = line(seed, 6, Signatures::Prefer, |node| node != 1 && node != 4);
        let time = mesh.run_until_converged(seconds(5), STEP);
        assert!(time.is_some(), "seed {seed}: {:?}", truth::check(&mesh));
    }
}

#[test]
fn a_random_network_of_signers_has_the_right_routes() {
    for seed in SEEDS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = rng.usize(6..25);
        let field = Field::random(nodes, 6.0, &mut rng);
        let mut mesh = Mesh::new(seed, config(Signatures::Require), &[Family::V6]);
        mesh.add_nodes(nodes);
        (0..nodes).for_each(|node| mesh.give_key(node, node as u64));
        mesh.set_radio_pairs(&field.pairs());
        let time = mesh.run_until_converged(seconds(15), STEP);
        assert!(time.is_some(), "seed {seed}: {:?}", truth::check(&mesh));
    }
}

/// Returns a converged random network of routers that sign.
fn network(seed: u64, signatures: Signatures) -> Mesh {
    let mut rng = fastrand::Rng::with_seed(seed);
    let nodes = rng.usize(6..14);
    let field = Field::random(nodes, 6.0, &mut rng);
    let mut mesh = Mesh::new(seed, config(signatures), &[Family::V6]);
    mesh.add_nodes(nodes);
    (0..nodes).for_each(|node| mesh.give_key(node, node as u64));
    mesh.set_radio_pairs(&field.pairs());
    mesh.run_for(seconds(20));
    assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
    mesh
}

fn next_hops(mesh: &Mesh, node: NodeId) -> BTreeMap<Prefix, IpAddr> {
    let routes = mesh.router(node).unwrap().routes().into_iter();
    routes
        .map(|route| (route.destination, route.next_originator))
        .collect()
}

fn port(node: NodeId) -> Port {
    Port {
        node,
        interface: RADIO,
    }
}

/// Sends a packet to a node as if one of its neighbours had sent it, and returns whether a route of the node changed
/// until a moment later.
fn moves(mesh: &mut Mesh, victim: NodeId, source: IpAddr, packet: &[u8]) -> bool {
    let before = next_hops(mesh, victim);
    mesh.inject(port(victim), source, packet);
    mesh.run_for(Duration::from_millis(50));
    next_hops(mesh, victim) != before
}

/// Lets a message say, with a higher number, that all links of its originator are lost.
fn lose(message: &mut Message) {
    let lost = |tlv: &mut Tlv| tlv.value = vec![link_status::LOST];
    for entry in &mut message.addresses {
        let tlvs = entry.tlvs.iter_mut();
        tlvs.filter(|tlv| tlv.typ == address_tlv::LINK_STATUS)
            .for_each(lost);
    }
    if message.typ == message::TC {
        message.addresses.clear();
        message.seq = message.seq.map(|seq| seq.wrapping_add(100));
        let numbers = message
            .tlvs
            .iter_mut()
            .filter(|tlv| tlv.typ == message_tlv::CONT_SEQ_NUM);
        numbers.for_each(|tlv| tlv.value[0] = tlv.value[0].wrapping_add(1));
    }
}

/// Returns what a liar makes of a recorded packet.
fn forge(rng: &mut fastrand::Rng, recorded: &Recorded) -> Vec<u8> {
    let mut packet = Packet::decode(&recorded.bytes).unwrap();
    for message in &mut packet.messages {
        let claims = [248, 1, rng.u8(..)].map(|value| Tlv::new(228, 0, [value]));
        match rng.u8(..7) {
            0 => lose(message),
            1 => message
                .tlvs
                .retain(|tlv| tlv.typ != message_tlv::ICV && tlv.typ != message_tlv::TIMESTAMP),
            2 => message.addresses.clear(),
            3 => message.seq = message.seq.map(|seq| seq.wrapping_add(100)),
            4 => message.addresses.extend(
                message
                    .originator
                    .map(|_| AddressEntry::new(Prefix::host(IpAddr::from([rng.u8(..); 16])))),
            ),
            5 => message.tlvs.extend(claims),
            _ => {
                // Its counter is raised, so that it looks new.
                for tlv in message
                    .tlvs
                    .iter_mut()
                    .filter(|tlv| tlv.typ == message_tlv::TIMESTAMP)
                {
                    tlv.value[2] = 1;
                }
            }
        }
    }
    packet.encode().unwrap()
}

#[test]
fn of_1000_forged_or_replayed_packets_none_changes_a_route() {
    let mut changed = 0;
    for seed in SEEDS {
        let mut mesh = network(seed, Signatures::Require);
        let mut rng = fastrand::Rng::with_seed(seed);
        mesh.record();
        mesh.run_for(seconds(20));
        let recorded = mesh.recorded();
        mesh.run_for(seconds(40));
        for _ in 0..1000 / SEEDS.count() {
            let packet = &recorded[rng.usize(..recorded.len())];
            let victim = rng.usize(..mesh.node_count());
            let octets = match rng.bool() {
                true => packet.bytes.to_vec(),
                false => forge(&mut rng, packet),
            };
            changed += usize::from(moves(&mut mesh, victim, packet.source, &octets));
        }
        assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
    }
    assert_eq!(changed, 0);
}

#[test]
fn without_signatures_the_same_packets_change_routes() {
    let hurt = SEEDS.filter(|seed| {
        let mut mesh = network(*seed, Signatures::Off);
        let mut rng = fastrand::Rng::with_seed(*seed);
        mesh.record();
        mesh.run_for(seconds(20));
        let recorded = mesh.recorded();
        mesh.run_for(seconds(40));
        (0..200).any(|_| {
            let packet = &recorded[rng.usize(..recorded.len())];
            let victim = rng.usize(..mesh.node_count());
            let octets = forge(&mut rng, packet);
            moves(&mut mesh, victim, packet.source, &octets)
        })
    });
    assert!(hurt.count() > 0, "the detector sees nothing");
}

#[test]
fn what_was_recorded_before_a_restart_is_not_believed_after_it() {
    // Nodes 2 to 5 go away for good. Node 1 restarts, and hears their old packets again.
    for signatures in [Signatures::Require, Signatures::Off] {
        let mut mesh = line(1, 6, signatures, |_| true);
        mesh.run_for(seconds(20));
        mesh.record();
        mesh.run_for(seconds(12));
        let recorded = mesh.recorded();
        (2..6).for_each(|node| mesh.stop(node));
        mesh.run_for(seconds(200));
        mesh.stop(1);
        mesh.run_for(seconds(20));
        mesh.start(1);
        mesh.run_for(seconds(10));
        let known = next_hops(&mesh, 1);
        assert_eq!(known.len(), 1);
        let mut fooled = false;
        for _ in 0..3 {
            for packet in recorded.iter().filter(|packet| packet.from.node >= 2) {
                mesh.inject(port(1), packet.source, &packet.bytes);
                mesh.run_for(Duration::from_millis(20));
                fooled |= next_hops(&mesh, 1) != known;
            }
        }
        assert_eq!(fooled, signatures == Signatures::Off, "{signatures:?}");
    }
}

#[test]
fn an_insider_draws_no_link_to_an_honest_router() {
    // Node 5 of a line claims in signed TCs that it is a neighbour of all. That may cut it off itself.
    let others = |mesh: &Mesh| {
        let liar = Prefix::host(mesh.originator(5, Family::V6));
        let hops = (0..5).map(|node| next_hops(mesh, node));
        let hops = hops.map(|mut hops| {
            hops.remove(&liar);
            hops
        });
        hops.collect::<Vec<_>>()
    };
    for (signatures, hurts) in [(Signatures::Require, false), (Signatures::Prefer, false)] {
        let mut mesh = line(3, 6, signatures, |_| true);
        mesh.run_for(seconds(20));
        let all: Vec<IpAddr> = (0..5)
            .map(|node| mesh.originator(node, Family::V6))
            .collect();
        let liar = mesh.originator(5, Family::V6);
        let before = others(&mesh);
        let source = mesh.router(5).unwrap().interfaces()[0].addresses[0];
        for round in 0..20 {
            let claim = mesh.sign(5, &links(liar, 60_000 + round, &all).encode().unwrap());
            let packet = Packet {
                messages: vec![Message::decode(&claim).unwrap()],
                ..Packet::default()
            };
            (0..5).for_each(|node| mesh.inject(port(node), source, &packet.encode().unwrap()));
            mesh.run_for(Duration::from_millis(500));
            assert_eq!(
                others(&mesh) != before,
                hurts,
                "{signatures:?}, round {round}"
            );
        }
    }
}

/// A TC that claims links to these routers with the best metric, and that they are all.
fn links(originator: IpAddr, number: u16, to: &[IpAddr]) -> Message {
    let mut tc = Message::new(message::TC, originator);
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(number));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0xff]),
        Tlv::new(message_tlv::CONT_SEQ_NUM, 0, number.to_be_bytes()),
        Tlv::new(228, 0, []),
    ];
    let code = rfc5444::metric::compress(Metric::MIN);
    let both = link_metric::INCOMING_NEIGHBOR | link_metric::OUTGOING_NEIGHBOR;
    let tlvs = vec![
        Tlv::new(address_tlv::LINK_METRIC, 0, (both | code).to_be_bytes()),
        Tlv::new(
            address_tlv::NBR_ADDR_TYPE,
            0,
            [nbr_addr_type::ROUTABLE_ORIG],
        ),
    ];
    let entry = |to: &IpAddr| AddressEntry {
        prefix: Prefix::host(*to),
        tlvs: tlvs.clone(),
    };
    tc.addresses = to.iter().map(entry).collect();
    tc
}

#[test]
fn an_insider_does_not_take_the_address_of_a_router_that_is_away() {
    // Node 5 announces in signed TCs a host that is the address of node 7's key, which nobody has heard of.
    for (signatures, hurts) in [
        (Signatures::Require, false),
        (Signatures::Prefer, false),
        (Signatures::Off, true),
    ] {
        let mut mesh = line(3, 8, signatures, |_| true);
        mesh.cut(5, 6);
        mesh.stop(6);
        mesh.stop(7);
        mesh.run_for(seconds(20));
        let away = Prefix::host(mesh.originator(7, Family::V6));
        let liar = mesh.originator(5, Family::V6);
        let neighbour = mesh.originator(4, Family::V6);
        let mut tc = links(liar, 60_000, &[neighbour]);
        tc.addresses.push(AddressEntry {
            prefix: away,
            tlvs: vec![
                tc.addresses[0].tlvs[0].clone(),
                Tlv::new(address_tlv::GATEWAY, 0, [0]),
            ],
        });
        let claim = mesh.sign(5, &tc.encode().unwrap());
        let packet = Packet {
            messages: vec![Message::decode(&claim).unwrap()],
            ..Packet::default()
        };
        let source = mesh.router(5).unwrap().interfaces()[0].addresses[0];
        mesh.inject(port(4), source, &packet.encode().unwrap());
        mesh.run_for(Duration::from_millis(100));
        assert_eq!(
            next_hops(&mesh, 0).contains_key(&away),
            hurts,
            "{signatures:?}"
        );
    }
}

#[test]
fn a_flood_of_false_signatures_costs_few_verifications() {
    let mut mesh = network(1, Signatures::Require);
    mesh.record();
    mesh.run_for(seconds(5));
    let recorded = mesh.recorded();
    let verified = |mesh: &Mesh| mesh.router(0).unwrap().counters().verified;
    let before = verified(&mesh);
    let mut sent = 0_u32;
    for round in 0..1000_u32 {
        for recorded in recorded.iter().take(10) {
            let mut packet = Packet::decode(&recorded.bytes).unwrap();
            for message in &mut packet.messages {
                let stamp = message
                    .tlvs
                    .iter_mut()
                    .find(|tlv| tlv.typ == message_tlv::TIMESTAMP);
                let stamp = stamp.expect("it is signed");
                stamp.value[2..6].copy_from_slice(&(round + 1).to_be_bytes());
                sent += 1;
            }
            let stranger = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 1, round as u16]);
            mesh.inject(port(0), stranger, &packet.encode().unwrap());
        }
        mesh.run_for(Duration::from_millis(10));
    }
    let verified = verified(&mesh) - before;
    println!("{verified} of {sent} messages verified in 10 s");
    // 128 at once and 64 a second, one of 16 beyond, and what honest neighbours send meanwhile.
    assert!(
        sent >= 10_000 && verified < 128 + 640 + 625 + 400,
        "{verified} of {sent}"
    );
    assert_eq!(truth::check(&mesh), Ok(()));
}

#[test]
fn a_flood_under_a_neighbours_address_does_not_end_its_link() {
    let mut mesh = line(1, 2, Signatures::Require, |_| true);
    mesh.run_for(seconds(10));
    mesh.record();
    mesh.run_for(seconds(5));
    let recorded = mesh.recorded();
    let packet = recorded
        .iter()
        .find(|packet| packet.from.node == 1)
        .unwrap();
    let mut forged = Packet::decode(&packet.bytes).unwrap();
    for round in 0..6000_u32 {
        for message in &mut forged.messages {
            for tlv in message
                .tlvs
                .iter_mut()
                .filter(|tlv| tlv.typ == message_tlv::TIMESTAMP)
            {
                tlv.value[2..6].copy_from_slice(&(round + 1).to_be_bytes());
            }
        }
        mesh.inject(port(0), packet.source, &forged.encode().unwrap());
        mesh.run_for(Duration::from_millis(10));
        assert_eq!(next_hops(&mesh, 0).len(), 1, "round {round}");
    }
}

#[test]
fn nobody_takes_the_address_of_a_router_that_does_not_sign() {
    // Node 2 of a line has an IPv4 originator and no key. A stranger at node 0 signs in its name with a key of his own.
    let mut mesh = Mesh::new(7, config(Signatures::Prefer), &[Family::V4]);
    mesh.add_nodes(4);
    mesh.give_key(3, 3);
    (1..3).for_each(|node| mesh.connect(node - 1, node));
    mesh.run_for(seconds(20));
    let victim = mesh.originator(2, Family::V4);
    let before = next_hops(&mesh, 0);
    assert_eq!(before.len(), 2);
    for round in 0..60 {
        let claim = mesh.sign(3, &links(victim, 50_000 + round, &[]).encode().unwrap());
        let packet = Packet {
            messages: vec![Message::decode(&claim).unwrap()],
            ..Packet::default()
        };
        let neighbour = mesh.originator(1, Family::V4);
        mesh.inject(port(0), neighbour, &packet.encode().unwrap());
        mesh.run_for(seconds(2));
    }
    mesh.run_for(seconds(10));
    assert_eq!(next_hops(&mesh, 0), before);
    let forged: u64 = mesh.counters().iter().map(|counters| counters.forged).sum();
    assert_eq!(forged, 0, "the messages of the router itself are believed");
}
