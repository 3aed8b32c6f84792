//! A router that signs takes up its next key, whose address it has announced before, and stays in reach meanwhile
//! (docs/development/adr/0041).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use olsrv2::{Attached, Config, Family, Metric, Prefix, RouteView, Signatures, TrustedKey};
use simulator::{Mesh, NodeId};

const NODES: usize = 4;
const LAST: NodeId = NODES - 1;
const NEXT: u64 = 99;
const STEP: Duration = Duration::from_millis(10);

/// Which cards all nodes have while the key changes.
#[derive(Clone, Copy, Debug)]
enum Cards {
    None,
    /// Of both keys, the next of which is known to sign as soon as it does.
    Both,
    /// The present key was ended at the others first.
    NextAlone,
}

fn config(signatures: Signatures) -> Config {
    Config {
        signatures,
        ..Config::default()
    }
}

/// The originators and public keys of the last node: of its present key and of its next one.
struct Identities {
    present: (Ipv6Addr, [u8; 32]),
    next: (Ipv6Addr, [u8; 32]),
}

impl Identities {
    fn new() -> Self {
        let [present, next] = [LAST as u64, NEXT].map(Mesh::identity);
        Self { present, next }
    }

    /// A line of nodes that sign, whose last one announces the address of its next key.
    fn line(&self, seed: u64, signatures: Signatures) -> Mesh {
        let mut mesh = Mesh::new(seed, config(signatures), &[Family::V6]);
        mesh.add_nodes(NODES);
        (0..NODES).for_each(|node| mesh.give_key(node, node as u64));
        (1..NODES).for_each(|node| mesh.connect(node - 1, node));
        let announcing = Config {
            originator_v6: Some(self.present.0),
            attached: vec![attached(Prefix::host(self.next.0.into()), 0)],
            ..config(signatures)
        };
        reconfigure(&mut mesh, LAST, announcing);
        mesh
    }

    fn give(&self, mesh: &mut Mesh, cards: Cards, signs: bool) {
        let card = |of: (Ipv6Addr, [u8; 32]), signs| {
            let (originator, key) = of;
            (IpAddr::from(originator), TrustedKey { key, signs })
        };
        let cards: BTreeMap<_, _> = match cards {
            Cards::None => BTreeMap::new(),
            Cards::Both => [card(self.present, true), card(self.next, signs)].into(),
            Cards::NextAlone => [card(self.next, signs)].into(),
        };
        for node in 0..LAST {
            mesh.act(node, |router| router.set_trusted_keys(cards.clone()));
        }
    }

    fn route(&self, mesh: &Mesh, node: NodeId) -> Option<RouteView> {
        let routes = mesh.router(node).unwrap().routes().into_iter();
        let mut found = routes.filter(|one| one.destination == Prefix::host(self.next.0.into()));
        found.next()
    }
}

fn attached(prefix: Prefix, distance: u8) -> Attached {
    Attached {
        prefix,
        distance,
        metric: Metric::MIN,
    }
}

fn reconfigure(mesh: &mut Mesh, node: NodeId, config: Config) {
    let now = mesh.now();
    mesh.act(node, |router| router.reconfigure(now, config));
}

/// Its neighbour has just sent a TC, so that the next one, which names the new originator, must wait.
#[test]
fn the_next_key_of_a_router_that_signs_is_taken_up_without_a_gap() {
    let identities = Identities::new();
    for (signatures, cards) in [
        (Signatures::Prefer, Cards::None),
        (Signatures::Prefer, Cards::Both),
        (Signatures::Prefer, Cards::NextAlone),
        (Signatures::Require, Cards::Both),
    ] {
        for seed in 0..5 {
            let case = format!("{signatures:?}, {cards:?}, seed {seed}");
            let mut mesh = identities.line(seed, signatures);
            identities.give(&mut mesh, cards, false);
            mesh.run_for(Duration::from_secs(20));
            let busy = Config {
                originator_v6: Some(Mesh::identity(LAST as u64 - 1).0),
                attached: vec![attached("fd98::/64".parse().unwrap(), 1)],
                ..config(signatures)
            };
            reconfigure(&mut mesh, LAST - 1, busy);
            mesh.run_for(Duration::from_millis(50));
            let renamed = Config {
                originator_v6: Some(identities.next.0),
                ..config(signatures)
            };
            reconfigure(&mut mesh, LAST, renamed);
            mesh.change_key(LAST, NEXT);
            for step in 0..200 {
                mesh.run_for(STEP);
                if step == 5 {
                    identities.give(&mut mesh, cards, true);
                }
                for node in 0..LAST {
                    let route = identities.route(&mesh, node);
                    assert!(route.is_some(), "{case}: node {node}, step {step}");
                }
            }
            let route = identities.route(&mesh, 0);
            let found = route.map(|route| (route.originator, route.confirmed));
            assert_eq!(found, Some((identities.next.0.into(), true)), "{case}");
        }
    }
}
