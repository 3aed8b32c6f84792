//! Neighbours found by beacons, when both addresses change at once.

mod support;

use overlay_node::Beacons;
use support::{Habits, Mesh, MILLISECOND, SECOND};

/// Number of runs. They differ in which node heard the other first.
const RUNS: u64 = 48;

fn set_beacons(mesh: &mut Mesh, station: usize, beacons: Beacons) {
    let (now, interface) = (mesh.now, mesh.stations[station].interface);
    let node = &mut mesh.stations[station].node;
    node.set_beacons(now, &mut mesh.random, interface, beacons);
    mesh.flush(station);
}

/// Returns two connected nodes. In every other run the second connected to the first, which received its beacon later.
fn pair(seed: u64, die: &mut fastrand::Rng) -> Mesh {
    let habits = Habits {
        beacons: Beacons::Send,
        ..Habits::default()
    };
    let mut mesh = Mesh::new(2, seed, habits);
    let comes_by_itself = seed % 2 == 1;
    if comes_by_itself {
        set_beacons(&mut mesh, 1, Beacons::Accept);
    }
    mesh.run(MILLISECOND * die.u32(0..3000));
    if !comes_by_itself {
        set_beacons(&mut mesh, 1, Beacons::Send);
    }
    mesh.hear(0, 1);
    assert_eq!(mesh.pairs_without_data(&[(0, 1)], SECOND * 20), []);
    set_beacons(&mut mesh, 1, Beacons::Send);
    mesh.run(MILLISECOND * die.u32(0..3000));
    mesh
}

/// A HELLO from a new address makes its sender a stranger to the receiver, which answers without a password. The sender
/// must not refuse that, although the other node once connected to it and had to show a password.
#[test]
fn neighbours_whose_addresses_change_at_once_find_each_other() {
    for seed in 0..RUNS {
        let mut die = fastrand::Rng::with_seed(seed);
        let mut mesh = pair(seed, &mut die);
        for round in 0..3 {
            mesh.unhear(0, 1);
            mesh.run(MILLISECOND * die.u32(0..12_000));
            for station in [0, 1] {
                mesh.relocate(station);
                mesh.run(MILLISECOND * die.u32(0..300));
                set_beacons(&mut mesh, station, Beacons::Send);
            }
            mesh.hear(0, 1);
            let both = [(0, 1), (1, 0)];
            let without = mesh.pairs_without_data(&both, SECOND * 20);
            assert_eq!(without, [], "run {seed}, round {round}");
        }
    }
}

/// Returns two nodes that talk, and hear each other's beacons on a second interface, too.
fn pair_of_two_links(seed: u64) -> Mesh {
    let habits = Habits {
        beacons: Beacons::Send,
        ..Habits::default()
    };
    let mut mesh = Mesh::new(2, seed, habits);
    mesh.hear(0, 1);
    for station in [0, 1] {
        mesh.add_second(station, Beacons::Send);
    }
    let both = [(0, 1), (1, 0)];
    assert_eq!(mesh.pairs_without_data(&both, SECOND * 20), []);
    mesh.run(SECOND * 5);
    mesh
}

/// Returns the longest outage in both directions when the link that a pair uses falls silent.
fn outage_of_the_link_in_use(mesh: &mut Mesh) -> std::time::Duration {
    let used = mesh.stations[0].node.peers(mesh.now).next().unwrap();
    let is_first = used.interface == mesh.stations[0].interface;
    let address = match is_first {
        true => mesh.stations[0].link_address,
        false => mesh.stations[0].second.unwrap().1,
    };
    mesh.outage((0, 1), SECOND * 10, |mesh| mesh.silent = vec![address])
}

#[test]
fn another_link_to_a_neighbour_takes_over_within_a_second_again_and_again() {
    for seed in 0..RUNS {
        let mut mesh = pair_of_two_links(seed);
        for round in 0..4 {
            let outage = outage_of_the_link_in_use(&mut mesh);
            assert!(
                outage < MILLISECOND * 800,
                "run {seed}, round {round}: {outage:?}"
            );
        }
    }
}

/// Somebody repeats a neighbour's beacon from many addresses on another interface, where the neighbour is not.
#[test]
fn repeated_beacons_move_nobody_and_cost_one_handshake() {
    let mut mesh = pair_of_two_links(1);
    let silenced = &mesh.stations[1];
    mesh.silent = vec![silenced.link_address, silenced.second.unwrap().1];
    let (interface, now) = (mesh.stations[0].second.unwrap().0, mesh.now);
    mesh.run(SECOND / 10);
    let beacon = mesh.beacons[&1].clone();
    for number in 1000..2000 {
        let node = &mut mesh.stations[0].node;
        node.receive_beacon(now, interface, &support::udp(number), &beacon);
    }
    mesh.run(SECOND * 2);
    assert_eq!(mesh.stations[0].node.peers(mesh.now).count(), 2);
    mesh.silent.clear();
    let both = [(0, 1), (1, 0)];
    assert_eq!(mesh.pairs_without_data(&both, SECOND * 3), []);
}

/// A broadcast may be lost, especially on radio.
#[test]
fn a_first_beacon_that_is_lost_is_soon_followed_by_another() {
    for seed in 0..RUNS {
        let habits = Habits {
            beacons: Beacons::Send,
            ..Habits::default()
        };
        let mut mesh = Mesh::new(2, seed, habits);
        mesh.run(MILLISECOND * 100);
        mesh.hear(0, 1);
        let both = [(0, 1), (1, 0)];
        assert_eq!(
            mesh.pairs_without_data(&both, MILLISECOND * 500),
            [],
            "run {seed}"
        );
    }
}
