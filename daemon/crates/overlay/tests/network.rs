//! Networks of switches in virtual time: paths are found from end to end, and found again after failures.

#[path = "support/network.rs"]
mod network;

use std::time::Duration;

use fastrand::Rng;
use network::Network;
use overlay::{Event, Limits, PROBE_INTERVAL};

const SECOND: Duration = Duration::from_secs(1);

/// Sends data between every two running nodes. Returns the pairs whose data did not arrive.
fn without_way(network: &mut Network) -> Vec<(usize, usize)> {
    let alive: Vec<_> = network.alive().collect();
    let pairs = alive
        .iter()
        .flat_map(|&from| alive.iter().map(move |&to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    network
        .nodes
        .iter_mut()
        .for_each(|node| node.received.clear());
    for &(from, to) in &pairs {
        network.send_data(from, to);
    }
    network.run(SECOND);
    let arrived = |&(from, to): &(usize, usize)| {
        let address = network.nodes[from].address;
        network.nodes[to].received.contains(&address)
    };
    pairs.into_iter().filter(|pair| !arrived(pair)).collect()
}

#[test]
fn twenty_switches_in_random_topologies_reach_each_other() {
    for seed in 0..3 {
        let mut random = Rng::with_seed(seed);
        let mut network = Network::random(20, 12, &mut random);
        network.run(SECOND);
        network.want_all();
        network.run(SECOND * 10);
        assert_eq!(without_way(&mut network), [], "seed {seed}");
        let lost = network.nodes.iter().flat_map(|node| &node.events);
        let lost = lost.filter(|(_, event)| matches!(event, Event::Lost(_) | Event::NotFound(_)));
        assert_eq!(lost.count(), 0, "seed {seed}");
    }
}

#[test]
fn a_node_that_vanishes_without_a_word_is_gone_around() {
    for seed in 0..3 {
        let mut random = Rng::with_seed(seed);
        let mut network = Network::random(20, 20, &mut random);
        network.want_all();
        network.run(SECOND * 10);
        assert_eq!(without_way(&mut network), [], "seed {seed}");
        let victim = loop {
            let victim = random.usize(..20);
            network.nodes[victim].alive = false;
            if network.is_connected() {
                break victim;
            }
            network.nodes[victim].alive = true;
        };
        network.run(SECOND * 20);
        assert_eq!(
            without_way(&mut network),
            [],
            "seed {seed}, without {victim}"
        );
        let address = network.nodes[victim].address;
        let strangers = network
            .alive()
            .filter(|&node| !network.linked(node, victim));
        let believe: Vec<_> = strangers
            .filter(|&node| network.nodes[node].finder.way(address).is_some())
            .collect();
        assert_eq!(
            believe,
            [],
            "seed {seed}: nobody believes to reach {victim}"
        );
    }
}

#[test]
fn nobody_is_found_beyond_a_cut() {
    let mut random = Rng::with_seed(1);
    let mut network = Network::new(4, &mut random);
    network.link(0, 1, SECOND / 100);
    network.link(2, 3, SECOND / 100);
    network.want_all();
    network.run(SECOND * 5);
    assert_eq!(
        without_way(&mut network),
        [
            (0, 2),
            (0, 3),
            (1, 2),
            (1, 3),
            (2, 0),
            (2, 1),
            (3, 0),
            (3, 1)
        ]
    );
    let beyond = network.nodes[3].address;
    assert!(network.nodes[0]
        .events
        .iter()
        .any(|(_, event)| *event == Event::NotFound(beyond)));
    network.run(SECOND * 60);
    let in_vain = |event: &&(_, Event)| event.1 == Event::NotFound(beyond);
    let searches = network.nodes[0].events.iter().filter(in_vain).count();
    assert!(
        (5..20).contains(&searches),
        "{searches} searches in a minute"
    );
    network.link(1, 2, SECOND / 100);
    network.run(SECOND * 10);
    assert_eq!(without_way(&mut network), []);
}

#[test]
fn another_way_is_taken_at_once_when_the_link_layer_tells_of_a_loss() {
    let mut random = Rng::with_seed(3);
    let mut network = Network::new(5, &mut random);
    for node in 0..5 {
        network.link(node, (node + 1) % 5, SECOND / 100);
    }
    let target = network.nodes[2].address;
    network.nodes[0].finder.want(network.now, target);
    network.run(SECOND * 10);
    assert!(network.send_data(0, 2));
    network.run(SECOND);
    network.unlink(0, 1);
    network.run(SECOND / 2);
    assert!(network.send_data(0, 2));
    network.run(SECOND);
    assert_eq!(network.nodes[2].received.len(), 2);
}

#[test]
fn a_shorter_way_that_comes_is_taken_while_the_longer_one_is_sound() {
    for seed in 0..5 {
        let mut network = Network::new(12, &mut Rng::with_seed(seed));
        for node in 2..12 {
            network.link(node, (node + 1) % 12, SECOND / 100);
        }
        network.link(0, 1, SECOND / 100);
        let target = network.nodes[5].address;
        network.nodes[0].finder.want(network.now, target);
        network.run(SECOND * 10);
        let longer = network.nodes[0].finder.way(target).unwrap().path;
        network.link(1, 4, SECOND / 100); // nobody tells node 0 or the target of it
        let frames = network.frames;
        network.run(SECOND * 100);
        let shorter = network.nodes[0].finder.way(target).unwrap().path;
        assert!(
            shorter.bits() < longer.bits(),
            "seed {seed}: {shorter} for {longer}"
        );
        let events = &network.nodes[0].events;
        assert!(!events
            .iter()
            .any(|(_, event)| matches!(event, Event::Lost(_))));
        let frames = network.frames - frames;
        assert!(frames < 2000, "{frames} frames in 100 s");
    }
}

#[test]
fn no_better_way_is_looked_for_than_that_to_a_neighbour() {
    let mut network = Network::new(2, &mut Rng::with_seed(3));
    network.link(0, 1, SECOND / 100);
    let target = network.nodes[1].address;
    network.nodes[0].finder.want(network.now, target);
    network.run(SECOND * 10);
    let frames = network.frames;
    network.run(SECOND * 100);
    let probes = 100 / PROBE_INTERVAL.as_secs();
    assert_eq!(
        network.frames - frames,
        probes * 4,
        "each by two switches, with its answer"
    );
}

/// A ring of six nodes. Node 0 sends to node 3, over 1 and 2 or over 5 and 4.
fn ring() -> Network {
    let mut network = Network::new(6, &mut Rng::with_seed(3));
    for node in 0..6 {
        network.link(node, (node + 1) % 6, SECOND / 100);
    }
    let target = network.nodes[3].address;
    network.nodes[0].finder.want(network.now, target);
    network.run(SECOND * 10);
    network
}

#[test]
fn errors_of_a_switch_end_a_way_sooner_than_silence_would() {
    let mut network = ring();
    let target = network.nodes[3].address;
    network.unlink(2, 3);
    network.unlink(4, 3);
    let frames = network.frames;
    assert!(network.send_data(0, 3), "node 0 does not know yet");
    network.run(SECOND / 4);
    assert_eq!(network.nodes[0].finder.way(target), None);
    assert!(
        network.frames - frames < 500,
        "{} frames: errors lead to errors",
        network.frames - frames
    );
    network.link(2, 3, SECOND / 100);
    network.run(SECOND * 10);
    assert!(network.send_data(0, 3));
    network.run(SECOND);
    assert_eq!(network.nodes[3].received.len(), 1);
}

#[test]
fn a_forged_error_ends_nothing() {
    let mut network = ring();
    let target = network.nodes[3].address;
    let way = network.nodes[0].finder.way(target).unwrap().path;
    let now = network.now;
    network.nodes[0].finder.handle_error(now, way);
    network.run(SECOND * 5);
    let node = network.nodes[0].finder.store().get(target).unwrap();
    assert!(node.way(way).is_some_and(|way| way.is_sound()));
    assert!(!network.nodes[0]
        .events
        .iter()
        .any(|(_, event)| matches!(event, Event::Lost(_))));
}

#[test]
fn a_long_line_is_passed_up_to_the_length_of_a_label() {
    let mut random = Rng::with_seed(5);
    let mut network = Network::new(15, &mut random);
    for node in 1..15 {
        network.link(node - 1, node, SECOND / 1000);
    }
    let (near, far) = (network.nodes[14].address, network.nodes[0].address);
    network.nodes[0].finder.want(network.now, near);
    network.nodes[14].finder.want(network.now, far);
    network.run(SECOND * 20);
    assert!(
        network.send_data(0, 14) && network.send_data(14, 0),
        "14 hops of 4 bits"
    );
    network.run(SECOND);
    assert_eq!(
        (
            network.nodes[0].received.len(),
            network.nodes[14].received.len()
        ),
        (1, 1)
    );
}

#[test]
fn who_lies_about_nodes_and_labels_keeps_nobody_apart_and_causes_little() {
    let frames = |lies: bool| {
        let mut network = Network::new(6, &mut Rng::with_seed(3));
        for node in 0..6 {
            network.link(node, (node + 1) % 6, SECOND / 100);
        }
        network.nodes[1].lies = lies;
        network.want_all();
        network.run(SECOND * 60);
        assert_eq!(without_way(&mut network), []);
        for node in &network.nodes {
            assert!(node.finder.store().len() <= Limits::default().nodes);
        }
        network.frames
    };
    let (honest, lied) = (frames(false), frames(true));
    assert_ne!(honest, lied, "the liar is heard");
    assert!(
        lied < honest * 4,
        "{lied} frames with a liar, {honest} without"
    );
}
