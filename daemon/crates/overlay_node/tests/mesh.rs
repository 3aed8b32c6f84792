//! Whole nodes in virtual time. Every two nodes can exchange packets, and again soon after a fault.

mod support;

use std::time::Duration;

use overlay::{Contact, Query};
use overlay_node::{Beacons, Event, Link, PeerState, PingId, PingResult, Question, Report};
use support::{Habits, Mesh, SECOND};
use switch::Label;

fn lossy() -> Habits {
    Habits {
        loss: 20,
        ..Habits::default()
    }
}

fn noisy() -> Habits {
    Habits {
        noise: true,
        ..Habits::default()
    }
}

/// Returns a mesh in which two nodes exchange packets.
fn talking(mut mesh: Mesh, pair: (usize, usize)) -> Mesh {
    assert_eq!(mesh.pairs_without_data(&[pair], SECOND * 10), []);
    mesh.run(SECOND * 2);
    mesh
}

#[test]
fn everybody_talks_to_everybody_in_lines_rings_and_stars() {
    let makes = [Mesh::line, Mesh::ring, Mesh::star];
    for (index, make) in makes.into_iter().enumerate() {
        for habits in [Habits::default(), lossy(), noisy()] {
            let label = (habits.loss, habits.noise);
            let mut mesh = make(6, 7 + index as u64, habits);
            let pairs = mesh.all_pairs();
            let open = mesh.pairs_without_data(&pairs, SECOND * 15);
            assert_eq!(open, [], "topology {index}, {label:?}");
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
            let now = mesh.now;
            assert!(
                came && now < SECOND * 3 / 10,
                "{count} nodes, {seed}: {now:?}"
            );
        }
    }
}

/// Returns the longest outage over some seeds.
fn worst(
    seeds: u64,
    pair: (usize, usize),
    make: impl Fn(u64) -> Mesh,
    fault: impl Fn(&mut Mesh),
) -> Duration {
    let outage = |seed| talking(make(seed), pair).outage(pair, SECOND * 10, &fault);
    (0..seeds).map(outage).max().unwrap_or_default()
}

#[test]
fn a_neighbour_that_begins_anew_is_noticed_within_two_seconds() {
    for habits in [Habits::default(), lossy(), noisy()] {
        for restarts in [0, 1] {
            for pair in [(0, 1), (1, 0)] {
                let make = |seed| Mesh::line(2, seed, habits.clone());
                let outage = worst(5, pair, make, |mesh| mesh.restart(restarts));
                let (loss, noise) = (habits.loss, habits.noise);
                println!("restart of {restarts}, {pair:?}, loss {loss}, noise {noise}: {outage:?}");
                assert!(outage < SECOND * 2, "{outage:?}");
            }
        }
    }
}

#[test]
fn a_far_node_that_begins_anew_is_noticed_within_two_seconds() {
    for restarts in [0, 2, 4] {
        for pair in [(0, 4), (4, 0)] {
            let make = |seed| Mesh::line(5, seed, Habits::default());
            let outage = worst(5, pair, make, |mesh| mesh.restart(restarts));
            println!("restart of {restarts} of 5 in a line, {pair:?}: {outage:?}");
            assert!(outage < SECOND * 2, "{outage:?}");
        }
    }
}

#[test]
fn a_relay_that_dies_in_silence_is_gone_around() {
    for (count, dies) in [(4, 1), (4, 3), (6, 2), (6, 1)] {
        let make = |seed| Mesh::ring(count, seed, Habits::default());
        let outage = worst(8, (0, count / 2), make, |mesh| {
            mesh.stations[dies].alive = false
        });
        println!("{dies} of {count} in a ring dies: {outage:?}");
        assert!(outage < SECOND * 3, "{outage:?}");
    }
}

#[test]
fn a_link_that_breaks_in_silence_is_gone_around() {
    for (one, other) in [(0, 1), (1, 2), (2, 3)] {
        let make = |seed| Mesh::ring(6, seed, Habits::default());
        let outage = worst(8, (0, 3), make, |mesh| mesh.unhear(one, other));
        println!("{one} - {other} in a ring of 6 breaks: {outage:?}");
        assert!(outage < SECOND * 3, "{outage:?}");
    }
}

#[test]
fn a_neighbour_that_moves_is_followed() {
    for habits in [Habits::default(), noisy()] {
        for pair in [(0, 1), (1, 0)] {
            let make = |seed| Mesh::line(2, seed, habits.clone());
            let outage = worst(5, pair, make, |mesh| mesh.relocate(0));
            println!("moved, {pair:?}, noise {}: {outage:?}", habits.noise);
            assert!(outage < SECOND * 2, "{outage:?}");
        }
    }
}

#[test]
fn two_that_connect_to_each_other_at_once_have_one_link() {
    for seed in 0..4 {
        for noise in [false, true] {
            let habits = Habits {
                noise,
                ..Habits::default()
            };
            let mut mesh = Mesh::new(2, seed, habits);
            mesh.link(0, 1);
            mesh.link(1, 0);
            assert_eq!(mesh.pairs_without_data(&[(0, 1), (1, 0)], SECOND), []);
            for restarts in [0, 1] {
                let outage = mesh.outage((0, 1), SECOND * 5, |mesh| mesh.restart(restarts));
                assert!(outage < SECOND, "{outage:?}");
            }
        }
    }
}

#[test]
fn two_that_meet_twice_agree_on_one_link() {
    for seed in 0..6 {
        for both_begin in [false, true] {
            let mut mesh = Mesh::new(2, seed, Habits::default());
            mesh.link(0, 1);
            match both_begin {
                true => mesh.connect_second(1, 0),
                false => mesh.run(SECOND),
            }
            if !both_begin {
                mesh.connect_second(1, 0);
            }
            let outage = mesh.outage((0, 1), SECOND * 10, |_| {});
            assert!(outage < SECOND, "{seed}, {both_begin}: {outage:?}");
            let links: Vec<_> = [0, 1]
                .map(|station| mesh.stations[station].node.peers(mesh.now).count())
                .into();
            assert_eq!(links, [1, 1], "{seed}, {both_begin}");
            let moves = mesh.stations.iter().flat_map(|station| &station.events);
            let moves = moves
                .filter(|(_, event)| matches!(event, Event::PeerMoved { .. }))
                .count();
            assert!(moves <= 4, "{moves} moves");
        }
    }
}

#[test]
fn a_link_that_was_away_comes_back_with_its_label() {
    for away in [SECOND, SECOND * 5, SECOND * 90] {
        let mut mesh = talking(Mesh::line(2, 1, Habits::default()), (0, 1));
        let label = |mesh: &Mesh| mesh.stations[1].node.peers(mesh.now).next().unwrap().label;
        let before = label(&mesh);
        mesh.unhear(0, 1);
        mesh.run(away);
        let state = mesh.stations[1].node.peers(mesh.now).next().unwrap().state;
        assert_eq!(state == PeerState::Unresponsive, away > SECOND, "{away:?}");
        mesh.hear(0, 1);
        assert_eq!(mesh.pairs_without_data(&[(0, 1), (1, 0)], SECOND * 3), []);
        assert_eq!(label(&mesh), before);
    }
}

#[test]
fn beacons_introduce_neighbours_and_tell_of_a_new_beginning() {
    let habits = Habits {
        beacons: Beacons::Send,
        ..Habits::default()
    };
    for seed in 0..5 {
        let mut mesh = Mesh::new(3, seed, habits.clone());
        mesh.hear(0, 1);
        mesh.hear(1, 2);
        let pairs = mesh.all_pairs();
        assert_eq!(mesh.pairs_without_data(&pairs, SECOND * 10), []);
        mesh.run(SECOND * 2);
        let outage = mesh.outage((0, 2), SECOND * 10, |mesh| mesh.restart(1));
        println!("a relay found by beacons begins again: {outage:?}");
        assert!(outage < SECOND * 2, "{outage:?}");
    }
}

#[test]
fn nobody_comes_in_by_beacons_where_they_are_off() {
    let mut mesh = Mesh::new(2, 1, Habits::default());
    mesh.hear(0, 1);
    let now = mesh.now;
    let station = &mut mesh.stations[0];
    let interface = station.interface;
    assert!(station
        .node
        .set_beacons(now, &mut mesh.random, interface, Beacons::Send));
    mesh.run(SECOND * 10);
    assert_eq!(mesh.stations[1].node.peers(mesh.now).count(), 0);
    assert!(
        mesh.stations[1]
            .node
            .counters()
            .dropped(overlay_node::Cause::Beacon)
            > 3
    );
}

#[test]
fn noise_protects_links_when_both_want_it() {
    let mesh = talking(Mesh::line(2, 1, noisy()), (0, 1));
    for station in &mesh.stations {
        let peer = station.node.peers(mesh.now).next().unwrap();
        assert_eq!(peer.link, Link::Noise);
    }
    // Keys are renewed after 120 s and rejected after 180 s.
    let mut mesh = mesh;
    let lost = mesh.outage((0, 1), SECOND * 400, |_| {});
    assert!(lost < SECOND / 10, "{lost:?}");
    let peer = mesh.stations[1].node.peers(mesh.now).next().unwrap();
    assert_eq!(peer.link, Link::Noise);
}

/// Returns the result of a ping, as reported to the first station.
fn result(mesh: &Mesh, id: Option<PingId>) -> Option<PingResult> {
    let mut events = mesh.stations[0].events.iter();
    events.find_map(|(_, event)| match event {
        Event::Pinged { id: ended, result } if Some(*ended) == id => Some(result.clone()),
        _ => None,
    })
}

#[test]
fn pings_tell_who_is_where() {
    let mut mesh = talking(Mesh::line(3, 1, Habits::default()), (0, 2));
    let (now, far) = (mesh.now, mesh.address(2));
    let node = &mut mesh.stations[0].node;
    let way = node.store().get(far).unwrap().ways()[0].label;
    let near = node.peers(now).next().unwrap().label.unwrap();
    let asked = [
        node.ping_switch(now, way, Question::Presence),
        node.ping_switch(now, way, Question::Key),
        node.ping_switch(now, Label::SELF, Question::Key),
        node.ping_node(now, far, None),
        node.ping_switch(now, way, Question::Supernode),
        node.ping_switch(now, near, Question::Supernode),
        node.ping_switch(now, Label(0x1f), Question::Presence),
    ];
    let link = node.ping_switch(now, near, Question::Link);
    let far_link = node.ping_switch(now, way, Question::Link);
    let back = [near, way].map(|label| node.ping_switch(now, label, Question::WayBack));
    mesh.stations[0].events.clear();
    mesh.flush(0);
    mesh.run(SECOND * 30);
    let results = asked.map(|id| match result(&mesh, id).unwrap() {
        PingResult::Answered {
            version: 22,
            report,
            ..
        } => Some(report),
        PingResult::Refused(_) => None,
        other => panic!("{other:?}"),
    });
    let (own, far) = (mesh.key(0), mesh.key(2));
    assert_eq!(
        results,
        [
            Some(Report::Presence),
            Some(Report::Key(far)),
            Some(Report::Key(own)),
            Some(Report::Key(far)),
            Some(Report::Supernode(None)),
            Some(Report::Supernode(None)),
            None
        ]
    );
    for (station, id) in [1, 2].into_iter().zip(back) {
        let Some(PingResult::Answered {
            report: Report::WayBack(label),
            ..
        }) = result(&mesh, id)
        else {
            panic!("{:?}", result(&mesh, id));
        };
        // The label leads to that node.
        let (now, own) = (mesh.now, mesh.key(0));
        let node = &mut mesh.stations[station].node;
        let id = node.ping_switch(now, label, Question::Key);
        mesh.flush(station);
        mesh.run(SECOND);
        let report = mesh.stations[station].events.iter().any(|(_, event)| {
            matches!(event, Event::Pinged { id: ended, result: PingResult::Answered { report, .. } }
                if Some(*ended) == id && *report == Report::Key(own))
        });
        assert!(report, "{station}: {label}");
    }
    assert!(matches!(
        result(&mesh, link),
        Some(PingResult::Answered {
            report: Report::Link(_),
            ..
        })
    ));
    // Only neighbours get an answer.
    assert_eq!(result(&mesh, far_link), Some(PingResult::TimedOut));
}

#[test]
fn what_other_nodes_know_can_be_asked() {
    let mut mesh = talking(Mesh::line(3, 1, Habits::default()), (0, 2));
    let (now, near, far) = (mesh.now, mesh.key(1), mesh.key(2));
    let node = &mut mesh.stations[0].node;
    let neighbour = node.peers(now).next().unwrap();
    let to = Contact {
        key: near,
        path: neighbour.label.unwrap(),
        version: 22,
    };
    let queries = [
        Query::Peers(Label(0)),
        Query::Find(far.address()),
        Query::NextHop(far.address()),
    ];
    let asked = queries.map(|query| node.ask_node(now, to, query).unwrap());
    let stranger = Contact {
        key: far,
        path: Label(0x1f),
        version: 22,
    };
    let nobody = node
        .ask_node(now, stranger, Query::Peers(Label(0)))
        .unwrap();
    mesh.flush(0);
    mesh.run(SECOND * 5);
    for id in asked {
        let Some(PingResult::Replied(reply)) = result(&mesh, Some(id)) else {
            panic!("{:?}", result(&mesh, Some(id)));
        };
        assert_eq!((reply.from.key, reply.from.version), (near, 22));
        let report = reply.contacts.iter().find(|contact| contact.key == far);
        let way = report.unwrap().path.after(to.path).unwrap();
        assert!(mesh.stations[0]
            .node
            .store()
            .get(far.address())
            .unwrap()
            .way(way)
            .is_some());
    }
    assert_eq!(result(&mesh, Some(nobody)), Some(PingResult::TimedOut));
}

#[test]
fn neighbours_by_beacons_that_are_both_elsewhere_after_a_while_find_each_other() {
    for seed in 0..8 {
        let habits = Habits {
            beacons: Beacons::Send,
            ..Habits::default()
        };
        let mut mesh = Mesh::new(2, seed, habits);
        // The second connects to the first, which receives its beacon only then.
        let (now, interface) = (mesh.now, mesh.stations[1].interface);
        let second = &mut mesh.stations[1].node;
        second.set_beacons(now, &mut mesh.random, interface, Beacons::Accept);
        mesh.hear(0, 1);
        assert_eq!(mesh.pairs_without_data(&[(0, 1)], SECOND * 5), []);
        let now = mesh.now;
        let second = &mut mesh.stations[1].node;
        second.set_beacons(now, &mut mesh.random, interface, Beacons::Send);
        mesh.run(SECOND * 3);
        mesh.unhear(0, 1);
        mesh.run(SECOND * 8);
        mesh.relocate(0);
        mesh.relocate(1);
        mesh.hear(0, 1);
        let pairs = [(0, 1), (1, 0)];
        assert_eq!(mesh.pairs_without_data(&pairs, SECOND * 15), [], "{seed}");
    }
}
