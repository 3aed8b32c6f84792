//! Paths and sessions that are kept without packets.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use overlay_node::{Admission, Event};
use support::{Habits, Mesh, SECOND};

/// Longer than unused paths and sessions live.
const LONG: Duration = Duration::from_secs(300);

/// Keeps paths and sessions from the first station to the others.
fn keep(mesh: &mut Mesh, others: &[usize]) {
    let addresses: BTreeSet<_> = others.iter().map(|other| mesh.address(*other)).collect();
    let now = mesh.now;
    mesh.stations[0].node.keep(now, &addresses);
    mesh.flush(0);
}

/// Returns what the first station last reported about packets to another, or `None` if it reported nothing.
fn reported(mesh: &Mesh, other: usize) -> Option<bool> {
    let address = mesh.address(other);
    let mut events = mesh.stations[0].events.iter().rev();
    events.find_map(|(_, event)| match event {
        Event::KeptUp(up) if *up == address => Some(true),
        Event::KeptDown(down) if *down == address => Some(false),
        _ => None,
    })
}

fn is_reported(mesh: &mut Mesh, other: usize, up: bool) -> bool {
    mesh.run_until(SECOND * 20, |mesh| reported(mesh, other) == Some(up))
}

fn admit(mesh: &mut Mesh, admission: Admission) {
    mesh.stations[0].node.admit(admission);
    mesh.flush(0);
}

#[test]
fn packets_to_a_kept_node_pass_at_once_and_after_a_long_silence() {
    for count in [2, 4] {
        let mut mesh = Mesh::line(count, 3, Habits::default());
        let last = count - 1;
        keep(&mut mesh, &[last]);
        assert!(is_reported(&mut mesh, last, true), "{count}");
        for round in 0..2 {
            let before = mesh.now;
            mesh.send(0, last, round);
            let came = mesh.run_until(SECOND, |mesh| mesh.has_come(0, last, round));
            let one_way = mesh.habits.latency * count as u32;
            assert!(came && mesh.now - before <= one_way, "{count} {round}");
            mesh.run(LONG);
        }
        assert_eq!(reported(&mesh, last), Some(true));
    }
}

#[test]
fn without_it_a_silent_session_ends() {
    let mut mesh = Mesh::line(2, 3, Habits::default());
    keep(&mut mesh, &[1]);
    assert!(is_reported(&mut mesh, 1, true));
    keep(&mut mesh, &[]);
    assert_eq!(mesh.stations[0].node.kept().count(), 0);
    mesh.run(LONG * 2);
    assert_eq!(mesh.stations[0].node.sessions().count(), 0);
}

#[test]
fn what_is_gone_is_told_and_comes_back_by_itself() {
    for count in [2, 3] {
        let mut mesh = Mesh::line(count, 5, Habits::default());
        let last = count - 1;
        keep(&mut mesh, &[last]);
        assert!(is_reported(&mut mesh, last, true));
        mesh.stations[last].alive = false;
        assert!(is_reported(&mut mesh, last, false), "{count}");
        mesh.stations[last].alive = true;
        mesh.restart(last);
        assert!(is_reported(&mut mesh, last, true), "{count}");
    }
}

#[test]
fn only_those_that_are_permitted_are_kept() {
    let mut mesh = Mesh::line(3, 9, Habits::default());
    admit(&mut mesh, Admission::Only(BTreeSet::new()));
    keep(&mut mesh, &[1, 2]);
    mesh.run(SECOND * 10);
    assert_eq!((reported(&mesh, 1), reported(&mesh, 2)), (None, None));
    let only = BTreeSet::from([mesh.address(2)]);
    admit(&mut mesh, Admission::Only(only));
    assert!(is_reported(&mut mesh, 2, true));
    assert_eq!(reported(&mesh, 1), None);
    admit(&mut mesh, Admission::Only(BTreeSet::new()));
    assert_eq!(reported(&mesh, 2), Some(false));
}

#[test]
fn its_own_address_is_left_out_and_the_number_is_bounded() {
    let mut mesh = Mesh::line(2, 1, Habits::default());
    keep(&mut mesh, &[0]);
    assert_eq!(mesh.stations[0].node.kept().count(), 0);
    let many = (0..2000_u16).map(|number| {
        let mut octets = [0xfc; 16];
        octets[14..].copy_from_slice(&number.to_be_bytes());
        cryptoauth::Address::from_octets(octets)
    });
    let now = mesh.now;
    mesh.stations[0].node.keep(now, &many.collect());
    assert_eq!(mesh.stations[0].node.kept().count(), 1024);
    mesh.run(SECOND);
}
