//! Whose networks and addresses are routed to: P is key 2 and a neighbour, Q is key 3 behind it.

use olsrv2::{Accept, AcceptedNetwork, Config, Prefix, Signatures};
use rfc5444::iana::{address_tlv, local_if};
use rfc5444::Tlv;

use crate::peers::*;

const NETWORK: &str = "fd99:1::/48";

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Whether a router that accepts the network from P alone routes to a network that a router announces.
fn is_routed(signatures: Signatures, of: u8, network: &str) -> bool {
    let [p, q] = [2, 3].map(|number| locator(&key(number)));
    let mut subject = Subject::new(signatures);
    let networks = vec![AcceptedNetwork {
        prefix: prefix(NETWORK),
        from: vec![p],
    }];
    let accept = Accept {
        networks,
        ..Accept::default()
    };
    let config = subject.router.config().clone();
    let config = Config { accept, ..config };
    subject.router.reconfigure(subject.now, config);
    let mut of_p = hello(p, vec![quote(FIRST)]);
    of_p.addresses.push(two_hop(q, vec![quote(500)]));
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 300, 0));
    let mut announced = attached(address("::"));
    announced.prefix = prefix(network);
    for (number, counter) in [(2, 300), (3, 500)] {
        let mut entries = match number {
            2 => vec![advertised(q, vec![quote(500)])],
            _ => vec![advertised(p, vec![quote(300)])],
        };
        entries.extend((number == of).then(|| announced.clone()));
        let message = tc(locator(&key(number)), 1, entries);
        subject.hear(NEIGHBOUR, &sign(&key(number), &message, counter, 0));
    }
    assert!(subject.route(p).is_some() && subject.route(q).is_some());
    let routes = subject.router.routes();
    routes
        .iter()
        .any(|route| route.destination == prefix(network))
}

#[test]
fn a_network_is_routed_to_its_gateway_as_it_was_accepted_whatever_is_signed() {
    for signatures in [Signatures::Off, Signatures::Prefer, Signatures::Require] {
        for (of, network, routed) in [
            (2, NETWORK, true),
            (3, NETWORK, false),
            (2, "fd99:1::/49", false),
            (2, "fd99::/16", false),
            (2, "::/0", false),
        ] {
            let found = is_routed(signatures, of, network);
            assert_eq!(found, routed, "{signatures:?}: {network} of {of}");
        }
    }
}

#[test]
fn an_address_that_somebody_claims_is_his_until_its_router_is_heard() {
    let [p, r] = [2, 4].map(|number| locator(&key(number)));
    for in_tc in [false, true] {
        let mut subject = Subject::new(Signatures::Off);
        let mut of_p = hello(p, vec![]);
        let mut listed = vec![];
        if in_tc {
            listed.push(routable(r));
        } else {
            let other = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::OTHER_IF]);
            of_p.addresses.push(entry(r, vec![other]));
        }
        for message in [of_p, tc(p, 1, listed)] {
            subject.hear(NEIGHBOUR, &message.encode().unwrap());
        }
        assert_eq!(subject.route(r), Some(address(NEIGHBOUR)), "{in_tc}");
        subject.hear(STRANGER, &tc(r, 1, vec![]).encode().unwrap());
        assert_eq!(subject.route(r), None, "{in_tc}");
        assert!(subject.route(p).is_some());
    }
}

#[test]
fn no_route_leads_to_an_address_outside_the_prefixes_of_the_mesh_or_in_a_connected_network() {
    let (p, host) = (locator(&key(2)), address("2001:db8::9"));
    let prefixes = |texts: &[&str]| texts.iter().map(|text| prefix(text)).collect();
    for (hosts, connected, routed) in [
        (&[][..], &[][..], true),
        (&["fd00::/8"], &[], false),
        (&["fd00::/8", "2001:db8::/32"], &[], true),
        (&[], &["2001:db8::/32"], false),
    ] {
        let mut subject = Subject::new(Signatures::Off);
        let accept = Accept {
            hosts: prefixes(hosts),
            connected: prefixes(connected),
            ..Accept::default()
        };
        let config = subject.router.config().clone();
        let config = Config { accept, ..config };
        subject.router.reconfigure(subject.now, config);
        for message in [hello(p, vec![]), tc(p, 1, vec![attached(host)])] {
            subject.hear(NEIGHBOUR, &message.encode().unwrap());
        }
        assert!(subject.route(p).is_some());
        let case = format!("{hosts:?} {connected:?}");
        assert_eq!(subject.route(host).is_some(), routed, "{case}");
    }
}
