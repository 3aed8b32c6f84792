//! Whole nodes in virtual time: whoever wants to talk is heard, and soon again when something broke.

mod support;

use std::time::Duration;

use overlay_node::{Event, PeerState};
use support::{Habits, Mesh, MILLISECOND, SECOND};

fn lossy() -> Habits {
    Habits {
        loss: 20,
        ..Habits::default()
    }
}

#[test]
fn everybody_talks_to_everybody_in_lines_rings_and_stars() {
    let makes = [Mesh::line, Mesh::ring, Mesh::star];
    for (index, make) in makes.into_iter().enumerate() {
        for habits in [Habits::default(), lossy()] {
            let loss = habits.loss;
            let mut mesh = make(6, 7 + index as u64, habits);
            let pairs = mesh.all_pairs();
            let open = mesh.pairs_without_data(&pairs, SECOND * 15);
            assert_eq!(open, [], "topology {index}, loss 1/{loss}");
        }
    }
}

#[test]
fn the_first_packet_arrives_within_a_third_of_a_second() {
    for seed in 0..5 {
        for count in [2, 3] {
            let mut mesh = Mesh::line(count, seed, Habits::default());
            mesh.send(0, count - 1, 1);
            let came = mesh.run_until(SECOND * 10, |mesh| mesh.has_come(0, count - 1, 1));
            assert!(
                came && mesh.now < SECOND * 3 / 10,
                "{count} nodes, seed {seed}: {:?}",
                mesh.now
            );
        }
    }
}
