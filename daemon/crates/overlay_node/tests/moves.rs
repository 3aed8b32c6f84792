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
