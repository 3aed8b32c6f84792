"""The settings' own promises; ``adapters/test_config_file.py`` has the recorded refusals."""

from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.config.accepted_networks import AcceptedNetwork
from meshsec.core.config.link_settings import LinkSettings, Timing
from meshsec.core.config.radio_settings import Mode, RadioSettings, Security
from meshsec.core.config.routing_settings import AttachedNetwork, Endpoint
from meshsec.core.config.settings import EspChoice, Settings, SettingsError, decode
from meshsec.core.policy.policy import Policy
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import UnknownNodes

MINIMAL: dict[str, Any] = {"node": {"name": "a"}, "routing": {"interfaces": ["mesh0"]}}


def decoded(table: dict[str, Any]) -> Settings:
    return decode(table, "/etc/meshsec", lambda _: Policy(hold_time=7.0))


def with_value(section: str, key: str, value: object) -> dict[str, Any]:
    return {**MINIMAL, section: {**MINIMAL.get(section, {}), key: value}}


def test_a_missing_key_has_its_default() -> None:
    settings = decoded(MINIMAL)
    assert settings.paths.control_socket == "/run/meshsec/control.sock"
    assert settings.paths.key == "/var/lib/meshsec/node.key"
    assert settings.ike.vici == "/run/meshsec/charon.vici"
    assert settings.ike.esp is EspChoice.AUTO
    assert settings.policy.hold_time == 7.0
    assert settings.profile == "default"


def test_relative_paths_start_at_the_configuration_file() -> None:
    paths = decoded({**MINIMAL, "paths": {"peers": "p", "state": "../s", "run": "/r"}}).paths
    assert (paths.peers, paths.state, paths.run) == ("/etc/meshsec/p", "/etc/s", "/r")
    assert decoded({**MINIMAL, "paths": {"run": "r"}}).ike.vici == "/etc/meshsec/r/charon.vici"
    assert decoded({**MINIMAL, "paths": {"run": "r"}}).ike.pluto == "/etc/meshsec/r/pluto/pluto.ctl"


def test_overrides_are_laid_over_the_profile() -> None:
    policy = decoded({**MINIMAL, "policy": {"unknown_nodes": "allow"}}).policy
    assert (policy.unknown_nodes, policy.hold_time) == (UnknownNodes.ALLOW, 7.0)


def test_each_value_reaches_its_field() -> None:
    assert decoded(with_value("node", "ipv4", "10.77.0.1")).node.ipv4 == IPv4Address("10.77.0.1")
    assert decoded(with_value("routing", "telnet", "localhost:1")).routing.telnet == Endpoint("localhost", 1)
    assert decoded(with_value("routing", "hello_interval", 1)).routing.hello.interval == 1.0
    assert decoded(with_value("routing", "tc_validity", 9.5)).routing.tc.validity == 9.5
    accept = with_value("routing", "accept", [{"prefix": "::/0", "from": ["ridge", "fd77::1"]}])
    assert decoded(accept).routing.accept == (AcceptedNetwork(ip_network("::/0"), ("ridge", ip_address("fd77::1"))),)
    attached = with_value("routing", "attached", [{"prefix": "::/0", "distance": 255}, {"prefix": "10.0.0.0/8"}])
    assert decoded(attached).routing.attached == (
        AttachedNetwork(ip_network("::/0"), 255),
        AttachedNetwork(ip_network("10.0.0.0/8"), 1),
    )


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("routing", "hello_interval", 0.05),
        ("routing", "hello_interval", 3600),
        ("routing", "tc_validity", 36000),
        ("routing", "telnet", "127.0.0.1:65535"),
        ("routing", "interfaces", ["x" * 15] + [f"m{number}" for number in range(63)]),
        ("routing", "socket", "/" + "s" * 106),
        ("paths", "run", "/" + "r" * 93),
    ],
)
def test_the_last_allowed_value_is_accepted(section: str, key: str, value: object) -> None:
    assert decoded(with_value(section, key, value)).node.name == "a"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("routing", "hello_interval", 0.0499),
        ("routing", "hello_interval", 3600.1),
        ("routing", "hello_interval", float("nan")),
        ("routing", "tc_validity", 36000.1),
        ("routing", "telnet", "127.0.0.1:65536"),
        ("routing", "telnet", "127.0.0.1:0"),
        ("routing", "telnet", "127.0.0.1:٣"),
        ("routing", "telnet", "2009"),
        ("routing", "interfaces", [f"m{number}" for number in range(65)]),
        ("routing", "interfaces", ["a b"]),
        ("routing", "interfaces", ["a\u0000"]),
        ("routing", "interfaces", ["é" * 8]),
        ("routing", "interfaces", ["lo"]),
        ("routing", "interfaces", [".."]),
        ("routing", "interfaces", [1]),
        ("routing", "interfaces", "mesh0"),
        ("routing", "attached", ["10.0.0.0/8"]),
        ("routing", "attached", [{"prefix": f"10.0.{number}.0/24"} for number in range(257)]),
        ("routing", "attached", [{"prefix": "10.0.0.0/8", "distance": True}]),
        ("routing", "attached", [{"prefix": "10.0.0.0/8", "distance": 256}]),
        ("routing", "socket", "/" + "s" * 107),
        ("paths", "run", "/" + "r" * 94),
    ],
)
def test_the_first_value_beyond_the_limit_is_refused(section: str, key: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        decoded(with_value(section, key, value))
    (problem,) = caught.value.problems
    assert problem.path[:2] == (section, key)
    assert "; allowed: " in str(problem)


RADIO: dict[str, Any] = {"mesh_id": "rescue", "frequency": 2412, "security": "sae"}


def with_radio(**changes: object) -> dict[str, Any]:
    return {**MINIMAL, "radio": {**RADIO, **changes}}


def test_without_radio_there_is_none_and_an_interface_may_differ_from_it() -> None:
    assert decoded(MINIMAL).radios is None
    radios = decoded(with_radio(country="de", interfaces={"mesh1": {"frequency": 5180, "mode": "VHT80"}})).radios
    assert radios
    assert radios.of("mesh0") == RadioSettings("rescue", 2412, Security.SAE, country="DE")
    assert radios.of("mesh1") == RadioSettings("rescue", 5180, Security.SAE, mode=Mode.VHT80, country="DE")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mesh_id", "é" * 16),
        ("frequency", 5885),
        ("mode", "HT40-"),
        ("mcast_rate", 5.5),
        ("tx_power", 0),
        ("rssi_threshold", -100),
        ("rts_threshold", 0),
        ("rts_threshold", 2347),
        ("rts_threshold", "measured"),
        ("rts_threshold", "off"),
    ],
)
def test_a_radio_value_that_is_allowed_reaches_its_field(key: str, value: object) -> None:
    radios = decoded(with_radio(**{key: value})).radios
    assert radios
    assert getattr(radios.common, key) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mesh_id", ""),
        ("mesh_id", "é" * 16 + "e"),
        ("mesh_id", "a\n"),
        ("frequency", 2411),
        ("frequency", 5886),
        ("security", "wep"),
        ("mode", "HT40"),
        ("country", "D1"),
        ("country", "DEU"),
        ("mcast_rate", 7),
        ("mcast_rate", True),
        ("mcast_rate", [6]),
        ("tx_power", 37),
        ("rssi_threshold", 0),
        ("rts_threshold", 2348),
        ("rts_threshold", -1),
        ("rts_threshold", True),
        ("rts_threshold", "auto"),
        ("rts_threshold", 500.5),
        ("password", "in the clear"),
        ("interfaces", {"mesh1": {"frequency": "2412"}}),
        ("interfaces", {"mesh 1": {}}),
        ("interfaces", {f"m{number}": {} for number in range(17)}),
    ],
)
def test_a_radio_value_that_is_not_allowed_is_refused(key: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        decoded(with_radio(**{key: value}))
    (problem,) = caught.value.problems
    assert problem.path[:2] == ("radio", key)


def test_a_radios_required_keys_are_each_demanded_once() -> None:
    with pytest.raises(SettingsError) as caught:
        decoded({**MINIMAL, "radio": {"mode": "HT20", "interfaces": {"mesh0": {}}}})
    assert [problem.path[-1] for problem in caught.value.problems] == ["mesh_id", "frequency", "security"]


@pytest.mark.parametrize(
    ("radio", "where", "allowed"),
    [
        ({"shares": "mesh0"}, None, ""),
        ({"shares": "mesh1"}, ("access", "radio", "shares"), "one of routing.interfaces"),
        ({"shares": "mesh 0"}, ("access", "radio", "shares"), "1 to 15 octets"),
        ({"interface": "mesh0"}, ("access", "radio", "interface"), "an interface that is none of routing.interfaces"),
    ],
)
def test_an_access_point_shares_the_radio_of_a_mesh_interface_and_is_none_itself(
    radio: dict[str, str], where: tuple[str, ...] | None, allowed: str
) -> None:
    point = {"interface": "ap0", "ssid": "valley", "frequency": 2412, **radio}
    table = {**MINIMAL, "access": {"networks": ["10.130.0.0/16"], "radio": point}}
    if where is None:
        found = decoded(table).access.radio
        assert found is not None
        assert found.shares == "mesh0"
        return
    with pytest.raises(SettingsError) as caught:
        decoded(table)
    (problem,) = caught.value.problems
    assert problem.path == where
    assert allowed in str(problem)


def test_a_node_with_libreswan_says_on_its_card_that_it_cannot_sign() -> None:
    settings = decoded({**MINIMAL, "ike": {"daemon": "libreswan", "esp": "kernel"}})
    assert settings.ike.daemon is IkeDaemon.LIBRESWAN
    assert settings.ike.by_secret
    assert not decoded(MINIMAL).ike.by_secret


@pytest.mark.parametrize(
    ("ike", "key", "allowed"),
    [
        ({"daemon": "racoon"}, "daemon", '\'racoon\' is not allowed; allowed: "strongswan" or "libreswan"'),
        ({"daemon": "libreswan", "esp": "libipsec"}, "esp", "libreswan has ESP in the kernel alone"),
    ],
)
def test_an_impossible_ike_daemon_is_refused(ike: dict[str, str], key: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        decoded({**MINIMAL, "ike": ike})
    (problem,) = caught.value.problems
    assert problem.path == ("ike", key)
    assert allowed in problem.message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "node",
        "routing",
        "ike",
        "policy",
        "paths",
        "name",
        "interfaces",
        "attached",
        "prefix",
        "telnet",
        "esp",
        "run",
        "radio",
        "mcast_rate",
    ]
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4) | VALUES, max_size=5))
def test_any_table_is_settings_or_a_list_of_problems(table: dict[str, Any]) -> None:
    try:
        decoded(table)
    except SettingsError as error:
        assert error.problems  # noqa: PT017 - most tables are refused, some are not


def test_without_the_files_of_profiles_nothing_is_scheduled_unless_one_was_asked_for() -> None:
    assert decoded(MINIMAL).scheduling.profile.name == "stock"
    assert decoded(with_value("scheduling", "protect", ["/a"])).scheduling.protect == ("/a",)
    with pytest.raises(SettingsError, match=r"scheduling\.profile: 'governor' is not allowed; allowed: stock"):
        decoded(with_value("scheduling", "profile", "governor"))


STREAMS = ("encoder.service", "video@2.scope", "user-1000.slice", "/video", "/a/b.service", "/" + "g" * 254)
NO_STREAMS = ("", "encoder", "/", "/a/", "/a/../b", "a b.service", "/" + "g" * 255, 5)


@pytest.mark.parametrize("name", STREAMS)
def test_a_good_stream_is_accepted(name: str) -> None:
    assert decoded(with_value("scheduling", "protect", [name])).scheduling.protect == (name,)


@pytest.mark.parametrize("value", ["x.service", ["/a", "/a"], [f"/{n}" for n in range(17)], *([n] for n in NO_STREAMS)])
def test_a_bad_stream_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"scheduling\.protect.* is not allowed; allowed: "):
        decoded(with_value("scheduling", "protect", value))


def test_a_missing_metric_is_left_to_the_router() -> None:
    routing = {"interfaces": ["mesh0", "eth0"], "interface": {"eth0": {"metric": 26}, "mesh0": {"hello_interval": 1.0}}}
    assert decoded({**MINIMAL, "routing": routing}).routing.unweighed == ("mesh0",)
    assert decoded(MINIMAL).routing.unweighed == ("mesh0",)
    assert decoded(with_value("routing", "metric", 5)).routing.unweighed == ()
    assert decoded(with_value("routing", "daemon", "olsrd2")).routing.unweighed == ()


def test_an_interface_inherits_missing_keys_from_routing() -> None:
    common = {"interfaces": ["m0", "m1", "m2"], "hello_interval": 2.0, "hello_validity": 9.0}
    own = {"m0": {"hello_interval": 10.0}, "m1": {"hello_validity": 2.0}}
    links = decoded({**MINIMAL, "routing": {**common, "interface": own}}).routing.links
    assert links == {"m0": LinkSettings(Timing(10.0)), "m1": LinkSettings(Timing(2.0, 2.0))}


ACCESS: dict[str, Any] = {
    "networks": ["10.130.0.0/16"],
    "radio": {"interface": "wlan0", "ssid": "valley", "frequency": 5180, "security": "sae"},
}


@pytest.mark.parametrize(
    ("page", "access"),
    [
        ({}, ACCESS),
        ({"access": False}, ACCESS),
        ({"access": True}, {}),
        ({"access": True}, {**ACCESS, "ports": ["eth1"]}),
        ({"access": True}, {"networks": ACCESS["networks"]}),
        ({"access": True}, {**ACCESS, "radio": {**ACCESS["radio"], "security": "mixed"}}),
    ],
)
def test_clients_log_in_through_an_access_point_with_wpa3_alone(page: dict[str, Any], access: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="clients_log_in"):
        decoded({**MINIMAL, "page": {**page, "clients_log_in": True}, "access": access})
    allowed = {**MINIMAL, "page": {"access": True, "clients_log_in": True}, "access": ACCESS}
    assert decoded(allowed).page.clients_log_in
    assert not decoded({**MINIMAL, "page": page, "access": access}).page.clients_log_in
