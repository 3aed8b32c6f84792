//! Floods of false messages in the names of routers that sign: all routes stay right (docs/development/adr/0109).

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, Family, Signatures};
use rfc5444::iana::{message, message_tlv};
use rfc5444::{Message, Packet};
use simulator::{truth, Mesh, NodeId, Port, RADIO};

const NODES: usize = 5;
/// Who is flooded.
const VICTIM: NodeId = 1;

/// Somebody who hears every message of the mesh as soon as it is sent.
struct Flood {
    typ: u8,
    /// In whose names he sends, by turns.
    names: Vec<NodeId>,
    /// Whose source address his packets have.
    source: NodeId,
    /// Whether he puts in what was said last, tokens and counters, or a message from before the flood.
    follows: bool,
    last: Vec<Message>,
    sent: u32,
}

impl Flood {
    fn new(mesh: &mut Mesh, typ: u8, names: &[NodeId], source: NodeId, follows: bool) -> Self {
        mesh.record();
        mesh.run_for(Duration::from_secs(6));
        let mut flood = Self {
            typ,
            names: names.to_vec(),
            source,
            follows,
            last: Vec::new(),
            sent: 0,
        };
        flood.listen(mesh);
        assert_eq!(flood.last.len(), names.len());
        mesh.record();
        flood
    }

    /// Takes the newest message of each whose name he uses.
    fn listen(&mut self, mesh: &mut Mesh) {
        let recorded = mesh.recorded();
        let packets = recorded
            .iter()
            .filter(|packet| packet.from.node != VICTIM)
            .filter_map(|packet| Packet::decode(&packet.bytes).ok());
        for new in packets.flat_map(|packet| packet.messages) {
            let originator = |node: &NodeId| mesh.originator(*node, Family::V6);
            let is_his = self
                .names
                .iter()
                .any(|node| new.originator == Some(originator(node)));
            if new.typ == self.typ && is_his {
                self.last.retain(|old| old.originator != new.originator);
                self.last.push(new);
            }
        }
    }

    fn next(&mut self, mesh: &mut Mesh) -> Vec<u8> {
        if self.follows {
            self.listen(mesh);
            mesh.record();
        }
        self.sent += 1;
        let mut forged = self.last[self.sent as usize % self.last.len()].clone();
        forged.seq = forged.seq.map(|seq| seq.wrapping_add(self.sent as u16));
        let mut tlvs = forged.tlvs.iter_mut();
        let stamp = tlvs.find(|tlv| tlv.is(message_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION));
        let stamp = &mut stamp.expect("it is signed").value;
        let counter = u64::from_be_bytes(stamp[..8].try_into().unwrap());
        let higher = counter + 1 + u64::from(self.sent);
        stamp[..8].copy_from_slice(&higher.to_be_bytes());
        Packet {
            messages: vec![forged],
            ..Packet::default()
        }
        .encode()
        .unwrap()
    }

    /// Floods the victim. Returns after which seconds a route was wrong, and how many messages it verified each second.
    fn run(&mut self, mesh: &mut Mesh, rate: u32, seconds: u64) -> (Vec<u64>, u64) {
        let port = Port {
            node: VICTIM,
            interface: RADIO,
        };
        let source: IpAddr = mesh.router(self.source).unwrap().interfaces()[0].addresses[0];
        let verified = |mesh: &Mesh| mesh.router(VICTIM).unwrap().counters().verified;
        let before = verified(mesh);
        let is_wrong = |_: &u64| {
            for _ in 0..rate {
                let packet = self.next(mesh);
                mesh.inject(port, source, &packet);
                mesh.run_for(Duration::from_secs(1) / rate);
            }
            truth::check(mesh).is_err()
        };
        let wrong = (0..seconds).filter(is_wrong).collect();
        (wrong, (verified(mesh) - before) / seconds)
    }
}

fn line() -> Mesh {
    let config = Config {
        signatures: Signatures::Require,
        ..Config::default()
    };
    let mut mesh = Mesh::new(1, config, &[Family::V6]);
    mesh.add_nodes(NODES);
    (0..NODES).for_each(|node| mesh.give_key(node, node as u64));
    (1..NODES).for_each(|node| mesh.connect(node - 1, node));
    mesh.run_for(Duration::from_secs(20));
    assert_eq!(truth::check(&mesh), Ok(()));
    mesh
}

/// Asserts that no route is ever wrong, and that a second costs the victim at most so many verifications.
fn harmless(typ: u8, names: &[NodeId], source: NodeId, follows: bool, most: u64) {
    for (rate, seconds) in [(200, 30), (1000, 30), (10_000, 20)] {
        let mut mesh = line();
        let mut flood = Flood::new(&mut mesh, typ, names, source, follows);
        let (wrong, verified) = flood.run(&mut mesh, rate, seconds);
        println!("{rate} a second, {verified} verified, {wrong:?} wrong");
        assert_eq!(wrong, [], "{rate} a second");
        assert!(verified <= most, "{rate} a second, {verified} verified");
    }
}

#[test]
fn false_hellos_of_a_neighbour_end_no_link() {
    harmless(message::HELLO, &[0], 0, false, 80);
}

#[test]
fn false_hellos_with_what_was_said_last_end_no_link() {
    harmless(message::HELLO, &[2], 2, true, 80);
}

#[test]
fn false_tcs_of_one_router_end_no_route() {
    harmless(message::TC, &[2], 2, false, 800);
}

#[test]
fn false_tcs_of_all_routers_end_no_route() {
    harmless(message::TC, &[2, 3, 4], 2, false, 800);
}

#[test]
fn false_tcs_that_overtake_the_true_ones_end_no_route() {
    let mut mesh = line();
    let mut flood = Flood::new(&mut mesh, message::TC, &[2, 3, 4], 2, true);
    let (wrong, verified) = flood.run(&mut mesh, 1000, 30);
    println!("{verified} verified, {wrong:?} wrong");
    assert_eq!(wrong, []);
    assert!(verified <= 400, "{verified} verified");
}
