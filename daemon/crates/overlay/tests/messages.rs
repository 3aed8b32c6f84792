//! DHT messages: recorded ones, each field, and refusals.

mod support;

use cryptoauth::{Address, PublicKey};
use overlay::bencode::Value;
use overlay::{Body, Contact, Message, MessageError, Query, Txid, MAX_NODES, MAX_TXID};
use proptest::prelude::*;
use support::{hex, recorded};
use switch::{Label, Scheme, SchemeError};

fn message(body: Body) -> Message {
    let txid = Txid::new(b"00abcdefghijkl").unwrap();
    Message {
        version: 22,
        scheme: Scheme::V3X5X8,
        form: 0,
        txid,
        body,
    }
}

fn contact(number: u8, version: u32) -> Contact {
    Contact {
        key: PublicKey::from_octets([number; 32]),
        path: Label(0x13),
        version,
    }
}

/// Returns a message in which these fields replace the usual ones.
fn fields(changed: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        ("ei", "i0e"),
        ("es", "5:a\x14E\u{81}\0"),
        ("p", "i22e"),
        ("q", "2:pn"),
        ("txid", "1:x"),
    ];
    let mut all: std::collections::BTreeMap<_, _> = usual.into_iter().collect();
    all.extend(changed.iter().copied());
    let entries = all.iter().filter(|(_, value)| !value.is_empty());
    let entries = entries.map(|(key, value)| format!("{}:{key}{value}", key.len()));
    // Each character is an octet.
    format!("d{}e", entries.collect::<String>())
        .chars()
        .map(|octet| octet as u8)
        .collect()
}

#[test]
fn recorded_messages_are_read_and_mean_the_same_when_written() {
    let mut kinds = [0; 5];
    for octets in recorded("messages.hex") {
        let message = Message::decode(&octets).unwrap();
        assert_eq!(
            (message.version, message.form, message.scheme),
            (22, 0, Scheme::V3X5X8)
        );
        assert_eq!(message.txid.octets().len(), 14);
        kinds[match &message.body {
            Body::Query(Query::Ping) => 0,
            Body::Query(Query::Peers(_) | Query::Found(_)) => 1,
            Body::Query(Query::Find(_) | Query::NextHop(_)) => 2,
            Body::Reply(contacts) if contacts.is_empty() => 3,
            Body::Reply(_) => 4,
        }] += 1;
        let written = message.encode();
        assert_eq!(
            Value::decode(&written),
            Value::decode(&octets),
            "but for the zeros, the same octets"
        );
    }
    assert_eq!(kinds, [7, 12, 0, 11, 8]);
}

#[test]
fn a_recorded_answer_names_the_answerer_and_his_neighbour() {
    let answers = recorded("messages.hex")
        .into_iter()
        .map(|octets| Message::decode(&octets).unwrap().body);
    let both = answers.filter_map(|body| match body {
        Body::Reply(contacts) if contacts.len() == 2 => Some(contacts),
        _ => None,
    });
    let both: Vec<_> = both.collect();
    assert_eq!(both.len(), 2);
    for contacts in both {
        assert_eq!(
            [contacts[0].path, contacts[1].path],
            [Label(0x13), Label::SELF]
        );
        assert!(contacts
            .iter()
            .all(|contact| contact.version == 22 && contact.key.node_address().is_ok()));
    }
}

#[test]
fn each_query_on_the_wire() {
    let address = Address::from_octets([0xfc; 16]);
    let queries = [
        (Query::Ping, "1:q2:pn4:txid".into()),
        (
            Query::Peers(Label(0x41)),
            "1:q2:gp3:tar8:\0\0\0\0\0\0\0A4:txid".into(),
        ),
        (
            Query::Found(address),
            format!("1:q2:gp3:tar16:{}4:txid", "\u{fc}".repeat(16)),
        ),
        (
            Query::Find(address),
            format!("1:q2:fn3:tar16:{}4:txid", "\u{fc}".repeat(16)),
        ),
        (
            Query::NextHop(address),
            format!("1:q2:nh3:tar16:{}4:txid", "\u{fc}".repeat(16)),
        ),
    ];
    for (query, part) in queries {
        let sent = message(Body::Query(query));
        let octets = sent.encode();
        let part: Vec<u8> = part.chars().map(|octet| octet as u8).collect();
        assert!(
            octets.windows(part.len()).any(|window| window == part),
            "{}",
            octets.escape_ascii()
        );
        assert_eq!(Message::decode(&octets), Ok(sent));
    }
}

#[test]
fn versions_take_as_many_octets_as_they_need() {
    for versions in [[22, 0xfe], [22, 0xff], [22, u32::MAX]] {
        let contacts = versions.map(|version| contact(1, version)).to_vec();
        let sent = message(Body::Reply(contacts));
        assert_eq!(Message::decode(&sent.encode()), Ok(sent));
    }
    let mut two_octets = message(Body::Reply(vec![contact(1, 22)])).encode();
    let at = two_octets
        .windows(8)
        .position(|window| window == b"2:np2:\x01\x16")
        .unwrap();
    two_octets.splice(at..at + 8, *b"2:np3:\x02\x01\x16");
    let Ok(Message {
        body: Body::Reply(contacts),
        ..
    }) = Message::decode(&two_octets)
    else {
        panic!("no reply");
    };
    assert_eq!(contacts, [contact(1, 0x116)]);
}

#[test]
fn what_is_refused() {
    let refused = |changed: &[(&str, &str)]| Message::decode(&fields(changed)).map(|_| ());
    assert_eq!(refused(&[]), Ok(()));
    assert_eq!(Message::decode(b"i1e"), Err(MessageError::NoDictionary));
    assert!(matches!(
        Message::decode(b"d"),
        Err(MessageError::Bencode(_))
    ));
    for key in ["ei", "es", "p", "txid"] {
        assert_eq!(refused(&[(key, "")]), Err(MessageError::Key(key)));
        assert_eq!(refused(&[(key, "le")]), Err(MessageError::Key(key)));
    }
    assert_eq!(refused(&[("ei", "i2e")]), Ok(()));
    assert_eq!(refused(&[("ei", "i3e")]), Err(MessageError::Key("ei")));
    assert_eq!(refused(&[("p", "i-1e")]), Err(MessageError::Key("p")));
    assert_eq!(
        refused(&[("p", "i4294967296e")]),
        Err(MessageError::Key("p"))
    );
    assert_eq!(
        refused(&[("es", "1:a")]),
        Err(MessageError::Scheme(SchemeError::Length(1)))
    );
    assert_eq!(refused(&[("txid", "0:")]), Err(MessageError::Key("txid")));
    let txid = |length: usize| format!("{length}:{}", "x".repeat(length));
    assert_eq!(refused(&[("txid", &txid(MAX_TXID))]), Ok(()));
    assert_eq!(
        refused(&[("txid", &txid(MAX_TXID + 1))]),
        Err(MessageError::Key("txid"))
    );
    assert_eq!(refused(&[("q", "i1e")]), Err(MessageError::Key("q")));
    assert_eq!(refused(&[("q", "2:xx")]), Err(MessageError::Query));
    for (query, right, wrong) in [
        ("2:gp", 8, 7),
        ("2:gp", 16, 17),
        ("2:fn", 16, 8),
        ("2:nh", 16, 17),
    ] {
        let target = |length: usize| format!("{length}:{}", "x".repeat(length));
        assert_eq!(refused(&[("q", query)]), Err(MessageError::Key("tar")));
        assert_eq!(
            refused(&[("q", query), ("tar", &target(wrong))]),
            Err(MessageError::Key("tar"))
        );
        assert_eq!(refused(&[("q", query), ("tar", &target(right))]), Ok(()));
    }
}

#[test]
fn nodes_that_are_refused() {
    let refused = |nodes: usize, versions: &str| {
        let nodes = format!("{nodes}:{}", "x".repeat(nodes));
        Message::decode(&fields(&[("q", ""), ("n", &nodes), ("np", versions)])).map(|_| ())
    };
    assert_eq!(refused(40, "2:\u{1}\u{16}"), Ok(()));
    assert_eq!(refused(39, "2:\u{1}\u{16}"), Err(MessageError::Key("n")));
    for versions in [
        "",
        "0:",
        "1:\u{1}",
        "3:\u{1}\u{16}\u{16}",
        "2:\u{0}\u{16}",
        "6:\u{5}\0\0\0\0\u{16}",
    ] {
        assert_eq!(
            refused(40, versions),
            Err(MessageError::Key("np")),
            "{versions:?}"
        );
    }
    let versions = |count: usize| format!("{}:\u{1}{}", count + 1, "\u{16}".repeat(count));
    assert_eq!(refused(40 * MAX_NODES, &versions(MAX_NODES)), Ok(()));
    assert_eq!(
        refused(40 * (MAX_NODES + 1), &versions(MAX_NODES + 1)),
        Err(MessageError::Key("n"))
    );
}

#[test]
fn a_message_as_another_implementation_pads_it() {
    let padded = b"d00000002:eii0e2:es5:a\x14E\x81\x001:pi22e1:q2:pn4:txid14:01\xc6\x9a\xd5\xab\xeaj?(C\x8b\xe4Te";
    let message = Message::decode(padded).unwrap();
    assert_eq!(message.body, Body::Query(Query::Ping));
    assert_eq!(
        format!("{:?}", message.txid),
        "3031c69ad5abea6a3f28438be454"
    );
    assert_eq!(message.txid.octets(), hex("3031c69ad5abea6a3f28438be454"));
}

fn body() -> impl Strategy<Value = Body> {
    let address = || any::<[u8; 16]>().prop_map(Address::from_octets);
    let contact = (
        any::<[u8; 32]>(),
        any::<u64>(),
        prop_oneof![9 => 20..24_u32, 1 => any::<u32>()],
    );
    let contact = contact.prop_map(|(key, label, version)| Contact {
        key: PublicKey::from_octets(key),
        path: Label(label),
        version,
    });
    prop_oneof![
        Just(Body::Query(Query::Ping)),
        any::<u64>().prop_map(|label| Body::Query(Query::Peers(Label(label)))),
        address().prop_map(|address| Body::Query(Query::Found(address))),
        address().prop_map(|address| Body::Query(Query::Find(address))),
        address().prop_map(|address| Body::Query(Query::NextHop(address))),
        prop::collection::vec(contact, 0..=MAX_NODES).prop_map(Body::Reply),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_the_same(body in body(), version in any::<u32>(), form in 0..3_u8, txid in prop::collection::vec(any::<u8>(), 1..=MAX_TXID)) {
        let sent = Message { version, form, txid: Txid::new(&txid).unwrap(), ..message(body) };
        prop_assert_eq!(Message::decode(&sent.encode()), Ok(sent));
    }

    #[test]
    fn changed_octets_are_survived(which in 0..38_usize, at in any::<prop::sample::Index>(), octet in any::<u8>()) {
        let mut octets = recorded("messages.hex").swap_remove(which);
        let at = at.index(octets.len());
        octets[at] = octet;
        if let Ok(message) = Message::decode(&octets) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}
