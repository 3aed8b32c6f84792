//! What a finder answers, and how it handles answers.

#[path = "support/network.rs"]
#[allow(dead_code, reason = "only keys are needed here")]
mod network;

use cryptoauth::Address;
use fastrand::Rng;
use network::node_key;
use overlay::{
    Body, Contact, Dropped, Finder, Limits, Message, MessageError, Query, Time, Txid,
    NODES_PER_REPLY,
};
use switch::{decompress, peer_label, Form, Interface, Label, Scheme};

const NOW: Time = Time::from_secs(5);

struct Asked {
    finder: Finder,
    own: Contact,
    random: Rng,
}

impl Asked {
    fn new() -> Self {
        let mut random = Rng::with_seed(7);
        let own = Contact {
            key: node_key(&mut random),
            path: Label::SELF,
            version: 22,
        };
        let finder = Finder::new(own.key, Limits::default(), NOW, 1);
        Self {
            finder,
            own,
            random,
        }
    }

    /// Returns a neighbour behind this interface.
    fn peer(&mut self, interface: u16) -> Contact {
        let path = peer_label(Interface::new(interface).unwrap());
        let peer = Contact {
            key: node_key(&mut self.random),
            path,
            version: 22,
        };
        self.finder.peer_up(NOW, peer);
        peer
    }

    fn deliver(&mut self, from: Contact, body: Body, txid: Txid) {
        let message = Message {
            version: 22,
            scheme: Scheme::V3X5X8,
            form: 0,
            txid,
            body,
        };
        // Messages without effect are counted.
        let _ = self.finder.handle_message(NOW, from, &message.encode());
    }

    /// Returns the messages sent since the last call, with their receivers.
    fn sent(&mut self) -> Vec<(Contact, Message)> {
        let sent = std::iter::from_fn(|| self.finder.poll_transmit());
        sent.map(|sent| (sent.to, Message::decode(&sent.payload).unwrap()))
            .collect()
    }

    /// Returns the answer to a query.
    fn ask(&mut self, from: Contact, query: Query) -> (Contact, Message) {
        self.sent();
        self.deliver(from, Body::Query(query), Txid::new(b"anything").unwrap());
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1);
        sent.remove(0)
    }

    fn contacts(&mut self, from: Contact, query: Query) -> Vec<Contact> {
        match self.ask(from, query).1.body {
            Body::Reply(contacts) => contacts,
            Body::Query(query) => panic!("no reply: {query:?}"),
        }
    }
}

#[test]
fn a_ping_is_answered_by_the_way_that_it_came() {
    let mut asked = Asked::new();
    let peer = asked.peer(40);
    let (to, answer) = asked.ask(peer, Query::Ping);
    assert_eq!(to, peer);
    assert_eq!(answer.txid.octets(), b"anything");
    assert_eq!(
        (answer.version, answer.scheme, answer.body),
        (22, Scheme::V3X5X8, Body::Reply(Vec::new()))
    );
    assert_eq!(
        answer.form,
        Form::Long.index(),
        "the form of the asker's interface"
    );
}

#[test]
fn the_last_question_of_a_search_is_answered_without_nodes_and_its_asker_is_known() {
    let mut asked = Asked::new();
    asked.peer(0);
    let far = Contact {
        key: node_key(&mut asked.random),
        path: Label(0x153),
        version: 22,
    };
    let own = asked.own.key.address();
    let (to, answer) = asked.ask(far, Query::Found(own));
    assert_eq!((to, answer.body), (far, Body::Reply(Vec::new())));
    let known = asked.finder.store().get(far.key.address()).unwrap();
    assert_eq!(known.ways()[0].label, far.path);
}

#[test]
fn neighbours_are_told_page_by_page() {
    let mut asked = Asked::new();
    let peers: Vec<_> = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        .map(|interface| asked.peer(interface))
        .into();
    let first = asked.contacts(peers[0], Query::Peers(Label::SELF));
    assert_eq!(first.len(), NODES_PER_REPLY);
    assert_eq!(
        first.last(),
        Some(&asked.own),
        "this node itself, with the label 1"
    );
    assert_eq!(
        first[..7].iter().rev().collect::<Vec<_>>(),
        peers[..7].iter().collect::<Vec<_>>()
    );
    let second = asked.contacts(peers[0], Query::Peers(peers[6].path));
    assert_eq!(
        second.iter().rev().collect::<Vec<_>>(),
        peers[6..].iter().collect::<Vec<_>>()
    );
    assert_eq!(asked.contacts(peers[0], Query::Peers(Label(0x7fc))), []);
}

#[test]
fn a_node_consults_itself_with_labels_that_begin_there() {
    let mut asked = Asked::new();
    let (near, far) = (asked.peer(2), asked.peer(40));
    let peers = asked.finder.consult(Query::Peers(Label(0)));
    assert_eq!(peers, [asked.own, near, far], "itself before all");
    assert_eq!(
        asked.finder.consult(Query::NextHop(far.key.address())),
        [far]
    );
    let found = asked.finder.consult(Query::Find(near.key.address()));
    assert_eq!(found, [near, far], "the nearest first");
}

#[test]
fn labels_leave_room_for_the_way_back_to_the_asker() {
    let mut asked = Asked::new();
    let (near, far) = (asked.peer(2), asked.peer(40));
    let reported = asked.contacts(far, Query::Find(near.key.address()));
    assert_eq!(reported.len(), 1);
    assert_eq!(
        (
            reported[0].key,
            decompress(reported[0].path),
            Form::of_label(reported[0].path)
        ),
        (near.key, Interface::new(2).unwrap(), Form::Long)
    );
}

#[test]
fn the_asker_is_not_told_of_himself_nor_of_what_is_behind_him() {
    let mut asked = Asked::new();
    let (peer, other) = (asked.peer(0), asked.peer(2));
    let target = Address::from_octets([0xfc; 16]);
    assert_eq!(asked.contacts(peer, Query::Find(target)), [other]);
    assert_eq!(asked.contacts(peer, Query::NextHop(target)), [other]);
}

#[test]
fn an_answer_that_nobody_asked_for_proves_nothing() {
    let mut asked = Asked::new();
    let peer = asked.peer(0);
    asked.sent();
    let stranger = Contact {
        key: node_key(&mut asked.random),
        path: Label(0x153),
        version: 22,
    };
    let lie = Contact {
        key: node_key(&mut asked.random),
        path: Label(0x15),
        version: 22,
    };
    asked.deliver(
        stranger,
        Body::Reply(vec![lie]),
        Txid::new(&[0; 8]).unwrap(),
    );
    assert_eq!(asked.finder.counters().unexpected, 1);
    assert_eq!(asked.finder.way(stranger.key.address()), None);
    assert!(asked.finder.store().get(lie.key.address()).is_none());
    assert_eq!(asked.finder.way(peer.key.address()), Some(peer));
}

#[test]
fn another_node_cannot_answer() {
    let mut asked = Asked::new();
    let (peer, other) = (asked.peer(0), asked.peer(2));
    let questions = asked.sent();
    let (_, question) = questions.iter().find(|(to, _)| *to == peer).unwrap();
    let lie = Contact {
        key: node_key(&mut asked.random),
        path: Label(0x15),
        version: 22,
    };
    asked.deliver(other, Body::Reply(vec![lie]), question.txid);
    assert_eq!(asked.finder.counters().unexpected, 1);
    asked.deliver(peer, Body::Reply(vec![lie]), question.txid);
    let reported = asked.finder.store().get(lie.key.address()).unwrap();
    assert_eq!(
        reported.ways()[0].label,
        Label(0x15).after(peer.path).unwrap()
    );
    assert_eq!(reported.proved(), None, "it is only reported");
    asked.deliver(peer, Body::Reply(Vec::new()), question.txid);
    assert_eq!(
        asked.finder.counters().unexpected,
        2,
        "the second answer to one question"
    );
}

#[test]
fn what_is_malformed_or_too_old_is_counted() {
    let mut asked = Asked::new();
    let peer = asked.peer(0);
    asked.sent();
    let reported = asked.finder.handle_message(NOW, peer, b"d");
    assert!(matches!(reported, Err(Dropped::Malformed(_))));
    let bomb = asked.finder.handle_message(NOW, peer, &[b'l'; 20]);
    assert!(
        matches!(bomb, Err(Dropped::Malformed(MessageError::Bencode(error))) if error.is_bomb())
    );
    let txid = Txid::new(b"x").unwrap();
    let old = Message {
        version: 19,
        scheme: Scheme::V3X5X8,
        form: 0,
        txid,
        body: Body::Query(Query::Ping),
    };
    let reported = asked.finder.handle_message(NOW, peer, &old.encode());
    assert_eq!(reported, Err(Dropped::Incompatible(19)));
    let counters = asked.finder.counters();
    assert_eq!((counters.malformed, counters.incompatible), (2, 1));
    assert!(asked.sent().is_empty());
}
