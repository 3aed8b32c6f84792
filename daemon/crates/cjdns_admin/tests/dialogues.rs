//! What was recorded from a cjdns router: the same requests get the same answers, to the octet where they are fixed.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use cjdns_admin::{Control, Now, Outcome, Password, Pong, Server};
use overlay::bencode::{Dictionary, Value};
use overlay::{Contact, Query};
use support::{a, b, c, caller, dialogues, vectors, Asked, Recorded, NOW};
use switch::{Label, Scheme};

/// Functions that mean nothing here: they are answered as unknown.
const ELSEWHERE: &[&str] = &[
    "Core_initTunnel",
    "Core_tunWorkers",
    "RouteGen_getPrefixes",
    "Security_setupComplete",
    "SupernodeHunter_listSnodes",
    "SupernodeHunter_status",
    "UDPInterface_new",
    "UDPInterface_workerStates",
];

/// Answers that are not compared to the octet: why is in the tests that compare them.
const OTHERWISE: &[&str] = &[
    "Admin_availableFunctions",
    "InterfaceController_peerStats",
    "NodeStore_dumpTable",
    "NodeStore_nodeForAddr_self",
];

fn server() -> Server {
    Server::new(Some(Password::new(b"NONE").unwrap()))
}

/// The answer to a recorded request, with what other nodes answered then.
fn answer(request: &str, name: &str) -> String {
    let (mut server, mut router) = (server(), Recorded::default());
    let request = request.as_bytes();
    let octets = match server.handle(NOW, caller(1), request, &mut router) {
        Some(octets) => octets,
        None => {
            let (ticket, _) = router.asked.pop().unwrap();
            let (outcome, elapsed) = outcome(name);
            let then = Now {
                monotonic: NOW.monotonic + Duration::from_millis(elapsed),
                ..NOW
            };
            server.complete(then, ticket, &outcome, &mut router);
            let (to, octets) = server.poll_transmit().unwrap();
            assert_eq!(to, caller(1));
            octets
        }
    };
    String::from_utf8(octets).unwrap()
}

fn outcome(name: &str) -> (Outcome, u64) {
    let reply = |nodes: &[Contact]| Outcome::Reply {
        version: 22,
        scheme: Scheme::V3X5X8,
        nodes: nodes.to_vec(),
    };
    let by = |contact: Contact, path| Contact {
        path: Label(path),
        ..contact
    };
    let own = Contact {
        key: a(),
        path: Label(0x15),
        version: 22,
    };
    let pong = Pong {
        version: 22,
        ..Pong::default()
    };
    match name {
        "SwitchPinger_ping" => (Outcome::Pong(pong), 5),
        "SwitchPinger_keyping" => {
            let key = Some(b().key);
            (Outcome::Pong(Pong { key, ..pong }), 3)
        }
        "RouterModule_pingNode" => (reply(&[]), 7),
        "SearchRunner_search" => (reply(&[]), 8),
        "RouterModule_findNode" => (reply(&[by(c(), 0x13), own]), 6),
        "RouterModule_getPeers" => (reply(&[by(b(), 1), by(c(), 0x13), own]), 8),
        other => panic!("{other} asks no other node"),
    }
}

/// A dialogue's name without the node and the number that tell it from others with the same function.
fn function(name: &str) -> &str {
    name.rsplit('/').next().unwrap()
}

#[test]
fn recorded_requests_get_the_recorded_answers_to_the_octet() {
    let mut compared = 0;
    for [name, request, recorded] in dialogues() {
        let name = function(&name);
        if name == "cookie" || ELSEWHERE.contains(&name) || OTHERWISE.contains(&name) {
            continue;
        }
        assert_eq!(answer(&request, name), recorded, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 27);
}

#[test]
fn a_cookie_is_the_time() {
    let [_, request, recorded] = dialogues()
        .into_iter()
        .find(|[name, ..]| name == "cookie")
        .unwrap();
    assert_eq!(answer(&request, "cookie"), recorded);
}

#[test]
fn what_means_nothing_here_is_answered_as_unknown() {
    for [name, request, _] in dialogues() {
        let name = function(&name);
        if ELSEWHERE.contains(&name) {
            let reported = answer(&request, name);
            assert!(
                reported.contains("No functions matched"),
                "{name}: {reported}"
            );
        }
    }
}

/// The rest of each answer is the same: the recording's time of the last message is later than its cookie, the
/// ages of the table's nodes differ, and how many links a node has to itself is its own matter.
#[test]
fn the_other_answers_have_the_same_form() {
    for [name, request, recorded] in dialogues() {
        let name = function(&name);
        if OTHERWISE.contains(&name) && name != "Admin_availableFunctions" {
            let reported = answer(&request, name);
            let (reported, recorded) = (reported.as_bytes(), recorded.as_bytes());
            let differing = differences("", &decoded(reported), &decoded(recorded));
            let allowed: &[&str] = match name {
                "InterfaceController_peerStats" => &["peers.0.last"],
                "NodeStore_dumpTable" => &["routingTable.0.time"],
                _ => &["result.linkCount"],
            };
            assert_eq!(differing, allowed, "{name}");
        }
    }
}

fn decoded(octets: &[u8]) -> Value<'_> {
    Value::decode(octets).unwrap()
}

/// The places at which two values differ.
fn differences(place: &str, one: &Value, other: &Value) -> Vec<String> {
    let (Some(mine), Some(theirs)) = (entries(one), entries(other)) else {
        let same = one == other;
        return if same { vec![] } else { vec![place.into()] };
    };
    assert_eq!(
        mine.keys().collect::<Vec<_>>(),
        theirs.keys().collect::<Vec<_>>(),
        "{place}"
    );
    let inside = |(key, value): (&String, &Value)| {
        let place = if place.is_empty() {
            key.clone()
        } else {
            format!("{place}.{key}")
        };
        differences(&place, value, &theirs[key])
    };
    mine.iter().flat_map(inside).collect()
}

/// The entries of a dictionary, or those of a list by their numbers.
fn entries<'a>(value: &Value<'a>) -> Option<BTreeMap<String, Value<'a>>> {
    match value {
        Value::Dictionary(entries) => Some(owned(entries)),
        Value::List(values) => {
            let numbered = values.iter().cloned().enumerate();
            Some(
                numbered
                    .map(|(index, value)| (index.to_string(), value))
                    .collect(),
            )
        }
        _ => None,
    }
}

fn owned<'a>(entries: &Dictionary<'a>) -> BTreeMap<String, Value<'a>> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    entries
        .iter()
        .map(|(key, value)| (text(key), value.clone()))
        .collect()
}

/// Of cjdns's 96 functions those that are here have the same arguments, and the pages tell of each once.
#[test]
fn functions_are_told_page_by_page_with_the_arguments_of_cjdns() {
    let text = vectors("admin.functions");
    let theirs: BTreeMap<&str, Vec<&str>> = text
        .lines()
        .map(|line| line.split(' '))
        .map(|mut words| (words.next().unwrap(), words.collect()))
        .collect();
    let (mut server, mut router) = (server(), Recorded::default());
    let mut reported = BTreeMap::new();
    for page in 0.. {
        let request = format!("d4:argsd4:pagei{page}ee1:q24:Admin_availableFunctionse");
        let octets = server
            .handle(NOW, caller(1), request.as_bytes(), &mut router)
            .unwrap();
        let answer = decoded(&octets);
        let answer = answer.as_dictionary().unwrap();
        let functions = answer.get("availableFunctions").unwrap();
        for (name, arguments) in owned(functions.as_dictionary().unwrap()) {
            let arguments = arguments.as_dictionary().unwrap();
            let argument = |(name, value): (String, Value)| {
                let fields = value.as_dictionary().unwrap();
                let kind = String::from_utf8(fields.string("type").unwrap().to_vec()).unwrap();
                let required = fields.integer("required").unwrap() == 1;
                format!(
                    "{name}:{kind}:{}",
                    if required { "required" } else { "optional" }
                )
            };
            let arguments: Vec<_> = owned(arguments).into_iter().map(argument).collect();
            assert_eq!(arguments, theirs[&*name], "{name}");
            assert_eq!(reported.insert(name, arguments), None);
        }
        if answer.get("more").is_none() {
            break;
        }
    }
    assert_eq!(reported.len(), 33);
}

#[test]
fn questions_reach_the_router_as_they_were_meant() {
    let (mut server, mut router) = (server(), Recorded::default());
    for [_, request, _] in dialogues() {
        server.handle(NOW, caller(1), request.as_bytes(), &mut router);
    }
    let (b, c) = (b(), c());
    let asked: Vec<_> = router.asked.into_iter().map(|(_, asked)| asked).collect();
    assert_eq!(
        asked,
        [
            Asked::Query(b, Query::Find(c.key.address())),
            Asked::Query(b, Query::Peers(Label(0))),
            Asked::Query(c, Query::Ping),
            Asked::Query(c, Query::Found(c.key.address())),
            Asked::Control(b.path, Control::Key, vec![]),
            Asked::Control(b.path, Control::Ping, vec![]),
        ]
    );
    let connect = "10.99.1.2:5000) y08gbq4bm48p3dg60n7k8h2qyk6qf0b490f5mk1lzgu0xz7xc850.k \
                   password-of-b login-b b None";
    assert_eq!(
        router.changes[..2],
        [
            "add login-a password-of-a None".to_string(),
            format!("connect 0 Udp({connect}"),
        ]
    );
    assert_eq!(router.changes.len(), 5);
}
