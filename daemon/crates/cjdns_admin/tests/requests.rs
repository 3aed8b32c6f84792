//! Who may ask what, what is refused and how, pages, and questions that nobody answers.

mod support;

use std::time::Duration;

use cjdns_admin::{
    Counters, LogLevel, LogLine, Now, Outcome, Password, Pong, Server, COOKIE_LIFETIME, ENTRIES,
    MAX_ANSWER, MAX_CALLERS, MAX_OUTBOX, MAX_PENDING, MAX_REQUEST, MAX_SUBSCRIPTIONS,
};
use cryptoauth::{Address, PublicKey};
use overlay::bencode::{Dictionary, Value};
use overlay::{Contact, Query};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use support::{b, c, caller, dialogues, Asked, Recorded, NOW};
use switch::{ErrorCode, Label, Scheme};

/// A function, its arguments, and what its answer has in it.
type Told<'a> = (&'a str, &'a [(&'a str, Value<'a>)], &'a str);

const PASSWORD: &[u8] = b"a password of some length, with more than 53 octets in all of it";

fn server() -> Server {
    Server::new(Some(Password::new(PASSWORD).unwrap()))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A request as existing tools write it.
fn request(function: &str, arguments: &[(&str, Value)]) -> Vec<u8> {
    let mut fields = Dictionary::new();
    let mut args = Dictionary::new();
    for (name, value) in arguments {
        args.insert(name.as_bytes(), value.clone());
    }
    fields.insert(b"q", Value::String(function.as_bytes()));
    fields.insert(b"args", Value::Dictionary(args));
    fields.insert(b"txid", Value::String(b"12"));
    let mut out = Vec::new();
    fields.encode(&mut out);
    out
}

/// The same, authenticated.
fn signed(function: &str, arguments: &[(&str, Value)], password: &[u8], cookie: u64) -> Vec<u8> {
    let plain = request(function, arguments);
    let value = Value::decode(&plain).unwrap();
    let mut fields = value.as_dictionary().unwrap().clone();
    let cookie = cookie.to_string();
    let hash = hex(&Sha256::digest([password, cookie.as_bytes()].concat()));
    fields.insert(b"q", Value::String(b"auth"));
    fields.insert(b"aq", Value::String(function.as_bytes()));
    fields.insert(b"cookie", Value::String(cookie.as_bytes()));
    fields.insert(b"hash", Value::String(hash.as_bytes()));
    let mut first = Vec::new();
    fields.encode(&mut first);
    let hash = hex(&Sha256::digest(&first));
    fields.insert(b"hash", Value::String(hash.as_bytes()));
    let mut out = Vec::new();
    fields.encode(&mut out);
    out
}

fn ask(server: &mut Server, router: &mut Recorded, request: &[u8]) -> String {
    let octets = server.handle(NOW, caller(1), request, router).unwrap();
    assert_eq!(octets.len() % 8, 0);
    String::from_utf8(octets).unwrap()
}

/// An authenticated call, of which the answer is there at once.
fn call(router: &mut Recorded, function: &str, arguments: &[(&str, Value)]) -> String {
    let signed = signed(function, arguments, PASSWORD, NOW.unix.as_secs());
    ask(&mut server(), router, &signed)
}

fn text(text: &str) -> Value<'_> {
    Value::String(text.as_bytes())
}

fn later(milliseconds: u64) -> Now {
    let later = Duration::from_millis(milliseconds);
    Now {
        monotonic: NOW.monotonic + later,
        unix: NOW.unix + later,
    }
}

#[test]
fn only_who_knows_the_password_changes_anything() {
    let cookie = NOW.unix.as_secs();
    let arguments = [("user", text("u")), ("password", text("p"))];
    let sound = signed("AuthorizedPasswords_add", &arguments, PASSWORD, cookie);
    let (mut server, mut router) = (server(), Recorded::default());
    let refused = [
        request("AuthorizedPasswords_add", &arguments),
        signed("AuthorizedPasswords_add", &arguments, b"NONE", cookie),
        signed("AuthorizedPasswords_add", &arguments, b"", cookie),
        signed(
            "AuthorizedPasswords_add",
            &arguments,
            &PASSWORD[..53],
            cookie,
        ),
    ];
    for request in refused {
        let reported = ask(&mut server, &mut router, &request);
        assert!(reported.contains("Auth failed.") || reported.contains("No functions matched"));
    }
    for position in 0..sound.len() {
        let mut forged = sound.clone();
        forged[position] ^= 1;
        server.handle(NOW, caller(1), &forged, &mut router);
    }
    assert_eq!(router.changes, [""; 0]);
    assert!(ask(&mut server, &mut router, &sound).contains("5:error4:none"));
    assert_eq!(router.changes, ["add u p None"]);
}

#[test]
fn a_cookie_is_good_for_some_seconds() {
    let lifetime = COOKIE_LIFETIME.as_secs();
    for (age, sound) in [
        (0, true),
        (lifetime, true),
        (lifetime + 1, false),
        (1 << 32, false),
    ] {
        let cookie = NOW.unix.as_secs() - age.min(NOW.unix.as_secs());
        let request = signed("AuthorizedPasswords_list", &[], PASSWORD, cookie);
        let reported = ask(&mut server(), &mut Recorded::default(), &request);
        assert_eq!(reported.contains("login-a"), sound, "{age} s");
    }
    let request = signed(
        "AuthorizedPasswords_list",
        &[],
        PASSWORD,
        NOW.unix.as_secs() + 1,
    );
    let reported = ask(&mut server(), &mut Recorded::default(), &request);
    assert!(reported.contains("Auth failed."), "one of the future");
}

#[test]
fn without_a_password_nobody_is_authenticated() {
    let mut server = Server::new(None);
    let mut router = Recorded::default();
    for password in [&b""[..], b"NONE"] {
        let request = signed(
            "AuthorizedPasswords_list",
            &[],
            password,
            NOW.unix.as_secs(),
        );
        assert!(ask(&mut server, &mut router, &request).contains("Auth failed."));
    }
    let open = request("InterfaceController_peerStats", &[]);
    assert!(ask(&mut server, &mut router, &open).contains("ESTABLISHED"));
    assert!(Password::new(b"").is_err());
}

/// As in cjdns: what tells nothing that a neighbour does not know, and changes nothing.
#[test]
fn what_needs_no_authentication() {
    let open = [
        "Admin_asyncEnabled",
        "Admin_availableFunctions",
        "Core_nodeInfo",
        "Core_pid",
        "InterfaceController_peerStats",
        "NodeStore_dumpTable",
        "NodeStore_nodeForAddr",
        "ping",
    ];
    let text = support::vectors("admin.functions");
    for function in text.lines().map(|line| line.split(' ').next().unwrap()) {
        let request = request(function, &[("page", Value::Integer(0))]);
        let reported = ask(&mut server(), &mut Recorded::default(), &request);
        let refused = reported.contains("No functions matched");
        assert_eq!(!refused, open.contains(&function), "{function}: {reported}");
    }
}

#[test]
fn who_was_authenticated_of_late_may_hear_of_things_later() {
    let mut server = server();
    let mut router = Recorded::default();
    let mut enabled = |now: Now, port: u16, request: &[u8]| {
        let octets = server
            .handle(now, caller(port), request, &mut router)
            .unwrap();
        let value = Value::decode(&octets).unwrap();
        value.as_dictionary().unwrap().integer("asyncEnabled")
    };
    let plain = request("Admin_asyncEnabled", &[]);
    let signed = signed("Admin_asyncEnabled", &[], PASSWORD, NOW.unix.as_secs());
    assert_eq!(enabled(NOW, 1, &plain), Some(0));
    assert_eq!(enabled(NOW, 1, &signed), Some(1));
    assert_eq!(enabled(later(30_000), 1, &plain), Some(1));
    assert_eq!(enabled(later(30_000), 2, &plain), Some(0));
    assert_eq!(enabled(later(60_001), 1, &plain), Some(0));
    for port in 1..=u16::try_from(MAX_CALLERS).unwrap() + 1 {
        assert_eq!(enabled(NOW, port, &signed), Some(1));
    }
    assert_eq!(
        enabled(NOW, 1, &plain),
        Some(0),
        "the first makes room for the last"
    );
    assert_eq!(enabled(NOW, 2, &plain), Some(1));
}

#[test]
fn what_is_no_request_is_not_answered() {
    let (mut server, mut router) = (server(), Recorded::default());
    for octets in [
        &b""[..],
        b"x",
        b"le",
        b"de",
        b"d1:qi1ee",
        b"d1:q4:pingee",
        b"d1:q4:ping",
    ] {
        assert_eq!(server.handle(NOW, caller(1), octets, &mut router), None);
    }
    let longest = [&b"d1:q4:ping4:txid2000:"[..], &[b'x'; 2000], b"e"].concat();
    assert!(longest.len() <= MAX_REQUEST);
    assert!(server
        .handle(NOW, caller(1), &longest, &mut router)
        .is_some());
    let reported = server.handle(NOW, caller(1), &[b'd'; MAX_REQUEST + 1], &mut router);
    assert_eq!(reported.unwrap(), b"d5:error16:Request too big.e");
    let counted = Counters {
        taken: 1,
        malformed: 7,
        oversize: 1,
        ..Counters::default()
    };
    assert_eq!(*server.counters(), counted);
}

#[test]
fn whatever_comes_is_counted_by_what_became_of_it() {
    let cookie = NOW.unix.as_secs();
    let user = [("user", text("u")), ("password", text("p"))];
    let sound = signed("AuthorizedPasswords_add", &user, PASSWORD, cookie);
    let mut forged = sound.clone();
    let hash = forged.windows(5).position(|octets| octets == b"hash6");
    forged[hash.unwrap() + 8] ^= 1;
    let nested = [&b"d1:q4:ping4:args"[..], &[b'l'; 20], &[b'e'; 21]].concat();
    let many = [&b"d4:argsl"[..], &b"0:".repeat(600), b"e1:q4:pinge"].concat();
    let cases: [(&str, Vec<u8>); 15] = [
        ("taken", request("ping", &[])),
        ("taken", request("cookie", &[])),
        ("taken", sound),
        ("taken", ping(100)),
        ("malformed", b"d1:q4:ping".to_vec()),
        ("bomb", nested),
        ("bomb", many),
        ("oversize", vec![b'd'; MAX_REQUEST + 1]),
        ("unauthenticated", forged),
        (
            "unauthenticated",
            signed("AuthorizedPasswords_add", &user, b"guessed", cookie),
        ),
        (
            "unauthenticated",
            signed("AuthorizedPasswords_add", &user, PASSWORD, cookie - 21),
        ),
        ("forbidden", request("AuthorizedPasswords_add", &user)),
        ("unknown", request("Core_exit", &[])),
        ("unknown", signed("Core_exit", &[], PASSWORD, cookie)),
        (
            "refused",
            signed("AuthorizedPasswords_add", &user[..1], PASSWORD, cookie),
        ),
    ];
    for (name, octets) in cases {
        let (mut server, mut router) = (server(), Recorded::default());
        server.handle(NOW, caller(1), &octets, &mut router);
        for (counter, count) in server.counters().all() {
            assert_eq!(count, u64::from(counter == name), "{counter} by {octets:?}");
        }
    }
    let (mut server, mut router) = (server(), Recorded::default());
    router.refusing = true;
    server.handle(NOW, caller(1), &ping(100), &mut router);
    assert_eq!(
        server
            .counters()
            .all()
            .map(|(_, count)| count)
            .iter()
            .sum::<u64>(),
        1
    );
    assert_eq!(server.counters().refused, 1);
}

#[test]
fn what_is_wrong_with_arguments_is_told() {
    let key = b().key.to_string();
    let refusals: &[Told] = &[
        (
            "NodeStore_dumpTable",
            &[],
            "Entry [page] is required and must be of type [Int]",
        ),
        (
            "NodeStore_dumpTable",
            &[("page", text("0"))],
            "is required and must be of type [Int]",
        ),
        (
            "SessionManager_getHandles",
            &[("page", text("0"))],
            "Entry [page] must be of type [Int]",
        ),
        (
            "NodeStore_dumpTable",
            &[("page", Value::Integer(-1))],
            "page is -1, which is out of range",
        ),
        (
            "RouterModule_lookup",
            &[("address", text("fc00"))],
            "address is [fc00], allowed is an IPv6 address",
        ),
        (
            "RouterModule_lookup",
            &[("address", Value::String(b"\xff\n"))],
            "address is [\\xff\\n], allowed is text",
        ),
        (
            "RouterModule_pingNode",
            &[("path", text("0000.0000.0000.0015"))],
            "not_found",
        ),
        (
            "RouterModule_pingNode",
            &[("path", text("fc00::1"))],
            "not_found",
        ),
        (
            "RouterModule_pingNode",
            &[("path", text("v22.x.k"))],
            "allowed is a path, an address or v22.PATH.KEY.k",
        ),
        (
            "RouterModule_findNode",
            &[
                ("nodeToQuery", text("0000.0000.0000.0013")),
                ("target", text("x")),
            ],
            "target is [x], allowed is an IPv6 address",
        ),
        (
            "RouterModule_getPeers",
            &[
                ("path", text("0000.0000.0000.0013")),
                ("nearbyPath", text("1")),
            ],
            "nearbyPath is [1], allowed is a path",
        ),
        (
            "SwitchPinger_ping",
            &[("path", text("13"))],
            "path is [13], allowed is a path",
        ),
        (
            "SwitchPinger_ping",
            &[
                ("path", text("0000.0000.0000.0013")),
                ("rpath", Value::Integer(1)),
                ("keyPing", Value::Integer(1)),
            ],
            "Can only be one of",
        ),
        (
            "SwitchPinger_ping",
            &[
                ("path", text("0000.0000.0000.0013")),
                ("timeout", Value::Integer(-5)),
            ],
            "timeout is -5, which is out of range",
        ),
        (
            "NodeStore_getRouteLabel",
            &[
                ("pathToParent", text("0000.0000.0000.0000")),
                ("pathParentToChild", text("0000.0000.0000.0013")),
            ],
            "too long for one label",
        ),
        (
            "SessionManager_sessionStats",
            &[("handle", Value::Integer(7))],
            "no such session",
        ),
        (
            "SessionManager_sessionStats",
            &[("handle", Value::Integer(1 << 32))],
            "out of range",
        ),
        (
            "AuthorizedPasswords_add",
            &[("password", text(""))],
            "password is empty",
        ),
        (
            "AuthorizedPasswords_remove",
            &[("user", text("nobody"))],
            "no user has that login",
        ),
        (
            "UDPInterface_beacon",
            &[("state", Value::Integer(3))],
            "invalid state, allowed are 0, 1 and 2",
        ),
        ("UDPInterface_beacon", &[], "invalid state"),
        (
            "UDPInterface_beginConnection",
            &[("address", text("host:1")), ("publicKey", text(&key))],
            "address is [host:1], allowed is ADDRESS:PORT",
        ),
        (
            "UDPInterface_beginConnection",
            &[("address", text("10.0.0.1:1")), ("publicKey", text("x.k"))],
            "publicKey: 3 characters, must be 52 and .k",
        ),
        (
            "UDPInterface_beginConnection",
            &[
                ("address", text("10.0.0.1:1")),
                (
                    "publicKey",
                    text("0000000000000000000000000000000000000000000000000000.k"),
                ),
            ],
            "not in fc00::/8",
        ),
        (
            "ETHInterface_beginConnection",
            &[
                ("macAddress", text("01:02:03:04:05")),
                ("publicKey", text(&key)),
            ],
            "allowed is six octets",
        ),
        (
            "ETHInterface_beginConnection",
            &[
                ("macAddress", text("01:02:03:04:05:+6")),
                ("publicKey", text(&key)),
            ],
            "allowed is six octets",
        ),
        (
            "ETHInterface_beginConnection",
            &[
                ("macAddress", text("01:02:03:04:05:06:07")),
                ("publicKey", text(&key)),
            ],
            "allowed is six octets",
        ),
        (
            "InterfaceController_disconnectPeer",
            &[("pubkey", text("x"))],
            "sessionsDisconnectedi0e7:successi0e",
        ),
        (
            "InterfaceController_resetPeering",
            &[("pubkey", text("x"))],
            "7:successi0e",
        ),
    ];
    for (function, arguments, reported) in refusals {
        let answer = call(&mut Recorded::default(), function, arguments);
        assert!(answer.contains(reported), "{function}: {answer}");
    }
}

#[test]
fn what_a_router_refuses_is_told_with_its_reason() {
    let key = b().key.to_string();
    let changes: &[(&str, &[(&str, Value)])] = &[
        ("AuthorizedPasswords_add", &[("password", text("p"))]),
        ("UDPInterface_beacon", &[("state", Value::Integer(2))]),
        (
            "UDPInterface_beginConnection",
            &[("address", text("[::1]:1")), ("publicKey", text(&key))],
        ),
        (
            "SwitchPinger_ping",
            &[("path", text("0000.0000.0000.0013"))],
        ),
    ];
    for (function, arguments) in changes {
        let mut router = Recorded {
            refusing: true,
            ..Recorded::default()
        };
        let reported = call(&mut router, function, arguments);
        assert!(
            reported.contains("5:error7:not now"),
            "{function}: {reported}"
        );
    }
}

#[test]
fn changes_reach_the_router_as_they_were_meant() {
    let (key, address) = (b().key.to_string(), c().key.address().to_string());
    let mut router = Recorded::default();
    let changes: &[Told] = &[
        (
            "AuthorizedPasswords_add",
            &[("password", text("p")), ("ipv6", text(&address))],
            "5:error4:none",
        ),
        (
            "AuthorizedPasswords_remove",
            &[("user", text("login-a"))],
            "5:error4:none",
        ),
        (
            "ETHInterface_beacon",
            &[
                ("interfaceNumber", Value::Integer(2)),
                ("state", Value::Integer(2)),
            ],
            "5:error4:none5:statei2e9:stateName21:sending and accepting",
        ),
        (
            "ETHInterface_beginConnection",
            &[
                ("macAddress", text("01:02:03:04:05:fF")),
                ("publicKey", text(&key)),
                ("version", Value::Integer(22)),
            ],
            "5:error4:none",
        ),
        (
            "InterfaceController_disconnectPeer",
            &[("pubkey", text(&key))],
            "sessionsDisconnectedi1e7:successi1e",
        ),
        ("InterfaceController_resetPeering", &[], "7:successi1e"),
    ];
    for (function, arguments, reported) in changes {
        let answer = call(&mut router, function, arguments);
        assert!(answer.contains(reported), "{function}: {answer}");
    }
    assert_eq!(
        router.changes,
        [
            format!("add - p Some({address})"),
            "remove login-a".into(),
            "beacon 2 Send".into(),
            format!("connect 0 Ethernet([1, 2, 3, 4, 5, 255]) {key} - - - Some(22)"),
            format!("disconnect {key}"),
            "reset None".into(),
        ]
    );
}

#[test]
fn small_answers() {
    let mut router = Recorded::default();
    let asked: &[Told] = &[
        (
            "RouterModule_lookup",
            &[("address", text("fc00::1"))],
            "6:result9:not found",
        ),
        (
            "RouterModule_lookup",
            &[("address", text("fc0a:459b:5e95:aff3:82dd:4cc0:8527:d51d"))],
            "6:result19:0000.0000.0000.0001",
        ),
        (
            "NodeStore_nodeForAddr",
            &[("ip", text("fc00::1"))],
            "5:error4:none6:resultde",
        ),
        (
            "NodeStore_getRouteLabel",
            &[
                ("pathToParent", text("0000.0000.0000.0013")),
                ("pathParentToChild", text("0000.0000.0000.0015")),
            ],
            "6:result19:0000.0000.0000.0153",
        ),
    ];
    for (function, arguments, reported) in asked {
        let answer = call(&mut router, function, arguments);
        assert!(answer.contains(reported), "{function}: {answer}");
    }
}

#[test]
fn lists_come_by_page() {
    let entries = |router: &mut Recorded, function: &str, list: &str, page: i64| {
        let answer = call(router, function, &[("page", Value::Integer(page))]);
        let value = Value::decode(answer.as_bytes()).unwrap();
        let fields = value.as_dictionary().unwrap();
        let count = fields.get(list).and_then(Value::as_list).unwrap().len();
        (count, fields.integer("more").is_some())
    };
    let mut router = Recorded {
        copies: ENTRIES.peers + 1,
        ..Recorded::default()
    };
    let stats = "InterfaceController_peerStats";
    assert_eq!(
        entries(&mut router, stats, "peers", 0),
        (ENTRIES.peers, true)
    );
    assert_eq!(entries(&mut router, stats, "peers", 1), (1, false));
    assert_eq!(entries(&mut router, stats, "peers", 2), (0, false));
    assert_eq!(entries(&mut router, stats, "peers", i64::MAX), (0, false));
    router.copies = ENTRIES.users;
    assert_eq!(
        entries(&mut router, "AuthorizedPasswords_list", "users", 1),
        (ENTRIES.users, false)
    );
    let table = "NodeStore_dumpTable";
    assert_eq!(entries(&mut router, table, "routingTable", 0), (3, false));
    assert_eq!(entries(&mut router, table, "routingTable", 1), (0, false));
}

fn ping(timeout: i64) -> Vec<u8> {
    let arguments = [
        ("path", text("0000.0000.0000.0013")),
        ("data", text("abc")),
        ("timeout", Value::Integer(timeout)),
    ];
    signed(
        "SwitchPinger_ping",
        &arguments,
        PASSWORD,
        NOW.unix.as_secs(),
    )
}

/// A traceroute begins at the router that it asks.
#[test]
fn questions_to_the_router_itself_are_answered_at_once() {
    let [a, b, c] =
        [support::own(), b(), c()].map(|node| format!("v22.{}.{}", node.path, node.key));
    let by_address = a_address();
    for itself in ["0000.0000.0000.0001", &*by_address, &*a] {
        let mut router = Recorded::default();
        let target = [("nodeToQuery", text(itself)), ("target", text("fc00::1"))];
        let peers = call(
            &mut router,
            "RouterModule_getPeers",
            &[("path", text(itself))],
        );
        let list = |nodes: &[&String]| {
            let nodes: Vec<_> = nodes
                .iter()
                .map(|node| format!("{}:{node}", node.len()))
                .collect();
            format!("l{}e", nodes.concat())
        };
        let reported = format!("2:msi0e5:peers{}6:result5:peers", list(&[&a, &b]));
        assert!(
            peers.contains("5:error4:none") && peers.contains(&reported),
            "{peers}"
        );
        let found = call(&mut router, "RouterModule_findNode", &target);
        assert!(
            found.contains(&format!("5:nodes{}", list(&[&c, &b]))),
            "{found}"
        );
        let hop = call(&mut router, "RouterModule_nextHop", &target);
        assert!(hop.contains(&format!("5:nodes{}", list(&[&b]))), "{hop}");
        let pong = call(
            &mut router,
            "RouterModule_pingNode",
            &[("path", text(itself))],
        );
        assert!(
            pong.contains("6:result4:pong") && pong.contains(&a),
            "{pong}"
        );
        assert_eq!(router.asked, []);
    }
}

fn a_address() -> String {
    let octets: [u8; 16] = *support::a().address().octets();
    std::net::Ipv6Addr::from(octets).to_string()
}

#[test]
fn links_are_told_by_their_numbers() {
    let link = |parent: Option<&str>, number: i64| {
        let mut arguments = vec![("linkNum", Value::Integer(number))];
        arguments.extend(parent.map(|parent| ("parent", text(parent))));
        call(&mut Recorded::default(), "NodeStore_getLink", &arguments)
    };
    let own = a_address();
    let reported = format!(
        "6:resultd10:bestParenti1e15:cannonicalLabel19:0000.0000.0000.00135:child78:v22.0000.0000.0000.0013.{}\
         29:inverseLinkEncodingFormNumberi0e8:isOneHopi1e8:linkCosti1024e6:parent78:v22.0000.0000.0000.0001.{}e",
        b().key,
        support::a()
    );
    for parent in [None, Some(&*own)] {
        let first = link(parent, 0);
        assert!(
            first.contains("5:error4:none") && first.contains(&reported),
            "{first}"
        );
        assert!(link(parent, 1).contains("5:error9:not_found6:resultde"));
    }
    assert!(link(Some("fc00::1"), 0).contains("5:error9:not_found6:resultde"));
    assert!(link(Some("x"), 0).contains("parent is [x], allowed is an IPv6 address"));
    assert!(link(None, -1).contains("linkNum is -1, which is out of range"));
}

#[test]
fn a_question_that_nobody_answers_ends() {
    for (timeout, ends) in [(500, 500), (0, 2_000), (i64::MAX, 60_000)] {
        let (mut server, mut router) = (server(), Recorded::default());
        assert_eq!(server.poll_timeout(), None);
        assert_eq!(
            server.handle(NOW, caller(7), &ping(timeout), &mut router),
            None
        );
        assert_eq!(server.poll_timeout(), Some(later(ends).monotonic));
        server.handle_timeout(later(ends - 1), &mut router);
        assert_eq!(server.poll_transmit(), None);
        server.handle_timeout(later(ends), &mut router);
        let (to, reported) = server.poll_transmit().unwrap();
        let reported = String::from_utf8(reported).unwrap();
        assert_eq!(to, caller(7));
        assert!(
            reported.contains(&format!("2:msi{ends}e")) && reported.contains("6:result7:timeout")
        );
        assert!(reported.contains("4:txid2:12"));
        server.handle_timeout(later(ends), &mut router);
        let (ticket, _) = router.asked[0];
        let late = Outcome::Pong(Pong::default());
        server.complete(later(ends), ticket, &late, &mut router);
        assert_eq!(server.poll_transmit(), None);
    }
}

#[test]
fn what_came_of_a_question_is_told() {
    let refused = |code| Outcome::Error(ErrorCode(code));
    let pong = Outcome::Pong(Pong {
        version: 22,
        opaque: b"abc".to_vec(),
        snode: Some(c()),
        return_path: Some(Label(0x15)),
        lower: Some("10.0.0.1:5".into()),
        ..Pong::default()
    });
    let outcomes = [
        (refused(9), "6:result8:err_loop"),
        (refused(1), "6:result10:err_switch"),
        (Outcome::Silence, "6:result7:timeout"),
        (pong, "4:data3:abc6:lladdr10:10.0.0.1:52:msi0e4:path19:0000.0000.0000.00136:result4:pong5:rpath19:0000"),
    ];
    for (outcome, reported) in outcomes {
        let (mut server, mut router) = (server(), Recorded::default());
        server.handle(NOW, caller(1), &ping(100), &mut router);
        server.complete(NOW, router.asked[0].0, &outcome, &mut router);
        let (_, octets) = server.poll_transmit().unwrap();
        let octets = String::from_utf8(octets).unwrap();
        assert!(octets.contains(reported), "{octets}");
    }
}

#[test]
fn open_questions_are_bounded() {
    let (mut server, mut router) = (server(), Recorded::default());
    for _ in 0..MAX_PENDING {
        assert_eq!(server.handle(NOW, caller(1), &ping(100), &mut router), None);
    }
    let reported = ask(&mut server, &mut router, &ping(100));
    assert!(reported.contains("no open slots"));
    assert_eq!(
        (router.asked.len(), server.counters().busy),
        (MAX_PENDING, 1)
    );
    server.complete(NOW, router.asked[0].0, &Outcome::Silence, &mut router);
    assert_eq!(server.handle(NOW, caller(1), &ping(100), &mut router), None);
}

fn search(server: &mut Server, router: &mut Recorded, arguments: &[(&str, Value)]) {
    let cookie = NOW.unix.as_secs();
    let request = signed("SearchRunner_search", arguments, PASSWORD, cookie);
    assert_eq!(server.handle(NOW, caller(1), &request, router), None);
}

fn reply(nodes: &[Contact]) -> Outcome {
    Outcome::Reply {
        version: 22,
        scheme: Scheme::V3X5X8,
        nodes: nodes.to_vec(),
    }
}

/// What was sent to the one caller.
fn sent(server: &mut Server) -> Vec<String> {
    let sent = std::iter::from_fn(|| server.poll_transmit());
    sent.map(|(to, octets)| {
        assert_eq!(to, caller(1));
        String::from_utf8(octets).unwrap()
    })
    .collect()
}

const COMPLETE: &str = "8:completei1e5:error4:none4:txid2:12e";

#[test]
fn a_search_asks_ever_nearer_nodes_and_tells_of_each_answer() {
    let (mut server, mut router) = (server(), Recorded::default());
    let target = "fc00::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let target = Address::from_octets(target);
    search(&mut server, &mut router, &[("ipv6", text("fc00::1"))]);
    let mut answered = 0;
    while let Some((ticket, Asked::Query(to, query))) = router.asked.get(answered).cloned() {
        assert_eq!(query, Query::Find(target));
        // A silent node is passed over; the last one tells of what is known.
        let outcome = match answered {
            0 => Outcome::Silence,
            _ => reply(&[b(), c(), support::own()]),
        };
        let then = later(5 * (answered as u64 + 1));
        server.complete(then, ticket, &outcome, &mut router);
        let reported = sent(&mut server);
        let last = router.asked.len() == answered + 1;
        assert_eq!(reported.len(), answered + usize::from(last));
        if answered > 0 {
            let from = format!("v22.{}.{}", to.path, to.key);
            assert!(
                reported[0].contains(&format!("4:from78:{from}2:msi5e5:nodesl")),
                "{reported:?}"
            );
            assert!(reported[0].contains("4:txid2:12"));
        }
        answered += 1;
    }
    assert_eq!(answered, 2, "each node once, and never the router itself");
    search(&mut server, &mut router, &[("ipv6", text("fc00::1"))]);
    let (ticket, _) = router.asked[2];
    server.complete(NOW, ticket, &Outcome::Silence, &mut router);
    let (ticket, _) = router.asked[3];
    server.complete(NOW, ticket, &Outcome::Silence, &mut router);
    let reported = sent(&mut server);
    assert_eq!(reported.len(), 1);
    assert!(reported[0].ends_with(COMPLETE), "{reported:?}");
}

#[test]
fn a_search_ends_with_its_target_with_its_questions_or_when_nobody_can_be_asked() {
    let target = Value::String(b"fc46:6012:3c2e:ac74:012d:a120:d0a8:9141");
    let found = [("ipv6", target.clone())];
    let (mut server, mut router) = (server(), Recorded::default());
    search(&mut server, &mut router, &found);
    let (ticket, asked) = router.asked[0].clone();
    assert_eq!(asked, Asked::Query(c(), Query::Found(c().key.address())));
    server.complete(NOW, ticket, &reply(&[]), &mut router);
    let reported = sent(&mut server);
    assert!(reported[0].contains("5:nodesle") && reported[1].ends_with(COMPLETE));
    assert_eq!((reported.len(), router.asked.len()), (2, 1));
    for (arguments, refusing) in [
        (
            vec![("ipv6", target.clone()), ("maxRequests", Value::Integer(0))],
            false,
        ),
        (vec![("ipv6", target)], true),
    ] {
        let mut router = Recorded {
            refusing,
            ..Recorded::default()
        };
        search(&mut server, &mut router, &arguments);
        let reported = sent(&mut server);
        assert!(reported.len() == 1 && reported[0].ends_with(COMPLETE));
        assert_eq!(router.asked.len(), 0);
    }
    let mut router = Recorded::default();
    let wrong = call(&mut router, "SearchRunner_search", &[("ipv6", text("x"))]);
    assert!(wrong.contains("ipv6 is [x], allowed is an IPv6 address"));
}

#[test]
fn a_search_in_a_crowd_of_nodes_is_bounded() {
    let (mut server, mut router) = (server(), Recorded::default());
    let many = [
        ("ipv6", text("fc00::1")),
        ("maxRequests", Value::Integer(1 << 31)),
    ];
    search(&mut server, &mut router, &many);
    let mut random = 0_u64;
    let mut asked = 0;
    while let Some((ticket, _)) = router.asked.get(asked).cloned() {
        let crowd: Vec<_> = (0..8).map(|_| node(&mut random)).collect();
        server.complete(NOW, ticket, &reply(&crowd), &mut router);
        sent(&mut server);
        asked += 1;
    }
    assert_eq!(asked, 64);
    assert_eq!(server.poll_timeout(), None);
}

/// A node behind the answerer, another one each time.
fn node(seed: &mut u64) -> Contact {
    loop {
        *seed += 1;
        let octets: [u8; 32] = Sha256::digest(seed.to_be_bytes()).into();
        let key = PublicKey::from_octets(octets);
        if key.node_address().is_ok() {
            return Contact {
                key,
                path: Label(0x15),
                version: 22,
            };
        }
    }
}

fn subscribe(server: &mut Server, now: Now, arguments: &[(&str, Value)]) -> String {
    let request = signed(
        "AdminLog_subscribe",
        arguments,
        PASSWORD,
        now.unix.as_secs(),
    );
    let mut router = Recorded::default();
    let octets = server
        .handle(now, caller(1), &request, &mut router)
        .unwrap();
    let value = Value::decode(&octets).unwrap();
    let fields = value.as_dictionary().unwrap();
    assert_eq!(fields.string("error"), Some(&b"none"[..]));
    String::from_utf8(fields.string("streamId").unwrap().to_vec()).unwrap()
}

fn logged(server: &mut Server, now: Now, level: LogLevel, file: &str, line: u32) -> usize {
    let message = "says something";
    server.log(
        now,
        LogLine {
            level,
            file,
            line,
            message,
        },
    );
    sent(server).len()
}

#[test]
fn a_subscriber_hears_the_lines_that_it_wants() {
    let mut server = server();
    assert_eq!(server.log_level(), None);
    let stream = subscribe(
        &mut server,
        NOW,
        &[("level", text("WARN")), ("line", Value::Integer(-1))],
    );
    assert!(stream.len() == 16 && stream.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(server.log_level(), Some(LogLevel::Warn));
    server.log(
        NOW,
        LogLine {
            level: LogLevel::Error,
            file: "node.rs",
            line: 7,
            message: "is full",
        },
    );
    let reported = sent(&mut server);
    let time = NOW.unix.as_secs();
    let form = format!(
        "4:file7:node.rs5:level5:ERROR4:linei7e7:message7:is full8:streamId16:{stream}4:timei{time}e4:txid2:12e"
    );
    assert!(
        reported.len() == 1 && reported[0].ends_with(&form),
        "{reported:?}"
    );
    assert_eq!(logged(&mut server, NOW, LogLevel::Warn, "a.rs", 1), 1);
    assert_eq!(logged(&mut server, NOW, LogLevel::Info, "a.rs", 1), 0);
    subscribe(
        &mut server,
        NOW,
        &[("file", text("b.rs")), ("line", Value::Integer(3))],
    );
    assert_eq!(
        server.log_level(),
        Some(LogLevel::Debug),
        "when nothing is said"
    );
    for (file, line, takers) in [("b.rs", 3, 1), ("b.rs", 4, 0), ("a.rs", 3, 0)] {
        assert_eq!(
            logged(&mut server, NOW, LogLevel::Debug, file, line),
            takers,
            "{file}:{line}"
        );
    }
    let long = "x".repeat(100_000);
    server.log(
        NOW,
        LogLine {
            level: LogLevel::Error,
            file: "a.rs",
            line: 1,
            message: &long,
        },
    );
    assert!(
        sent(&mut server)[0].len() < 1400,
        "a line fits into a datagram"
    );
}

#[test]
fn a_subscription_ends_when_it_is_told_to_or_its_caller_is_gone() {
    let (mut server, mut router) = (server(), Recorded::default());
    let mut end = |server: &mut Server, stream: &str| {
        let cookie = NOW.unix.as_secs();
        let request = signed(
            "AdminLog_unsubscribe",
            &[("streamId", text(stream))],
            PASSWORD,
            cookie,
        );
        ask(server, &mut router, &request)
    };
    let stream = subscribe(&mut server, NOW, &[]);
    for name in [
        "",
        "1",
        "000000000000000g",
        "00000000000000001",
        "+000000000000001",
    ] {
        assert!(
            end(&mut server, name).contains("Invalid streamId."),
            "{name}"
        );
    }
    assert!(end(&mut server, "00000000000000ff").contains("No such subscription."));
    assert_eq!(logged(&mut server, NOW, LogLevel::Debug, "a.rs", 1), 1);
    assert!(end(&mut server, &stream).contains("5:error4:none"));
    assert!(end(&mut server, &stream).contains("No such subscription."));
    assert_eq!(logged(&mut server, NOW, LogLevel::Debug, "a.rs", 1), 0);
    subscribe(&mut server, NOW, &[]);
    assert_eq!(
        logged(&mut server, later(30_000), LogLevel::Debug, "a.rs", 1),
        1
    );
    assert_eq!(
        logged(&mut server, later(30_001), LogLevel::Debug, "a.rs", 1),
        0
    );
    assert_eq!(server.log_level(), None);
}

#[test]
fn subscriptions_and_lines_are_bounded() {
    let (mut server, mut router) = (server(), Recorded::default());
    for _ in 0..MAX_SUBSCRIPTIONS {
        subscribe(&mut server, NOW, &[]);
    }
    let cookie = NOW.unix.as_secs();
    let mut call = |function, arguments: &[(&str, Value)]| {
        ask(
            &mut server,
            &mut router,
            &signed(function, arguments, PASSWORD, cookie),
        )
    };
    assert!(call("AdminLog_subscribe", &[]).contains("there are 64 subscriptions"));
    assert!(call("AdminLog_subscribe", &[("level", text("LOUD"))])
        .contains("level is unknown, allowed are KEYS"));
    for count in [-1, 1001, i64::MAX] {
        let reported = call("AdminLog_logMany", &[("count", Value::Integer(count))]);
        assert!(
            reported.contains(&format!("count is {count}, allowed is 0 to 1000")),
            "{reported}"
        );
    }
    assert!(call("AdminLog_logMany", &[("count", Value::Integer(1000))]).contains("5:error4:none"));
    assert_eq!(sent(&mut server).len(), MAX_OUTBOX);
    let lost = (1000 * MAX_SUBSCRIPTIONS - MAX_OUTBOX) as u64;
    assert_eq!(server.counters().lost, lost);
}

fn any_argument() -> impl Strategy<Value = (String, Vec<u8>)> {
    let text = support::vectors("admin.functions");
    let names: Vec<String> = text
        .split_whitespace()
        .filter_map(|word| word.split_once(':'))
        .map(|(name, _)| name.into())
        .collect();
    let values = prop_oneof![
        any::<i64>().prop_map(|number| format!("i{number}e").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|octets| [
            format!("{}:", octets.len()).into_bytes(),
            octets
        ]
        .concat()),
        prop::sample::select(vec![
            &b"19:0000.0000.0000.0013"[..],
            b"7:fc00::1",
            b"54:y08gbq4bm48p3dg60n7k8h2qyk6qf0b490f5mk1lzgu0xz7xc850.k",
            b"10:10.0.0.1:5",
            b"17:01:02:03:04:05:06",
            b"le",
            b"de",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    (prop::sample::select(names), values)
}

proptest! {
    #[test]
    fn any_octets_are_survived_and_change_nothing(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let (mut server, mut router) = (server(), Recorded::default());
        server.handle(NOW, caller(1), &octets, &mut router);
        prop_assert!(router.changes.is_empty() && router.asked.is_empty());
    }

    #[test]
    fn damaged_requests_change_nothing(which in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(),
                                       octet in any::<u8>()) {
        let dialogues = dialogues();
        let mut request = dialogues[which.index(dialogues.len())][1].clone().into_bytes();
        let place = place.index(request.len());
        prop_assume!(request[place] != octet);
        request[place] = octet;
        let mut server = Server::new(Some(Password::new(b"NONE").unwrap()));
        let mut router = Recorded::default();
        if let Some(answer) = server.handle(NOW, caller(1), &request, &mut router) {
            prop_assert!(Value::decode(&answer).is_ok());
        }
        prop_assert!(router.changes.is_empty() && router.asked.is_empty());
    }

    #[test]
    fn authenticated_callers_get_an_answer_of_bounded_length(
        function in prop::sample::select(support::vectors("admin.functions").lines()
            .map(|line| line.split(' ').next().unwrap().to_string()).collect::<Vec<_>>()),
        arguments in prop::collection::btree_map(any_argument().prop_map(|(name, _)| name), any_argument(), 0..6),
    ) {
        let values: Vec<(&str, Value)> = arguments
            .iter()
            .map(|(name, (_, octets))| (&**name, Value::decode(octets).unwrap()))
            .collect();
        let request = signed(&function, &values, PASSWORD, NOW.unix.as_secs());
        let (mut server, mut router) = (server(), Recorded { copies: 100, ..Recorded::default() });
        match server.handle(NOW, caller(1), &request, &mut router) {
            Some(answer) => {
                prop_assert!(answer.len() <= MAX_ANSWER);
                let value = Value::decode(&answer).unwrap();
                prop_assert_eq!(value.as_dictionary().unwrap().string("txid"), Some(&b"12"[..]));
            }
            None => prop_assert_eq!(router.asked.len(), 1),
        }
    }
}
