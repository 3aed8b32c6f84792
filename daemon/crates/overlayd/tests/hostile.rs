//! Whatever comes from outside: the running program counts it by its cause, shows that in its status, and goes on.

mod support;

use std::collections::BTreeSet;

use cryptoauth::Credential;
use overlay::{Body, Content};
use overlay_node::Counters;
use support::{
    control, credential, dht, frame, ping, wait, Daemon, Neighbour, Stranger, AFAR, NEIGHBOUR,
};
use switch::{peer_label, Control, Interface, Label, PROTOCOL_VERSION};

/// Causes that nobody outside can bring about, or that are shown elsewhere.
const OTHERS: [&str; 9] = [
    // These need a device, and have one in tests/scenarios/overlay/test_overlayd.py.
    "beacon",
    "packet-malformed",
    "packet-address",
    "packet-replaced",
    "packet-expired",
    "link-not-ready", // keys that go between two instructions, while a frame of somebody else's is forwarded
    "inner-full",     // 4096 sessions that both ends have confirmed, at 200 handshakes a second
    "room",           // a buffer of ours that is too short
    "queue-full",     // what we say ourselves
];

/// Long enough for every kind of frame that it pretends to be.
const JUNK: [u8; 60] = [9; 60];

type OfStranger = (&'static str, fn(&Stranger));
type OfNeighbour = (&'static str, fn(&mut Neighbour));

/// What somebody can do who is nobody's neighbour.
const STRANGERS: [OfStranger; 8] = [
    ("link-runt", |stranger| stranger.send(&[0; 60])),
    ("link-stranger", |stranger| stranger.send(&JUNK)),
    ("link-authentication", |stranger| {
        stranger.send(&stranger.hello(None, &[]));
        stranger.send(&stranger.hello(Some(Credential::password(b"guessed")), &[]));
    }),
    ("link-forged", |stranger| {
        let mut hello = stranger.hello(Some(credential()), b"content");
        *hello.last_mut().unwrap() ^= 1;
        stranger.send(&hello);
    }),
    ("link-handshake", |stranger| {
        let mut key = stranger.hello(Some(credential()), &[]);
        key[3] = 2;
        stranger.send(&key);
    }),
    ("link-unconfirmed", |stranger| {
        let content = frame(AFAR, 0, &JUNK);
        stranger.send(&stranger.hello(Some(credential()), &content));
    }),
    ("link-version", |stranger| {
        let old = ping(NEIGHBOUR, 19);
        stranger.send(&stranger.hello(Some(credential()), &old));
    }),
    ("link-flood", |stranger| {
        let hello = stranger.hello(Some(credential()), &[]);
        (0..100).for_each(|_| stranger.send(&hello));
    }),
];

/// What a neighbour can do to the switch and the router.
const NEIGHBOURS: [OfNeighbour; 12] = [
    ("link-replayed", |neighbour| {
        neighbour.send_twice(&ping(NEIGHBOUR, PROTOCOL_VERSION));
    }),
    ("switch-runt", |neighbour| neighbour.send(&[1, 2, 3, 4, 5])),
    ("switch-no-interface", |neighbour| {
        neighbour.send(&frame(far_label(), 0, &JUNK));
    }),
    ("switch-too-far", |neighbour| {
        neighbour.send(&frame(AFAR, 63, &JUNK));
    }),
    ("control-malformed", |neighbour| {
        neighbour.send(&frame(AFAR, 0, &[&[0xff; 4][..], &JUNK].concat()));
    }),
    ("control-unexpected", |neighbour| {
        let (version, opaque) = (PROTOCOL_VERSION, &[7; 8]);
        neighbour.send(&control(AFAR, &Control::Pong { version, opaque }));
    }),
    ("inner-malformed", |neighbour| {
        neighbour.send(&frame(AFAR, 0, &[0; 4]));
    }),
    ("inner-unknown-handle", |neighbour| {
        neighbour.send(&frame(AFAR, 0, &[&[0x7f; 4][..], &JUNK].concat()));
    }),
    ("inner-handshake", |neighbour| {
        let mut key = stranger_like(neighbour).hello(None, b"a KEY that answers nothing");
        key[3] = 2;
        neighbour.send(&frame(AFAR, 0, &key));
    }),
    ("inner-unprotected", |neighbour| {
        // A handle, and user data behind it.
        let content = [0, 0, 0, 9, 0x10, 0, 0, 59, 1, 2, 3];
        let hello = stranger_like(neighbour).hello(None, &content);
        neighbour.send(&frame(AFAR, 0, &hello));
    }),
    ("control-flood", |neighbour| {
        (0..100).for_each(|_| neighbour.send(&ping(NEIGHBOUR, PROTOCOL_VERSION)));
    }),
    ("error-flood", |neighbour| {
        (0..1000).for_each(|_| neighbour.send(&frame(far_label(), 0, &JUNK)));
    }),
];

/// What a node with an inner session can do.
const SESSIONS: [OfNeighbour; 10] = [
    ("inner-forged", |neighbour| {
        let mut forged = neighbour.inner(Content::Dht, &question(PROTOCOL_VERSION));
        *forged.last_mut().unwrap() ^= 1;
        neighbour.send(&forged);
    }),
    ("inner-replayed", |neighbour| {
        let sealed = neighbour.inner(Content::Dht, &question(PROTOCOL_VERSION));
        neighbour.send(&sealed);
        neighbour.send(&sealed);
    }),
    ("inner-content", |neighbour| {
        neighbour.send_inner(Content::Tunnel, &JUNK);
    }),
    ("not-permitted", |neighbour| {
        neighbour.send_inner(Content::Ipv6(59), &JUNK);
    }),
    ("dht-malformed", |neighbour| {
        neighbour.send_inner(Content::Dht, b"d1:q2:pn");
    }),
    ("dht-bomb", |neighbour| {
        neighbour.send_inner(Content::Dht, &[b'l'; 600]);
    }),
    ("dht-version", |neighbour| {
        neighbour.send_inner(Content::Dht, &question(19));
    }),
    ("dht-unexpected", |neighbour| {
        let answer = dht(PROTOCOL_VERSION, Body::Reply(Vec::new()));
        neighbour.send_inner(Content::Dht, &answer);
    }),
    ("dht-flood", |neighbour| {
        (0..2000).for_each(|_| neighbour.send_inner(Content::Dht, b"x"));
    }),
    ("inner-flood", |neighbour| {
        (0..500).for_each(|_| neighbour.send(&frame(AFAR, 0, &[0; 4])));
    }),
];

/// What needs somebody of a certain kind.
const PARTICULAR: [&str; 3] = ["link-no-session", "link-full", "switch-no-return"];

fn question(version: u32) -> Vec<u8> {
    dht(version, Body::Query(overlay::Query::Ping))
}

/// A label of an interface behind which nobody is.
fn far_label() -> Label {
    peer_label(Interface::new(200).unwrap())
}

/// Somebody else who is heard by way of a neighbour.
fn stranger_like(neighbour: &Neighbour) -> Stranger {
    Stranger::new(neighbour.stranger.to, neighbour.stranger.key)
}

fn dropped(cause: &str) -> String {
    format!("/dropped/{cause}")
}

#[test]
fn every_cause_is_tried_or_named() {
    let strangers = STRANGERS.iter().map(|(cause, _)| *cause);
    let neighbours = NEIGHBOURS.iter().chain(&SESSIONS).map(|(cause, _)| *cause);
    let tried: Vec<_> = strangers
        .chain(neighbours)
        .chain(PARTICULAR)
        .chain(OTHERS)
        .collect();
    let set: BTreeSet<_> = tried.iter().copied().collect();
    assert_eq!(set.len(), tried.len());
    let all = Counters::default();
    assert_eq!(set, all.iter().map(|(cause, _)| cause.name()).collect());
}

#[test]
fn what_strangers_send_is_counted_by_cause() {
    let nobody = Stranger::new(([127, 0, 0, 1], 9).into(), Stranger::any_key());
    let mut configured = Stranger::new(nobody.to, nobody.key);
    let address = configured.socket.local_addr().unwrap();
    let mut daemon = Daemon::start(&format!(
        "[[udp]]\nbind = \"127.0.0.1:0\"\n[[udp.peer]]\naddress = \"{address}\"\nkey = \"{}\"\n",
        configured.local.public()
    ));
    let (to, key) = (daemon.address(0), daemon.key());
    for (cause, act) in STRANGERS {
        let stranger = Stranger::new(to, key);
        daemon.await_count(&dropped(cause), || act(&stranger));
    }
    // One who is configured, and answers the HELLO with data.
    (configured.to, configured.key) = (to, key);
    daemon.await_count(&dropped("link-no-session"), || configured.send(&JUNK));
    let stranger = Stranger::new(to, key);
    daemon.await_count("/interfaces/0/malformed", || stranger.send(&[]));
    daemon.await_count("/interfaces/0/oversize", || stranger.send(&[0; 9000]));
    // It goes on, and lets in who may.
    Neighbour::connect(Stranger::new(to, key));
}

#[test]
fn who_comes_when_all_places_are_given_away_is_counted() {
    let absent = |host| {
        let key = Stranger::new(([127, 0, 0, 1], 9).into(), Stranger::any_key());
        let key = key.local.public();
        format!("[[udp.peer]]\naddress = \"127.2.0.{host}:9\"\nkey = \"{key}\"\n")
    };
    let peers: String = (0..=255).map(absent).collect();
    let mut daemon = Daemon::start(&format!("[[udp]]\nbind = \"127.0.0.1:0\"\n{peers}"));
    let stranger = Stranger::new(daemon.address(0), daemon.key());
    daemon.await_count(&dropped("link-full"), || {
        stranger.send(&stranger.hello(Some(credential()), &[]));
    });
    let kept = daemon.ask()["peers"].as_array().map(Vec::len);
    assert_eq!(kept, Some(256), "nobody lost his place");
}

#[test]
fn what_neighbours_send_is_counted_by_cause() {
    let mut daemon = Daemon::start("[[udp]]\nbind = \"127.0.0.1:0\"\n");
    let (to, key) = (daemon.address(0), daemon.key());
    // More than have a short label, so that the last one's way back takes more bits than a short label has.
    let mut many: Vec<_> = (0..8)
        .map(|_| Neighbour::connect(Stranger::new(to, key)))
        .collect();
    let mut last = many.pop().unwrap();
    let short = peer_label(Interface::new(2).unwrap());
    daemon.await_count(&dropped("switch-no-return"), || {
        last.listen();
        last.send(&frame(short, 0, &JUNK));
    });
    for (cause, act) in NEIGHBOURS {
        daemon.await_count(&dropped(cause), || {
            last.listen();
            act(&mut last);
        });
    }
}

#[test]
fn what_comes_in_inner_sessions_is_counted_by_cause() {
    let mut daemon = Daemon::start("[[udp]]\nbind = \"127.0.0.1:0\"\n");
    let mut neighbour = Neighbour::connect(Stranger::new(daemon.address(0), daemon.key()));
    neighbour.begin_session();
    for (cause, act) in SESSIONS {
        daemon.await_count(&dropped(cause), || {
            neighbour.listen();
            act(&mut neighbour);
        });
    }
    // The link and the session stand.
    let answered = daemon.count("/peers/0/frames_out");
    wait("it is answered", || {
        neighbour.listen();
        neighbour.send(&ping(NEIGHBOUR, PROTOCOL_VERSION));
        (daemon.count("/peers/0/frames_out") > answered).then_some(())
    });
    assert_eq!(daemon.count("/delivered"), 0);
}

#[test]
fn rates_are_told_while_something_passes() {
    let mut daemon = Daemon::start("[[udp]]\nbind = \"127.0.0.1:0\"\n");
    let (to, key) = (daemon.address(0), daemon.key());
    let mut neighbour = Neighbour::connect(Stranger::new(to, key));
    let asker = Stranger::new(daemon.admin(), key);
    wait("a rate", || {
        neighbour.listen();
        (0..50).for_each(|_| neighbour.send(&ping(NEIGHBOUR, PROTOCOL_VERSION)));
        let report = daemon.count("/peers/0/kbps_in") > 0 && daemon.count("/peers/0/kbps_out") > 0;
        asker.send(b"d1:q29:InterfaceController_peerStatse");
        let answer = asker.receive().unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        let rate = |name: &str| {
            answer
                .split(name)
                .nth(1)?
                .split('e')
                .next()?
                .parse::<u32>()
                .ok()
        };
        let rates = [rate("8:recvKbpsi"), rate("8:sendKbpsi")];
        (report && rates.iter().all(|rate| rate.is_some_and(|rate| rate > 0))).then_some(())
    });
}

#[test]
fn what_the_admin_api_refuses_is_counted_by_cause() {
    let mut daemon = Daemon::start("");
    let (to, key) = (daemon.admin(), daemon.key());
    let caller = Stranger::new(to, key);
    let hash = "0".repeat(64);
    let forged = format!("d2:aq13:Core_nodeInfo6:cookie1:14:hash64:{hash}1:q4:authe");
    let cases: [(&str, &[u8]); 8] = [
        ("taken", b"d1:q4:pinge"),
        ("malformed", b"d1:q4:ping"),
        ("bomb", &[b'l'; 2000]),
        ("oversize", &[b'd'; 2049]),
        ("unauthenticated", forged.as_bytes()),
        ("forbidden", b"d1:q24:AuthorizedPasswords_liste"),
        ("unknown", b"d1:q9:Core_exite"),
        ("refused", b"d1:q19:NodeStore_dumpTablee"),
    ];
    for (name, octets) in cases {
        daemon.await_count(&format!("/admin/{name}"), || caller.send(octets));
    }
}
