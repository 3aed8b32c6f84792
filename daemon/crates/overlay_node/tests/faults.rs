//! Random topologies and random faults in sequence. After each fault, all nodes find each other again.

mod support;

use fastrand::Rng;
use overlay_node::Beacons;
use support::{Habits, Mesh, SECOND};

/// Returns a tree and some more links. Each connection is started by a random end, some by both.
fn random_mesh(count: usize, seed: u64, random: &mut Rng) -> Mesh {
    let habits = Habits {
        loss: [0, 0, 50][random.usize(..3)],
        noise: random.bool(),
        beacons: [Beacons::Off, Beacons::Send][random.usize(..2)],
        ..Habits::default()
    };
    let mut mesh = Mesh::new(count, seed, habits);
    for node in 1..count {
        let other = random.usize(..node);
        let (one, other) = if random.bool() {
            (node, other)
        } else {
            (other, node)
        };
        mesh.link(one, other);
        if random.u8(..4) == 0 {
            mesh.link(other, one);
        }
    }
    for _ in 0..count / 2 {
        let (one, other) = (random.usize(..count), random.usize(..count));
        if one != other && !mesh.hears(one, other) {
            mesh.link(one, other);
        }
    }
    mesh
}

/// Causes a temporary fault.
fn fault(mesh: &mut Mesh, random: &mut Rng) {
    let count = mesh.stations.len();
    let (one, other) = (random.usize(..count), random.usize(..count));
    let duration = SECOND * random.u32(..40) / 10;
    match random.u8(..3) {
        0 => {
            mesh.restart(one);
            mesh.run(duration / 4);
        }
        1 if mesh.hears(one, other) => {
            mesh.unhear(one, other);
            mesh.run(duration);
            mesh.hear(one, other);
        }
        _ => {
            mesh.stations[one].alive = false;
            mesh.run(duration);
            mesh.stations[one].alive = true;
        }
    }
}

#[test]
fn after_any_faults_everybody_finds_everybody_again() {
    for seed in 0..SEEDS {
        let random = &mut Rng::with_seed(seed);
        let mut mesh = random_mesh(6, seed, random);
        let pairs = mesh.all_pairs();
        assert_eq!(
            mesh.pairs_without_data(&pairs, SECOND * 15),
            [],
            "seed {seed}"
        );
        for round in 0..4 {
            for _ in 0..random.usize(1..4) {
                fault(&mut mesh, random);
            }
            let open = mesh.pairs_without_data(&pairs, SECOND * 15);
            assert_eq!(open, [], "seed {seed}, round {round}");
        }
    }
}

const SEEDS: u64 = 8;
