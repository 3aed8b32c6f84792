//! Our answers have the shape of olsrd2's: the recordings are in `tests/vectors/olsrd2`.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::Duration;

use olsrv2::{
    EdgeView, Family, InterfaceId, LinkStatus, LinkView, Metric, NeighbourView, NodeView, Prefix,
    RouteView, TwoHopView,
};
use serde_json::Value;

use super::*;
use crate::config::Config;
use crate::management::state::StationView;
use crate::manet::Interface;
use crate::nl80211::Station;

const NOW: Duration = Duration::from_secs(1000);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn metric() -> Option<Metric> {
    Metric::new(4_210_432)
}

/// What node A of the recorded line A - B - C knows.
fn node_a() -> State {
    let families = [
        [
            "10.77.0.1",
            "10.77.0.2",
            "10.77.0.3",
            "10.77.1.2",
            "fd77::2",
        ],
        [
            "fd77::1",
            "fd77::2",
            "fd77::3",
            "fe80::b04f:3eff:fe5f:802a",
            "10.77.0.2",
        ],
    ];
    let mut state = State {
        now: NOW,
        config: empty_config(),
        originators: vec![(ip("10.77.0.1"), 5228), (ip("fd77::1"), 5228)],
        interfaces: vec![Interface {
            name: "e2".into(),
            index: 62,
            mac: Some([0x36, 0xea, 0x95, 8, 0xa, 4]),
            source_v4: Some(ip("10.77.1.1")),
            source_v6: Some(ip("fe80::34ea:95ff:fe08:a04")),
        }],
        names: BTreeMap::from([(62, "e2".into())]),
        links: Vec::new(),
        neighbours: Vec::new(),
        two_hops: Vec::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        attached: Vec::new(),
        local_attached: Vec::new(),
        routes: Vec::new(),
        installed: BTreeSet::new(),
        stations: Vec::new(),
        counters: Default::default(),
        refusals: Vec::new(),
        signer: "off",
        trusted: Vec::new(),
        index: Default::default(),
    };
    for [a, b, c, hop, other] in families {
        add_family(&mut state, ip(a), ip(b), ip(c), ip(hop), ip(other));
    }
    state
}

fn empty_config() -> Config {
    let path = std::env::temp_dir().join(format!("olsrv2d-empty-{}.toml", std::process::id()));
    fs::write(&path, "").unwrap();
    Config::load(&path).unwrap()
}

fn add_family(state: &mut State, a: IpAddr, b: IpAddr, c: IpAddr, hop: IpAddr, other: IpAddr) {
    let interface = InterfaceId(62);
    let later = NOW + Duration::from_millis(5250);
    state.links.push(LinkView {
        interface,
        address: hop,
        addresses: vec![hop],
        originator: Some(b),
        status: LinkStatus::Symmetric,
        metric_in: metric(),
        metric_out: metric(),
        is_flooding_mpr: true,
        is_flooding_selector: false,
        flooding_willingness: 7,
        mac: Some([2; 6]),
        hello_interval: Duration::from_secs(2),
        hello_validity: Duration::from_secs(6),
        heard_until: later,
        symmetric_until: later,
        expires: later,
    });
    state.neighbours.push(NeighbourView {
        signs: false,
        family: Family::of(b),
        originator: Some(b),
        other_originator: Some(other),
        addresses: vec![b, hop],
        symmetric: true,
        links: 1,
        metric_in: metric(),
        metric_out: metric(),
        is_routing_mpr: true,
        is_flooding_mpr: true,
        is_routing_selector: false,
        routing_willingness: 7,
        flooding_willingness: 7,
    });
    state.two_hops.push(TwoHopView {
        interface,
        link_address: hop,
        neighbour_originator: Some(b),
        address: c,
        metric_in: metric(),
        metric_out: metric(),
        expires: later,
    });
    for originator in [b, c] {
        state.nodes.push(NodeView {
            signs: false,
            originator,
            ansn: 27827,
            expires: later,
        });
    }
    for to in [a, c] {
        let metric = metric().unwrap();
        state.edges.push(EdgeView {
            confirmed: true,
            from: b,
            to,
            to_originator: true,
            metric,
            ansn: 27827,
            expires: later,
        });
    }
    for (destination, hops, last_originator) in [(b, 1, a), (c, 2, b)] {
        state.routes.push(RouteView {
            confirmed: true,
            destination: Prefix::host(destination),
            next_hop: hop,
            interface,
            source: a,
            metric: 4_210_432 * u32::from(hops),
            hops,
            originator: destination,
            next_originator: b,
            last_originator,
        });
    }
}

fn recording(name: &str) -> Value {
    let path = format!(
        "{}/../../../tests/vectors/olsrd2/line-1-{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&fs::read_to_string(&path).expect(&path)).expect(&path)
}

/// The types of a document, with the order of its keys; a list is the set of the shapes in it.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(values) => format!(
            "[{}]",
            values
                .iter()
                .map(shape)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join("|")
        ),
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key}:{}", shape(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn text(command: &str, state: &State) -> String {
    let Reply::Answer(mut answer) = answer(command, state) else {
        panic!("{command} ends the session");
    };
    let mut text = String::new();
    while !answer.is_finished() {
        text.push_str(&answer.portion(state, 100));
    }
    text
}

#[test]
fn answers_have_the_shape_of_the_recordings() {
    let state = node_a();
    for (command, name) in [
        ("netjsoninfo graph", "netjsoninfo-graph"),
        ("netjsoninfo route", "netjsoninfo-route"),
        ("olsrv2info json originator", "olsrv2info-originator"),
        ("olsrv2info json local", "olsrv2info-local"),
        ("olsrv2info json node", "olsrv2info-node"),
        ("olsrv2info json edge", "olsrv2info-edge"),
        ("olsrv2info json route", "olsrv2info-route"),
        (
            "olsrv2info json attached_network",
            "olsrv2info-attached_network",
        ),
        ("olsrv2info json lan", "olsrv2info-lan"),
        ("nhdpinfo json interface", "nhdpinfo-interface"),
        ("nhdpinfo json link", "nhdpinfo-link"),
        ("nhdpinfo json neighbor", "nhdpinfo-neighbor"),
        ("nhdpinfo json link_twohop", "nhdpinfo-link_twohop"),
    ] {
        let ours: Value = serde_json::from_str(&text(command, &state)).expect(command);
        assert_eq!(shape(&ours), shape(&recording(name)), "{command}");
    }
}

#[test]
fn the_facts_of_the_recorded_line_are_told_alike() {
    let state = node_a();
    let values = |value: &Value, list: &str, key: &str| -> Vec<String> {
        value[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[key].to_string())
            .collect()
    };
    for (command, name, list, keys) in [
        (
            "olsrv2info json route",
            "olsrv2info-route",
            "route",
            &["route_dst", "route_gw", "route_lasthop", "domain_path_hops"][..],
        ),
        (
            "olsrv2info json node",
            "olsrv2info-node",
            "node",
            &["node", "node_virtual", "node_neighbor"],
        ),
        (
            "olsrv2info json edge",
            "olsrv2info-edge",
            "edge",
            &["node", "edge", "domain"],
        ),
    ] {
        let ours: Value = serde_json::from_str(&text(command, &state)).unwrap();
        for key in keys {
            assert_eq!(
                values(&ours, list, key),
                values(&recording(name), list, key),
                "{command} {key}"
            );
        }
    }
}

#[test]
fn attached_networks_are_graph_nodes_of_their_own() {
    let mut state = node_a();
    state.attached.push(olsrv2::AttachedView {
        prefix: "0.0.0.0/0".parse().unwrap(),
        originator: ip("10.77.0.3"),
        distance: 2,
        metric: Metric::MIN,
        ansn: 1,
        expires: NOW,
    });
    let graph: Value = serde_json::from_str(&text("netjsoninfo graph", &state)).unwrap();
    let nodes = graph["collection"][0]["nodes"].as_array().unwrap();
    let gateway = nodes
        .iter()
        .find(|node| node["properties"]["type"] == "attached")
        .unwrap();
    assert_eq!(gateway["id"], "id_10.77.0.3_0.0.0.0/0");
    let table: Value =
        serde_json::from_str(&text("olsrv2info json attached_network", &state)).unwrap();
    assert_eq!(table["attached_network"][0]["attached_net"], "0.0.0.0/0");
    assert_eq!(table["attached_network"][0]["domain_distance"], 2);
}

#[test]
fn stations_are_told_with_what_their_driver_tells() {
    let mut state = node_a();
    assert_eq!(text("layer2info neighbor", &state), "");
    state.stations.push(StationView {
        interface: InterfaceId(62),
        station: Station {
            mac: [0x42, 0, 0, 0, 2, 0],
            established: Some(true),
            signal_dbm: Some(-30),
            tx_failed: Some(7),
            ..Station::default()
        },
        reachable: true,
        metric: Metric::new(84),
    });
    let reported: Value = serde_json::from_str(&text("layer2info json neighbor", &state)).unwrap();
    let station = &reported["neighbor"][0];
    assert_eq!(station["if"], "e2");
    assert_eq!(station["neighbor_mac"], "42:00:00:00:02:00");
    assert_eq!(station["signal_dbm"], -30);
    assert_eq!(station["tx_failed"], 7);
    assert_eq!(station["tx_bitrate"], "-");
    assert_eq!(station["metric_in"], 84);
}

/// A text interface on some port, with the loop that it is in.
struct Served {
    reactor: Reactor,
    telnet: Telnet,
    now: Cell<Time>,
    views: Cell<usize>,
}

impl Served {
    fn new() -> Self {
        let reactor = Reactor::new().unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let telnet = Telnet::port(address, &reactor, NOW).unwrap();
        Self {
            reactor,
            telnet,
            now: Cell::new(NOW),
            views: Cell::new(0),
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.telnet.listener.local_addr().unwrap()).unwrap()
    }

    /// A turn of the loop in which each look at the clock takes 0.1 ms; the time goes on to what is due.
    fn turn(&mut self, state: impl Fn() -> State) {
        if let Some(due) = self.telnet.poll_timeout() {
            self.now.set(self.now.get().max(due));
        }
        let clock = || {
            self.now.set(self.now.get() + Duration::from_micros(100));
            self.now.get()
        };
        let observe = || {
            self.views.set(self.views.get() + 1);
            state()
        };
        self.telnet.serve(&self.reactor, clock, observe);
    }
}

/// What a client that sends `input` and then nothing reads until the end.
fn conversation(input: &[u8]) -> String {
    let mut served = Served::new();
    let mut client = served.connect();
    // The other end may have closed already.
    let _ = client.write_all(input);
    let _ = client.shutdown(Shutdown::Write);
    served.turn(node_a);
    while !served.telnet.sessions.is_empty() {
        served.turn(node_a);
    }
    let mut all = Vec::new();
    // A session that is ended by force may reset the connection after the last octet.
    let _ = client.read_to_end(&mut all);
    String::from_utf8(all).unwrap()
}

#[test]
fn framing_is_that_of_olsrd2() {
    let json =
        "{\"originator\": [{\n\"originator\":\"10.77.0.1\"},{\n\"originator\":\"fd77::1\"}]}";
    let table = "10.77.0.1\nfd77::1\n";
    assert_eq!(conversation(b"/olsrv2info json originator\n"), json);
    assert_eq!(conversation(b"//olsrv2info originator\n"), table);
    assert_eq!(
        conversation(b"/olsrv2info originator/olsrv2info json originator\n"),
        format!("{table}{json}")
    );
    assert_eq!(
        conversation(b"olsrv2info originator\n"),
        format!("{table}\n> ")
    );
    assert_eq!(
        conversation(b"olsrv2info jsonraw originator\r\nquit\nversion\n"),
        format!("{json}\n> ")
    );
    assert_eq!(
        conversation(b"nosuch\n"),
        "Error, unknown command 'nosuch'\n\n> "
    );
}

#[test]
fn a_line_too_long_ends_the_session() {
    let fits = format!("{:LINE_MAX$}\n", "version");
    assert!(conversation(fits.as_bytes()).starts_with("olsrv2d "));
    let too_long = format!("{:width$}\n", "version", width = LINE_MAX + 1);
    for input in [too_long.as_bytes(), &[b'x'; 3000]] {
        let reported = conversation(input);
        assert!(
            reported.is_empty() || reported == "Error, a line has at most 256 octets\n",
            "{reported}"
        );
    }
}

#[test]
fn a_line_has_a_bounded_number_of_commands() {
    let fits = "/version".repeat(COMMANDS_MAX) + "\n";
    let answered = conversation(fits.as_bytes());
    assert_eq!(answered.lines().count(), COMMANDS_MAX);
    let too_many = "/version".repeat(COMMANDS_MAX + 1) + "\n";
    let refused = "Error, a line has at most 8 commands\n";
    assert_eq!(conversation(too_many.as_bytes()), refused);
    let subjects = "/netjsoninfo graph graph graph graph graph\n";
    let refused = "Error, more than 4 subjects of netjsoninfo\n";
    assert_eq!(conversation(subjects.as_bytes()), refused);
}

#[test]
fn the_session_that_was_silent_longest_gives_way() {
    let mut served = Served::new();
    let mut clients = Vec::new();
    for _ in 0..=SESSIONS_MAX {
        clients.push(served.connect());
        served.turn(node_a);
    }
    while served.telnet.sessions.len() < SESSIONS_MAX {
        served.turn(node_a);
    }
    assert_eq!(served.telnet.sessions.len(), SESSIONS_MAX);
    assert_eq!(clients[0].read(&mut [0]).unwrap(), 0);
}

/// A mesh with so many edges that its graph is megabytes long.
fn large() -> State {
    let mut state = node_a();
    let edge = state.edges[0];
    let address = |n: u32| IpAddr::from((0x0a4e_0000 + n).to_be_bytes());
    let edges = (0..10_000).map(|n| EdgeView {
        confirmed: true,
        from: address(n % 4000),
        to: address(n / 5),
        ..edge
    });
    state.edges.extend(edges);
    state
}

#[test]
fn nobody_holds_more_than_a_portion_of_an_answer() {
    let mut served = Served::new();
    let mut clients: Vec<TcpStream> = (0..SESSIONS_MAX).map(|_| served.connect()).collect();
    for client in &mut clients {
        client
            .write_all(b"/netjsoninfo graph/netjsoninfo graph\n")
            .unwrap();
    }
    let most = |served: &Served| {
        let sessions = served.telnet.sessions.values();
        sessions.map(|client| client.session.backlog()).max()
    };
    for _ in 0..500 {
        served.turn(large);
        assert!(most(&served).is_none_or(|most| most < 2 * PORTION));
    }
    assert_eq!(served.views.get(), 1, "they share a view");
}

#[test]
fn who_does_not_read_is_closed() {
    let mut served = Served::new();
    let mut client = served.connect();
    client.write_all(b"/netjsoninfo graph\n").unwrap();
    served.turn(large);
    while !served.telnet.sessions.is_empty() {
        served.turn(large);
        assert!(served.now.get() < NOW + PATIENCE);
    }
    assert!(served.telnet.view.is_none());
}

#[test]
fn questions_without_pause_take_no_more_than_the_share() {
    let mut served = Served::new();
    let mut client = served.connect();
    let end = NOW + Duration::from_secs(10);
    let mut turns = 0_u32;
    while served.now.get() < end {
        client.write_all(b"\n").unwrap();
        served.turn(node_a);
        turns += 1;
    }
    // Each turn counts 0.1 ms of work.
    let worked = turns * Duration::from_micros(100);
    let allowed = Duration::from_secs(10) * SHARE_TCP / 100 + Duration::from_millis(100);
    assert!(worked <= allowed, "{worked:?}");
}
