//! Large and changing networks. After the changes, every router has the right routes (RFC 7181, section 4).

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Accept, AcceptedNetwork, Config, Family, InterfaceId, LinkStatus, Metric, Prefix};
use proptest::prelude::*;
use simulator::{truth, Field, Mesh, NodeId, Port, RADIO};

const STEP: Duration = Duration::from_millis(200);
/// Everything that expires does so within this time: the validity times of HELLOs and of TCs, one after the other, and
/// the intervals of both, because what follows from the first may be told with the next message alone.
const SETTLING: Duration = Duration::from_secs(6 + 15 + 2 + 5 + 1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn random_network(seed: u64, nodes: usize, config: Config) -> (Mesh, Field) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let field = Field::random(nodes, 10.0, &mut rng);
    let mut mesh = Mesh::new(seed, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    mesh.set_radio_pairs(&field.pairs());
    (mesh, field)
}

/// Moves nodes, loses packets, stops and restarts routers, then lets the network settle.
fn live(mesh: &mut Mesh, mut field: Field, seed: u64, rounds: usize, loss: f64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    mesh.radio.loss = loss;
    for _ in 0..rounds {
        field.drift(0.03, &mut rng);
        mesh.set_radio_pairs(&field.pairs());
        let restarted = rng.usize(..mesh.node_count());
        mesh.stop(restarted);
        mesh.run_for(Duration::from_millis(rng.u64(500..3000)));
        mesh.start(restarted);
    }
    mesh.radio.loss = 0.0;
    mesh.run_for(SETTLING);
}

#[test]
fn a_hundred_moving_nodes_with_loss_find_all_routes() {
    let (mut mesh, field) = random_network(7, 100, Config::default());
    live(&mut mesh, field, 7, 10, 0.1);
    assert_eq!(truth::check(&mesh), Ok(()));
}

#[test]
fn selectors_alone_suffice_for_shortest_routes() {
    let config = Config {
        advertise_all: false,
        ..Config::default()
    };
    let (mut mesh, field) = random_network(8, 60, config);
    live(&mut mesh, field, 8, 5, 0.1);
    assert_eq!(truth::check(&mesh), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_network_finds_all_routes(
        seed in any::<u64>(), nodes in 2usize..40, loss in 0.0..0.3f64, advertise_all in any::<bool>(),
    ) {
        let config = Config { advertise_all, ..Config::default() };
        let (mut mesh, field) = random_network(seed, nodes, config);
        live(&mut mesh, field, seed, 6, loss);
        prop_assert_eq!(truth::check(&mesh), Ok(()));
    }
}

#[test]
fn halves_part_and_meet_again() {
    let (mut mesh, field) = random_network(3, 80, Config::default());
    assert!(mesh.run_until_converged(seconds(20), STEP).is_some());
    mesh.set_radio_pairs(&field.pairs_of_halves());
    mesh.run_for(SETTLING);
    assert_eq!(truth::check(&mesh), Ok(()), "parted");
    mesh.set_radio_pairs(&field.pairs());
    let met = mesh.run_until_converged(seconds(10), STEP);
    assert!(
        met.is_some(),
        "not converged after the halves met: {:?}",
        truth::check(&mesh)
    );
}

fn line(seed: u64, config: Config, nodes: usize) -> Mesh {
    let mut mesh = Mesh::new(seed, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    (1..nodes).for_each(|node| mesh.connect(node - 1, node));
    mesh
}

#[test]
fn a_restarted_router_is_believed_whatever_its_new_numbers() {
    for seed in 0..30 {
        let mut mesh = line(seed, Config::default(), 4);
        assert!(mesh.run_until_converged(seconds(5), STEP).is_some());
        // The silence is shorter than any validity time, so the other routers still have the old ANSN.
        mesh.stop(1);
        mesh.run_for(Duration::from_millis(500));
        mesh.start(1);
        let back = mesh.run_until_converged(seconds(9), STEP);
        assert!(back.is_some(), "seed {seed}: {:?}", truth::check(&mesh));
    }
}

#[test]
fn numbers_wrap_around_unnoticed() {
    let config = Config {
        first_sequence_number: Some(65533),
        ..Config::default()
    };
    let mut mesh = line(5, config, 3);
    assert!(mesh.run_until_converged(seconds(5), STEP).is_some());
    for _ in 0..6 {
        mesh.cut(1, 2);
        mesh.run_for(SETTLING);
        assert_eq!(truth::check(&mesh), Ok(()));
        mesh.connect(1, 2);
        mesh.run_for(seconds(3));
        assert_eq!(truth::check(&mesh), Ok(()));
    }
    let own = mesh.originator(1, Family::V6);
    let ansn = mesh.router(1).unwrap().ansn(own).unwrap();
    assert!(ansn < 100, "the ANSN {ansn} has not wrapped");
}

#[test]
fn a_link_that_works_one_way_is_heard_and_never_used() {
    let mut mesh = line(1, Config::default(), 3);
    let port = |node| Port {
        node,
        interface: RADIO,
    };
    mesh.connect_one_way(port(0), port(2));
    mesh.run_for(SETTLING);
    assert_eq!(truth::check(&mesh), Ok(()));
    let links = mesh.router(2).unwrap().links();
    let from_0 = links
        .iter()
        .find(|link| link.originator == Some(mesh.originator(0, Family::V6)));
    assert_eq!(from_0.map(|link| link.status), Some(LinkStatus::Heard));
}

#[test]
fn nobody_routes_through_an_unwilling_router() {
    let mut mesh = Mesh::new(1, Config::default(), &[Family::V6]);
    mesh.add_nodes(4);
    for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
        mesh.connect(a, b);
    }
    let unwilling = Config {
        originator_v6: Some(match mesh.originator(1, Family::V6) {
            IpAddr::V6(address) => address,
            IpAddr::V4(_) => unreachable!(),
        }),
        routing_willingness: 0,
        flooding_willingness: 0,
        advertise_all: false,
        ..Config::default()
    };
    mesh.act(1, |router| router.reconfigure(Duration::ZERO, unwilling));
    mesh.run_for(seconds(10));
    let is_mpr = |node: NodeId| {
        let own = mesh.originator(node, Family::V6);
        let neighbours = mesh.router(0).unwrap().neighbours();
        neighbours.iter().any(|neighbour| {
            neighbour.originator == Some(own)
                && neighbour.is_routing_mpr
                && neighbour.is_flooding_mpr
        })
    };
    assert!(!is_mpr(1) && is_mpr(2));
}

#[test]
fn a_measured_metric_moves_the_route() {
    let mut mesh = Mesh::new(1, Config::default(), &[Family::V6]);
    mesh.add_nodes(3);
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        mesh.connect(a, b);
    }
    mesh.run_for(seconds(10));
    let hops = |mesh: &Mesh| {
        route(mesh, 0, mesh.originator(2, Family::V6).into())
            .unwrap()
            .hops
    };
    assert_eq!(hops(&mesh), 1);
    let link = mesh.router(2).unwrap().links().into_iter();
    let from_0 = link
        .into_iter()
        .find(|link| link.originator == Some(mesh.originator(0, Family::V6)))
        .unwrap();
    let now = mesh.now();
    mesh.act(2, |router| {
        assert!(router.set_link_metric(now, RADIO, from_0.address, Some(Metric::MAX)))
    });
    mesh.run_for(seconds(10));
    assert_eq!(
        hops(&mesh),
        2,
        "the direct link is dearer than the way round"
    );
}

#[test]
fn attached_networks_are_reached_and_own_ones_kept() {
    let attached = ["fd99::/64", "::/0"].map(|prefix| olsrv2::Attached {
        prefix: prefix.parse().unwrap(),
        distance: 2,
        metric: Metric::MIN,
    });
    let originator: std::net::Ipv6Addr = "fd00::3".parse().unwrap();
    let named = attached.map(|own| AcceptedNetwork {
        prefix: own.prefix,
        from: vec![originator.into()],
    });
    let accept = Accept {
        networks: named.to_vec(),
        ..Accept::default()
    };
    let config = Config {
        accept,
        ..Config::default()
    };
    let mut mesh = line(2, config, 3);
    assert_eq!(mesh.originator(2, Family::V6), originator);
    let config = Config {
        originator_v6: Some(originator),
        attached: attached.to_vec(),
        ..Config::default()
    };
    mesh.act(2, |router| router.reconfigure(Duration::ZERO, config));
    mesh.run_for(seconds(5));
    for own in attached {
        let far = route(&mesh, 0, own.prefix).expect("a route to the attached network");
        assert_eq!((far.hops, far.originator), (4, originator.into()));
        assert_eq!(route(&mesh, 2, own.prefix).map(|route| route.hops), None);
    }
    let config = Config {
        originator_v6: Some(originator),
        ..Config::default()
    };
    let now = mesh.now();
    mesh.act(2, |router| router.reconfigure(now, config));
    mesh.run_for(seconds(2));
    assert_eq!(
        route(&mesh, 0, attached[0].prefix).map(|route| route.hops),
        None
    );
}

/// A router's next originator is one of its addresses until the key behind the present one ends. Its neighbour has just
/// sent a TC, so that the next one, which names the new originator, must wait.
#[test]
fn a_router_takes_up_its_next_originator_without_a_gap() {
    let next: std::net::Ipv6Addr = "fd00::99".parse().unwrap();
    let address = Prefix::host(next.into());
    let attached = |text: &str, distance| olsrv2::Attached {
        prefix: text.parse().unwrap(),
        distance,
        metric: Metric::MIN,
    };
    for seed in 0..20 {
        let mut mesh = line(seed, Config::default(), 4);
        let announcing = Config {
            originator_v6: Some("fd00::4".parse().unwrap()),
            attached: vec![attached("fd00::99/128", 0)],
            ..Config::default()
        };
        let now = mesh.now();
        mesh.act(3, |router| router.reconfigure(now, announcing.clone()));
        mesh.run_for(seconds(2));
        assert!(route(&mesh, 0, address).is_some());
        let busy = Config {
            originator_v6: Some("fd00::3".parse().unwrap()),
            attached: vec![attached("fd98::/64", 1)],
            ..Config::default()
        };
        let now = mesh.now();
        mesh.act(2, |router| router.reconfigure(now, busy));
        mesh.run_for(Duration::from_millis(50));
        let renamed = Config {
            originator_v6: Some(next),
            ..Config::default()
        };
        let now = mesh.now();
        mesh.act(3, |router| router.reconfigure(now, renamed));
        for _ in 0..200 {
            mesh.run_for(Duration::from_millis(10));
            let at = mesh.now() - now;
            assert!(route(&mesh, 0, address).is_some(), "seed {seed}: {at:?}");
        }
        let originator = route(&mesh, 0, address).map(|route| route.originator);
        assert_eq!(originator, Some(next.into()));
    }
}

/// Node 3 has two ways to node 0, and announces something else again and again, for which routes are calculated each
/// 0.5 s at most. The nearer end of one way is lost meanwhile.
#[test]
fn a_lost_link_is_routed_around_at_once_while_something_else_changes() {
    let step = Duration::from_millis(10);
    for seed in 0..20 {
        let mut mesh = Mesh::new(seed, Config::default(), &[Family::V6]);
        mesh.add_nodes(4);
        for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
            mesh.connect(a, b);
        }
        mesh.run_for(seconds(10));
        let way = |mesh: &Mesh| {
            let route = route(mesh, 0, mesh.originator(3, Family::V6).into()).unwrap();
            [1, 2]
                .into_iter()
                .find(|&node| mesh.originator(node, Family::V6) == route.next_originator)
                .unwrap()
        };
        let lost = way(&mesh);
        let originator = mesh.originator(3, Family::V6);
        mesh.cut(0, lost);
        let mut since = None;
        for number in 0..1000 {
            if number % 10 == 0 {
                let now = mesh.now();
                mesh.act(3, |router| {
                    router.reconfigure(now, announcing(originator, number))
                });
            }
            mesh.run_for(step);
            if !has_link(&mesh, 0, lost) {
                since.get_or_insert(mesh.now());
            }
            if way(&mesh) != lost {
                break;
            }
        }
        let since = since.expect("the link is lost before its route changes");
        let took = mesh.now() - since;
        assert!(took <= Duration::from_millis(110), "seed {seed}: {took:?}");
    }
}

/// Returns whether a router counts its link to another one as symmetric.
fn has_link(mesh: &Mesh, node: NodeId, other: NodeId) -> bool {
    let originator = Some(mesh.originator(other, Family::V6));
    let links = mesh.router(node).unwrap().links();
    links
        .into_iter()
        .any(|link| link.originator == originator && link.status == LinkStatus::Symmetric)
}

fn announcing(originator: IpAddr, number: u32) -> Config {
    let attached = olsrv2::Attached {
        prefix: format!("fd98:{number:x}::/64").parse().unwrap(),
        distance: 1,
        metric: Metric::MIN,
    };
    Config {
        attached: vec![attached],
        originator_v6: Some(originator.to_string().parse().unwrap()),
        ..Config::default()
    }
}

/// A client's address moves from node 2 to node 1, which announces it before node 2 withdraws it.
#[test]
fn a_network_that_moves_has_a_route_all_the_time() {
    let client: Prefix = "fd99::7/128".parse().unwrap();
    let attached = olsrv2::Attached {
        prefix: client,
        distance: 1,
        metric: Metric::MIN,
    };
    let mut mesh = line(4, Config::default(), 3);
    let owner = |mesh: &Mesh| route(mesh, 0, client).map(|route| route.originator);
    let attach = |mesh: &mut Mesh, node, networks: &[olsrv2::Attached]| {
        let now = mesh.now();
        mesh.act(node, |router| router.set_attached(now, networks.to_vec()));
    };
    attach(&mut mesh, 2, &[attached]);
    mesh.run_for(seconds(1));
    assert_eq!(owner(&mesh), Some(mesh.originator(2, Family::V6)));
    let step = Duration::from_millis(10);
    for moved in [false, true] {
        let (node, networks): (_, &[_]) = if moved { (2, &[]) } else { (1, &[attached]) };
        attach(&mut mesh, node, networks);
        for _ in 0..100 {
            mesh.run_for(step);
            assert!(owner(&mesh).is_some(), "no route at {:?}", mesh.now());
        }
        assert_eq!(owner(&mesh), Some(mesh.originator(1, Family::V6)));
    }
    attach(&mut mesh, 1, &[]);
    mesh.run_for(seconds(1));
    assert_eq!(owner(&mesh), None, "a withdrawal takes a second at most");
}

fn route(mesh: &Mesh, node: NodeId, destination: Prefix) -> Option<olsrv2::RouteView> {
    let routes = mesh.router(node).unwrap().routes();
    routes
        .into_iter()
        .find(|route| route.destination == destination)
}

#[test]
fn one_address_on_all_interfaces_works() {
    // IPv4 has no interface addresses in the simulator: every interface uses the originator.
    let mut mesh = Mesh::new(1, Config::default(), &[Family::V4]);
    mesh.add_nodes(4);
    let port = |node, interface| Port {
        node,
        interface: InterfaceId(interface),
    };
    for node in 0..3 {
        mesh.connect_ports(port(node, 2), port(node + 1, 3));
    }
    assert!(
        mesh.run_until_converged(seconds(3), STEP).is_some(),
        "{:?}",
        truth::check(&mesh)
    );
}

#[test]
fn two_routers_with_one_originator_are_noticed() {
    let mut mesh = line(1, Config::default(), 5);
    let IpAddr::V6(originator) = mesh.originator(0, Family::V6) else {
        unreachable!()
    };
    mesh.run_for(seconds(10));
    assert!((0..5).all(|node| mesh.duplicate_originators(node) == 0));
    mesh.start_with(
        4,
        Config {
            originator_v6: Some(originator),
            ..Config::default()
        },
    );
    mesh.run_for(seconds(30));
    assert!(mesh.duplicate_originators(0) > 0, "node 0 has not noticed");
    assert!(
        mesh.duplicate_originators(0) <= 6,
        "at most one notice in 5 s"
    );
}

#[test]
fn the_check_finds_missing_outdated_and_long_routes() {
    let mut mesh = line(1, Config::default(), 4);
    assert!(matches!(
        truth::check(&mesh),
        Err(truth::Wrong::Missing { .. })
    ));
    mesh.run_for(seconds(5));
    assert_eq!(truth::check(&mesh), Ok(()));
    mesh.connect(0, 3);
    assert!(matches!(
        truth::check(&mesh),
        Err(truth::Wrong::NotShortest { .. })
    ));
    mesh.cut(0, 3);
    mesh.cut(2, 3);
    assert!(matches!(
        truth::check(&mesh),
        Err(truth::Wrong::Unreachable { .. })
    ));
}
