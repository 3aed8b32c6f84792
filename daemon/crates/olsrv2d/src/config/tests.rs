use super::*;

/// The refusal of `text`: its line and message.
fn refusal(text: &str) -> (Option<usize>, String) {
    let fault = Config::parse(text).expect_err(text);
    (fault.line(text), fault.message)
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = Config::parse("").unwrap();
    assert!(config.originators.is_empty() && config.interfaces.is_empty());
    assert_eq!(config.tc.interval, Duration::from_secs(5));
    assert_eq!(config.tc.validity, Duration::from_secs(15));
    let RouteSettings {
        table,
        protocol,
        metric,
        network_metric,
    } = config.route;
    assert_eq!(
        (table, protocol, metric, network_metric),
        (254, 100, 20, 32_768)
    );
    let hosts: Vec<String> = config.accept.hosts.iter().map(Prefix::to_string).collect();
    assert_eq!(hosts[..2], ["fc00::/7", "10.0.0.0/8"]);
    assert_eq!((hosts.len(), config.accept.networks.len()), (5, 0));
    assert_eq!(
        (config.signatures, &config.signer),
        (Signatures::Off, &None)
    );
    assert_eq!(config.management.telnet, None);
    assert_eq!(
        config.management.query,
        Some(PathBuf::from("/run/olsrv2d/query.sock"))
    );
    assert_eq!(
        config.management.socket,
        Some(PathBuf::from("/run/olsrv2d/changes.sock"))
    );
}

#[test]
fn every_key_is_read() {
    let config = Config::parse(
        r#"
        originators = ["10.77.0.1", "fd77::1"]
        metric = 1000
        willingness = 3
        signatures = "require"
        signer = "/run/s.sock"
        tc = { interval = 1, validity = 4.5 }
        route = { table = 1000, protocol = 42, metric = 7, network_metric = 8 }
        accept = { hosts = ["10.77.0.0/16"], network = [{ prefix = "::/0", from = ["fd77::3", "fd77::4"] }] }
        management = { telnet = "[::1]:2009", socket = "/tmp/x.sock", socket_group = "mesh" }
        [[interface]]
        name = "mesh0"
        hello_interval = 0.5
        [[attached]]
        prefix = "0.0.0.0/0"
        distance = 2
        metric = 9
        "#,
    )
    .unwrap();
    assert_eq!(config.originators.len(), 2);
    assert_eq!(config.interfaces, ["mesh0"]);
    assert_eq!((config.metric.get(), config.willingness), (1000, 3));
    assert_eq!(config.signatures, Signatures::Require);
    assert_eq!(config.signer, Some(PathBuf::from("/run/s.sock")));
    assert_eq!(config.tc.validity, Duration::from_millis(4500));
    assert_eq!(config.hello.validity, Duration::from_millis(1500));
    assert_eq!(
        (config.attached[0].distance, config.attached[0].metric.get()),
        (2, 9)
    );
    assert_eq!(config.management.telnet, "[::1]:2009".parse().ok());
    assert_eq!(
        config.management.query,
        Some(PathBuf::from("/tmp/query.sock"))
    );
    assert_eq!((config.route.metric, config.route.network_metric), (7, 8));
    assert_eq!(config.accept.hosts, ["10.77.0.0/16".parse().unwrap()]);
    let network = &config.accept.networks[0];
    assert_eq!(
        (network.prefix.to_string().as_str(), network.from.len()),
        ("::/0", 2)
    );
    assert_eq!(config.management.socket_group.as_deref(), Some("mesh"));
}

#[test]
fn a_refusal_names_line_key_value_and_what_is_allowed() {
    let cases = [
        (
            "\nwillingness = 16",
            2,
            "willingness = 16 is refused; allowed: 0 to 15",
        ),
        (
            "[tc]\ninterval = 0.01",
            2,
            "tc.interval = 0.01 is refused; allowed: 0.05 to 3600 seconds",
        ),
        (
            "[tc]\ninterval = 5\nvalidity = 4",
            3,
            "tc.validity = 4 is refused; allowed: 5 to 36000 seconds",
        ),
        (
            "[route]\nprotocol = 2",
            2,
            "route.protocol = 2 is refused; allowed: 5 to 255",
        ),
        (
            "signatures = \"always\"",
            1,
            "signatures = \"always\" is refused; allowed: \"off\", \"prefer\" or \"require\"",
        ),
        (
            "signer = \"sign.sock\"",
            1,
            "signer = \"sign.sock\" is refused; allowed: \"off\", or an absolute path",
        ),
        (
            "\nsignatures = \"require\"",
            2,
            "signatures = \"require\" is refused; allowed: \"off\" without a signer; add signer = \"/run/olsrv2-signer/sign.sock\"",
        ),
        (
            "signer = \"off\"\nsignatures = \"prefer\"",
            2,
            "signatures = \"prefer\" is refused; allowed: \"off\" without a signer",
        ),
        (
            "metric = 0",
            1,
            "metric = 0 is refused; allowed: 1 to 16776960",
        ),
        (
            "\n\n[[interface]]\nname = \"lo\"",
            4,
            "interface.name = \"lo\" is refused",
        ),
        (
            "[[interface]]\nname = \"a\"\nmetric = \"dat\"",
            3,
            "interface.metric = \"dat\" is refused; allowed: \"auto\", \"hop\", 1 to 16776960",
        ),
        (
            "[[interface]]\nname = \"a\"\nmetric = 0",
            3,
            "interface.metric = 0 is refused; allowed: \"auto\", \"hop\", 1 to 16776960",
        ),
        (
            "[[attached]]\nprefix = \"10.1.1.1/16\"",
            2,
            "attached.prefix = \"10.1.1.1/16\" is refused",
        ),
        (
            "[accept]\nhosts = [\"10.0.0.0/8\",\n\"10.1.1.1/16\"]",
            3,
            "accept.hosts = \"10.1.1.1/16\" is refused; allowed: ADDRESS/LENGTH",
        ),
        (
            "[[accept.network]]\nprefix = \"::1/0\"\nfrom = [\"fd77::3\"]",
            2,
            "accept.network.prefix = \"::1/0\" is refused",
        ),
        (
            "[[accept.network]]\nprefix = \"::/0\"\nfrom = []",
            3,
            "accept.network.from = [] is refused; allowed: originators of routers",
        ),
        (
            "[[accept.network]]\nprefix = \"::/0\"\nfrom = [\"fd77::3\",\n\"gateway\"]",
            4,
            "accept.network.from = \"gateway\" is refused",
        ),
        (
            "[route]\nnetwork_metric = 0",
            2,
            "route.network_metric = 0 is refused; allowed: 1 to 4294967295",
        ),
        (
            "originators = [\"10.0.0.1\",\n \"10.0.0.2\"]",
            2,
            "originators = \"10.0.0.2\" is refused",
        ),
        (
            "originators = [\"fe80::1\"]",
            1,
            "originators = \"fe80::1\" is refused",
        ),
        (
            "[management]\ntelnet = \"0.0.0.0:2009\"",
            2,
            "management.telnet = \"0.0.0.0:2009\" is refused",
        ),
        (
            "[management]\nsocket = \"x.sock\"",
            2,
            "management.socket = \"x.sock\" is refused",
        ),
        (
            "[management]\ntelnet = \"off\"\nquery = \"x.sock\"",
            3,
            "management.query = \"x.sock\" is refused; allowed: \"off\", or an absolute path",
        ),
        (
            "[management]\nsocket = \"/x\"\nquery = \"/x\"",
            3,
            "management.query = \"/x\" is refused; allowed: another path",
        ),
    ];
    for (text, line, message) in cases {
        let (found_line, found) = refusal(text);
        assert_eq!(found_line, Some(line), "{text}: {found}");
        assert!(found.starts_with(message), "{text}: {found}");
    }
}

#[test]
fn a_signer_is_needed_only_where_signatures_are_looked_at() {
    for (text, wanted) in [
        ("signatures = \"off\"", None),
        ("signatures = \"off\"\nsigner = \"/s\"", None),
        ("signer = \"/s\"", None),
        ("signer = \"/s\"\nsignatures = \"prefer\"", Some("/s")),
    ] {
        let config = Config::parse(text).unwrap();
        assert_eq!(config.wanted_signer(), wanted.map(Path::new), "{text}");
    }
}

#[test]
fn an_unknown_key_and_a_wrong_type_are_refused_with_their_line() {
    let (line, message) = refusal("willingness = 7\nwilingness = 3\n");
    assert_eq!(line, Some(2));
    assert!(
        message.contains("wilingness") && message.contains("originators"),
        "{message}"
    );
    let (line, message) = refusal("[tc]\ninterval = \"5s\"\n");
    assert_eq!(line, Some(2));
    assert!(message.contains("5s"), "{message}");
    let (line, _) = refusal("metric = 1\n[[interface\n");
    assert_eq!(line, Some(2));
}

#[test]
fn an_interface_twice_is_refused() {
    let (line, _) = refusal("[[interface]]\nname = \"a\"\n[[interface]]\nname = \"a\"\n");
    assert_eq!(line, Some(4));
}

#[test]
fn each_interface_has_its_hello_timing() {
    let text = "[[interface]]\nname = \"a\"\nhello_interval = 1\n[[interface]]\nname = \"b\"\n";
    let config = Config::parse(text).unwrap();
    let timing = |seconds| Timing {
        interval: Duration::from_secs(seconds),
        validity: Duration::from_secs(3 * seconds),
    };
    let expected = [("a", timing(1)), ("b", timing(2))];
    let hellos = config.hellos.iter();
    assert!(hellos.map(|(name, own)| (name.as_str(), *own)).eq(expected));
    assert_eq!(config.hello, timing(2), "the longest");
}

#[test]
fn each_interface_has_its_weight() {
    let text = |metric| format!("[[interface]]\nname = \"a\"\n{metric}");
    let metric = Metric::new(500).unwrap();
    for (given, expected) in [
        ("", Weight::Auto),
        ("metric = \"auto\"", Weight::Auto),
        ("metric = \"hop\"", Weight::Hop),
        ("metric = 500", Weight::Constant(metric)),
    ] {
        let config = Config::parse(&text(given)).unwrap();
        assert_eq!(config.weights["a"], expected);
    }
}

#[test]
fn not_a_number_is_refused() {
    let (_, message) = refusal("tc = { interval = nan }");
    assert!(message.contains("NaN"), "{message}");
}
