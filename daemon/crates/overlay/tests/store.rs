//! The store: what it accepts, in which order it keeps paths, and that nobody can flood it.

#[path = "support/network.rs"]
#[allow(dead_code, reason = "only keys are needed here")]
mod network;

use std::time::Duration;

use cryptoauth::{Address, PublicKey};
use fastrand::Rng;
use network::node_key;
use overlay::{distance, Contact, Limits, Store, Time, FORGET_AFTER};
use switch::Label;

const NOW: Time = Time::from_secs(5);
const MILLISECOND: Duration = Duration::from_millis(1);

struct Keys(Rng);

impl Keys {
    fn contact(&mut self, path: u64) -> Contact {
        Contact {
            key: node_key(&mut self.0),
            path: Label(path),
            version: 22,
        }
    }
}

fn store(limits: Limits) -> (Store, Keys, Contact) {
    let mut keys = Keys(Rng::with_seed(1));
    let own = keys.contact(1);
    (Store::new(own.key.address(), limits), keys, own)
}

fn labels(store: &Store, address: Address) -> Vec<u64> {
    let ways = store
        .get(address)
        .map(|node| node.ways())
        .unwrap_or_default();
    ways.iter().map(|way| way.label.0).collect()
}

#[test]
fn what_is_of_no_use_is_not_taken_in() {
    let (mut store, mut keys, own) = store(Limits::default());
    let contact = keys.contact(0x13);
    let stranger = PublicKey::from_octets([1; 32]);
    assert!(stranger.node_address().is_err());
    let useless = [
        Contact {
            path: Label(0x13),
            ..own
        },
        Contact {
            key: stranger,
            ..contact
        },
        Contact {
            path: Label(0),
            ..contact
        },
        Contact {
            path: Label::SELF,
            ..contact
        },
        Contact {
            path: Label(1 << 63),
            ..contact
        },
        Contact {
            version: 19,
            ..contact
        },
    ];
    assert_eq!(useless.map(|contact| store.learn(NOW, contact)), [None; 6]);
    assert!(store.is_empty());
    assert_eq!(store.learn(NOW, contact), Some(contact.key.address()));
    assert_eq!(store.len(), 1);
}

#[test]
fn proved_ways_before_told_ones_and_a_change_has_to_pay() {
    let (mut store, mut keys, _) = store(Limits::default());
    let contact = keys.contact(0x13);
    let address = contact.key.address();
    for path in [0x15_3357, 0x1557, 0x1357] {
        store.learn(
            NOW,
            Contact {
                path: Label(path),
                ..contact
            },
        );
    }
    assert_eq!(
        labels(&store, address),
        [0x1357, 0x1557, 0x15_3357],
        "shorter ones first"
    );
    assert_eq!(store.get(address).unwrap().proved(), None);
    store.prove(NOW, address, Label(0x15_3357), MILLISECOND * 40);
    assert_eq!(labels(&store, address), [0x15_3357, 0x1357, 0x1557]);
    store.prove(NOW, address, Label(0x1357), MILLISECOND * 38);
    assert_eq!(labels(&store, address)[0], 0x15_3357, "little is gained");
    store.prove(NOW, address, Label(0x1557), MILLISECOND * 10);
    assert_eq!(labels(&store, address)[..2], [0x1557, 0x1357]);
    assert_eq!(
        store.get(address).unwrap().proved().unwrap().path,
        Label(0x1557)
    );
}

#[test]
fn a_way_that_misses_answers_ranks_behind_and_goes() {
    let (mut store, mut keys, _) = store(Limits::default());
    let contact = keys.contact(0x13);
    let address = contact.key.address();
    for path in [0x13, 0x1557] {
        store.learn(
            NOW,
            Contact {
                path: Label(path),
                ..contact
            },
        );
        store.prove(NOW, address, Label(path), MILLISECOND * path as u32);
    }
    store.miss(address, Label(0x13), 2);
    assert_eq!(labels(&store, address), [0x1557, 0x13]);
    store.prove(NOW, address, Label(0x13), MILLISECOND);
    store.miss(address, Label(0x13), 2);
    assert_eq!(
        labels(&store, address).len(),
        2,
        "an answer in between: not in a row"
    );
    store.miss(address, Label(0x13), 2);
    assert_eq!(labels(&store, address), [0x1557]);
    store.miss(address, Label(0x1557), 1);
    assert!(store.get(address).is_none(), "no way, no node");
}

#[test]
fn ways_through_a_lost_neighbour_go() {
    let (mut store, mut keys, _) = store(Limits::default());
    let [neighbour, behind, elsewhere] = [0x13, 0x153, 0x157].map(|path| keys.contact(path));
    for contact in [neighbour, behind, elsewhere] {
        store.learn(NOW, contact);
    }
    store.learn(
        NOW,
        Contact {
            path: Label(0x1357),
            ..behind
        },
    );
    store.cut(Label(0x13));
    assert!(store.get(neighbour.key.address()).is_none());
    assert_eq!(labels(&store, behind.key.address()), [0x1357]);
    assert_eq!(labels(&store, elsewhere.key.address()), [0x157]);
}

#[test]
fn a_detour_over_the_node_itself_is_no_way() {
    let (mut store, mut keys, _) = store(Limits {
        ways: 2,
        ..Limits::default()
    });
    let contact = keys.contact(0x153);
    let address = contact.key.address();
    let over = Label(0x1337).after(contact.path).unwrap();
    for path in [
        contact.path,
        over,
        Label(0x1_5577),
        Label(0x1577),
        Label(0x1757),
    ] {
        store.learn(NOW, Contact { path, ..contact });
    }
    assert_eq!(
        labels(&store, address),
        [0x153, 0x1577],
        "two at most, the shorter ones"
    );
}

#[test]
fn limits_of_zero_keep_one() {
    let (mut store, mut keys, _) = store(Limits { nodes: 0, ways: 0 });
    for path in [0x13, 0x15] {
        let contact = keys.contact(path);
        store.learn(NOW, contact);
        assert_eq!(
            (store.len(), labels(&store, contact.key.address())),
            (1, vec![path])
        );
    }
}

#[test]
fn what_is_not_heard_of_again_is_forgotten() {
    let (mut store, mut keys, _) = store(Limits::default());
    let (one, other) = (keys.contact(0x13), keys.contact(0x15));
    store.learn(NOW, one);
    store.learn(NOW, other);
    store.prove(
        NOW + MILLISECOND,
        other.key.address(),
        other.path,
        MILLISECOND,
    );
    store.expire(NOW + FORGET_AFTER);
    assert!(store.get(one.key.address()).is_none() && store.get(other.key.address()).is_some());
}

#[test]
fn who_tells_of_nodes_that_do_not_exist_pushes_out_nothing_proved() {
    let (mut store, mut keys, _) = store(Limits {
        nodes: 8,
        ..Limits::default()
    });
    let proved: Vec<_> = (0..4)
        .map(|number| keys.contact(0x1333 + (number << 8)))
        .collect();
    for contact in &proved {
        store.learn(Time::ZERO, *contact);
        store.prove(Time::ZERO, contact.key.address(), contact.path, MILLISECOND);
    }
    for _ in 0..100 {
        store.learn(NOW, keys.contact(0x155));
    }
    assert_eq!(store.len(), 8);
    assert!(proved
        .iter()
        .all(|contact| store.get(contact.key.address()).is_some()));
    let neighbour = keys.contact(0x17);
    store.learn(Time::ZERO, neighbour);
    store.prove(
        Time::ZERO,
        neighbour.key.address(),
        neighbour.path,
        MILLISECOND,
    );
    for _ in 0..20 {
        let contact = keys.contact(0x155);
        store.learn(NOW, contact);
        store.prove(NOW, contact.key.address(), contact.path, MILLISECOND);
    }
    assert_eq!(store.len(), 8);
    assert!(
        store.get(neighbour.key.address()).is_some(),
        "a neighbour stays"
    );
}

#[test]
fn distance_weighs_the_last_octets_most() {
    let address = |octets: [u8; 16]| Address::from_octets(octets);
    let (mut first, mut last) = ([0xfc; 16], [0xfc; 16]);
    first[1] ^= 0xff;
    last[8] ^= 1;
    let target = address([0xfc; 16]);
    assert!(distance(address(first), target) < distance(address(last), target));
    assert_eq!(distance(target, target), 0);
}

#[test]
fn the_nearest_of_the_proved_ones() {
    let (mut store, mut keys, _) = store(Limits::default());
    let contacts: Vec<_> = (0..30)
        .map(|number| keys.contact(0x1003 + (number << 4)))
        .collect();
    for contact in &contacts {
        store.learn(NOW, *contact);
        store.prove(NOW, contact.key.address(), contact.path, MILLISECOND);
    }
    let target = keys.contact(0x13);
    store.learn(NOW, target);
    let address = target.key.address();
    let mut expected = contacts.clone();
    expected.sort_by_key(|contact| distance(contact.key.address(), address));
    assert_eq!(
        store.nearest(address, 8, |_| true),
        expected[..8],
        "the target itself is not proved"
    );
    assert_eq!(store.nearest(address, 100, |_| true), expected);
    let not_the_first = store.nearest(address, 1, |contact| *contact != expected[0]);
    assert_eq!(not_the_first, expected[1..2]);
}
