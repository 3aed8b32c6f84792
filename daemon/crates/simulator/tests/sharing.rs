//! Routers that share verified signatures do what they do alone.

use std::time::Duration;

use olsrv2::{Config, Counters, Family, Signatures};
use simulator::{truth, verifications, Mesh};

/// The counters of a line of 6 after 20 s, and how many signatures were verified for all.
fn run(shared: bool) -> (Vec<Counters>, usize) {
    let config = Config {
        signatures: Signatures::Require,
        ..Config::default()
    };
    let mut mesh = Mesh::new(1, config, &[Family::V6]);
    mesh.add_nodes(6);
    (0..6).for_each(|node| mesh.give_key(node, node as u64));
    (1..6).for_each(|node| mesh.connect(node - 1, node));
    if shared {
        mesh.share_verifications();
    }
    verifications();
    mesh.run_for(Duration::from_secs(20));
    assert_eq!(truth::check(&mesh), Ok(()));
    (mesh.counters(), verifications().len())
}

#[test]
fn the_same_is_verified_counted_and_sent() {
    let ((alone, none), (shared, computed)) = (run(false), run(true));
    assert_eq!(alone, shared);
    let verified: u64 = shared.iter().map(|counters| counters.verified).sum();
    assert_eq!(none, 0);
    assert!(
        computed > 0 && 2 * computed < verified as usize,
        "{computed} of {verified}"
    );
}
