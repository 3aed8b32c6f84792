use std::collections::BTreeSet;

use super::raw::TUN_DEFAULT;
use super::values::mac;
use super::*;

/// The text of a node's key.
fn key() -> String {
    let keys = (0..=u8::MAX).flat_map(|first| (0..=u8::MAX).map(move |second| [first, second]));
    let nodes = keys.map(|[first, second]| {
        let mut octets = [first; 32];
        octets[31] = second;
        PublicKey::from_octets(octets)
    });
    let mut nodes = nodes.filter(|key| key.node_address().is_ok());
    nodes.next().unwrap().to_string()
}

fn refusal(text: &str) -> (Option<usize>, String) {
    let fault = Config::parse(text).expect_err(text);
    (fault.line(text), fault.message)
}

#[test]
fn an_empty_file_gives_a_node_that_talks_to_nobody() {
    let config = Config::parse("").unwrap();
    assert_eq!(config.key, PathBuf::from(KEY_DEFAULT));
    assert_eq!(config.admission, Admission::Only(BTreeSet::new()));
    assert_eq!(config.tun.name.as_deref(), Some(TUN_DEFAULT));
    assert_eq!((config.tun.mtu, config.tun.address), (1304, true));
    assert!(!config.permits_by_control);
    assert!(config.interfaces.is_empty() && config.admin.is_none() && !config.has_secrets());
}

/// `meshsec import` made it of tests/vectors/cjdns/cjdroute.conf.
#[test]
fn what_import_writes_is_read() {
    let text = include_str!("../../../../../tests/vectors/cjdns/overlayd.toml");
    let config = Config::parse(text).unwrap();
    let peers = |interface: &Interface| interface.peers.len();
    assert_eq!(
        config.interfaces.iter().map(peers).collect::<Vec<_>>(),
        [1; 3]
    );
    assert_eq!((config.users.len(), config.has_secrets()), (2, true));
    assert_eq!(config.interfaces[0].beacons, Beacons::Send);
    assert!(config.admin.is_some_and(|admin| admin.password.is_none()));
    assert_eq!(config.tun.name.as_deref(), Some("tun0"));
}

#[test]
fn an_address_of_a_link_has_its_device() {
    let file = |bind: &str, address: &str| {
        let key = key();
        format!(
            "[[udp]]\nbind = \"{bind}\"\n[[udp.peer]]\naddress = \"{address}\"\nkey = \"{key}\""
        )
    };
    let config = Config::parse(&file("[::]:5000", "[fe80::1%mesh0]:5000")).unwrap();
    let expected = PeerAddress::UdpBy("[fe80::1]:5000".parse().unwrap(), "mesh0".into());
    assert_eq!(config.interfaces[0].peers[0].address, expected);
    for (bind, address) in [
        ("[::]:5000", "[fe80::1]:5000"),
        ("[::]:5000", "[fe80::1%mesh0]:0"),
        ("[::]:5000", "[fe80::1%]:5000"),
        ("[::]:5000", "[fe80::1%a/b]:5000"),
        ("[::]:5000", "[2001:db8::1%mesh0]:5000"),
        ("0.0.0.0:5000", "[fe80::1%mesh0]:5000"),
    ] {
        let (line, message) = refusal(&file(bind, address));
        assert_eq!(line, Some(4), "{message}");
        assert!(message.contains(address), "{message}");
    }
}

#[test]
fn a_refusal_names_line_key_value_and_what_is_allowed() {
    let cases = [
        ("\ntun.mtu = 1279", 2, "tun.mtu = 1279", "1280 to 1400"),
        ("tun.name = \"a b\"", 1, "tun.name = \"a b\"", "15 octets"),
        (
            "key = \"node.key\"",
            1,
            "key = \"node.key\"",
            "an absolute path",
        ),
        ("permit = \"all\"", 1, "\"all\"", "\"anybody\""),
        ("permit = [\"fd00::1\"]", 1, "\"fd00::1\"", "fc00::/8"),
        ("permit = 1", 1, "\"anybody\"", "\"control\""),
        ("tun.address = 8", 1, "`8`", "boolean"),
        ("[admin]\nbind = \"0.0.0.0:1\"", 2, "admin.bind", "loopback"),
        (
            "[admin]\nbind = \"127.0.0.1:1\"\npassword = \"NONE\"",
            3,
            "\"NONE\"",
            "or none",
        ),
        ("[[udp]]\nbind = \"1\"", 2, "udp.bind = \"1\"", "a port"),
        (
            "[[ethernet]]\ndevice = \"e\"\nbeacon = \"on\"",
            3,
            "\"on\"",
            "\"send\"",
        ),
        (
            "[[udp]]\nbind = \"0.0.0.0:0\"\nbeacon_port = 0",
            3,
            "beacon_port = 0",
            "1 to 65535",
        ),
        (
            "[[user]]\npassword = \"p\"\naddress = \"::1\"",
            3,
            "\"::1\"",
            "fc00::/8",
        ),
        ("dscp = 1", 1, "dscp", "unknown field"),
    ];
    for (text, line, found, allowed) in cases {
        let (at, message) = refusal(text);
        assert_eq!(at, Some(line), "{text}: {message}");
        assert!(
            message.contains(found) && message.contains(allowed),
            "{message}"
        );
    }
}

#[test]
fn until_the_control_socket_says_who_is_permitted_it_is_nobody() {
    let config = Config::parse("permit = \"control\"\ntun.address = false").unwrap();
    assert_eq!(config.admission, Admission::Only(BTreeSet::new()));
    assert!(config.permits_by_control && !config.tun.address);
    let config = Config::parse("permit = [\"fc00::1\"]").unwrap();
    assert!(!config.permits_by_control);
}

#[test]
fn a_peer_needs_a_key_and_an_address_of_its_interface() {
    let udp = |address: &str, key: &str| {
        format!(
            "[[udp]]\nbind = \"0.0.0.0:0\"\n[[udp.peer]]\naddress = \"{address}\"\nkey = \"{key}\""
        )
    };
    let key = key();
    let config = Config::parse(&udp("1.2.3.4:5", &key)).unwrap();
    assert_eq!(config.interfaces[0].peers[0].key.to_string(), key);
    for (address, key, line, allowed) in [
        ("[::1]:1", key.clone(), 4, "same family"),
        ("1.2.3.4:0", key.clone(), 4, "and a port"),
        (
            "1.2.3.4:5",
            key.replacen(|_| true, "a", 1),
            5,
            "character 1 is not",
        ),
        ("1.2.3.4:5", key[1..].to_owned(), 5, "53 characters"),
    ] {
        let (at, message) = refusal(&udp(address, &key));
        assert_eq!(at, Some(line), "{message}");
        assert!(message.contains(allowed), "{message}");
    }
}

#[test]
fn addresses_of_devices() {
    assert_eq!(mac("02:00:5e:10:00:fF"), Some([2, 0, 0x5e, 0x10, 0, 0xff]));
    for wrong in [
        "",
        "02:00:5e:10:00",
        "02:00:5e:10:00:01:02",
        "01:00:5e:10:00:01",
        "2:0:5:1:0:1",
        "+2:00:5e:10:00:01",
    ] {
        assert_eq!(mac(wrong), None, "{wrong}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let config = Config::parse("[[user]]\npassword = \"geheim\"").unwrap();
    assert!(config.has_secrets() && !format!("{config:?}").contains("geheim"));
}
