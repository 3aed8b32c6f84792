"""The meaning of a cjdroute.conf: what is imported, what is named as left out, and what is refused."""

import json
import tomllib
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.config.settings import SettingsError
from meshsec.core.formats import cjdroute, overlay_key, overlayd
from meshsec.core.formats.overlayd import Admin, Beacons, Ethernet, Neighbour, OverlayConf, Udp, User
from meshsec.core.trust import identity

KEYS = json.loads((Path(__file__).parents[3] / "tests/vectors/cjdns/keys.json").read_text())
KEY, ADDRESS = KEYS[0]["publicKey"], KEYS[0]["ipv6"]
PORTS = range(1, 130)
FIELDS = [
    *("interfaces", "UDPInterface", "ETHInterface", "connectTo", "bind", "admin", "router", "interface", "beacon"),
    *("authorizedPasswords", "password", "user", "ipv6", "publicKey", "192.0.2.1:1", "other"),
]


def neighbour(**values: object) -> dict[str, object]:
    return {"publicKey": KEY, "password": "secret", **values}


def udp(**values: object) -> dict[str, object]:
    return {"interfaces": {"UDPInterface": [{"bind": "0.0.0.0:1", **values}]}}


def refusals(document: object) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        cjdroute.decode(document)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize("recorded", KEYS)
def test_recorded_keys_are_read(recorded: dict[str, str]) -> None:
    key = overlay_key.decode(recorded["publicKey"])
    assert overlay_key.encode(key) == recorded["publicKey"]
    assert identity.address_of(key) == IPv6Address(recorded["ipv6"])


@pytest.mark.parametrize(
    "text", ["", KEY[:-2], KEY[1:], f"a{KEY[1:]}", f"é{KEY[1:]}", f"{KEY[:51]}z.k", f"{'0' * 52}.k", f"{KEY} "]
)
def test_a_malformed_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="52 digits"):
        overlay_key.decode(text)


@given(st.binary(min_size=32, max_size=32))
def test_a_key_of_no_node_is_refused_and_any_other_comes_back(octets: bytes) -> None:
    text = overlay_key.encode(octets)
    if identity.is_mesh_address(identity.address_of(octets)):
        assert overlay_key.decode(text) == octets
    else:
        with pytest.raises(ValueError, match="fc00::/8"):
            overlay_key.decode(text)


def test_an_empty_configuration_is_imported() -> None:
    assert cjdroute.decode({}) == cjdroute.Imported(OverlayConf(), (), None)


def test_a_single_interface_may_stand_without_brackets() -> None:
    document = {"interfaces": {"UDPInterface": {"bind": "0.0.0.0:1"}, "ETHInterface": {"bind": "eth0"}}}
    assert cjdroute.decode(document).conf == OverlayConf(udp=(Udp("0.0.0.0:1"),), ethernet=(Ethernet("eth0"),))


BEACONS: dict[str, object] = {"beacon": 1, "beaconPort": 64512, "beaconDevices": ["eth0", "all"]}


@pytest.mark.parametrize(
    ("changed", "expected", "ignored"),
    [
        ({}, Udp("0.0.0.0:1", Beacons.ACCEPT, 64512, ("eth0", "all")), []),
        ({"beacon": 0}, Udp("0.0.0.0:1"), []),
        ({"beaconPort": None}, Udp("0.0.0.0:1"), [("beacon",)]),
        ({"beaconDevices": []}, Udp("0.0.0.0:1"), [("beacon",)]),
        ({"beaconDevices": ["192.0.2.255"]}, Udp("0.0.0.0:1"), [("beaconDevices", 0), ("beacon",)]),
        (
            {"beaconDevices": ["192.0.2.255", "eth0"]},
            Udp("0.0.0.0:1", Beacons.ACCEPT, 64512, ("eth0",)),
            [("beaconDevices", 0)],
        ),
        ({"bind": "[::]:1"}, Udp("[::]:1"), [("beacon",)]),
    ],
)
def test_beacons_that_overlayd_supports_are_imported(
    changed: dict[str, object], expected: Udp, ignored: list[tuple[str | int, ...]]
) -> None:
    values = {key: value for key, value in {**BEACONS, **changed}.items() if value is not None}
    imported = cjdroute.decode(udp(**values))
    assert imported.conf.udp == (expected,)
    place = ("interfaces", "UDPInterface", 0)
    assert [problem.path for problem in imported.ignored] == [(*place, *where) for where in ignored]


@pytest.mark.parametrize(
    ("admin", "expected", "ignored"),
    [
        ({"bind": "127.0.0.1:5", "password": "word"}, Admin("127.0.0.1:5", "word"), []),
        ({"bind": "[::1]:5"}, Admin("[::1]:5"), []),
        ({"password": "NONE"}, Admin("127.0.0.1:11234"), ["password"]),
        ({"bind": "0.0.0.0:5", "password": "word"}, None, ["bind"]),
    ],
)
def test_the_admin_api_is_for_this_machine(admin: dict[str, str], expected: Admin | None, ignored: list[str]) -> None:
    imported = cjdroute.decode({"admin": admin})
    assert imported.conf.admin == expected
    assert [problem.path[-1] for problem in imported.ignored] == ignored


def test_a_setting_that_is_not_imported_is_named_unless_it_is_empty() -> None:
    document = {
        "privateKey": "00",
        "interfaces": {"_disabled_ETHInterface": [{"bind": "eth0"}]},
        "router": {
            "supernodes": [KEY],
            "dnsSeeds": [],
            "ipTunnel": {"outgoingConnections": [KEY]},
            "interface": {"type": "SocketInterface", "socketFullPath": "/run/x"},
        },
        "security": [{"nofiles": 1}],
        "publicKey": KEY,
    }
    imported = cjdroute.decode(document)
    assert imported.key == KEY
    assert {".".join(map(str, problem.path)) for problem in imported.ignored} == {
        "privateKey",
        "interfaces._disabled_ETHInterface",
        "router.supernodes",
        "router.ipTunnel",
        "router.interface.type",
        "security",
    }


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "is no object in braces"),
        ({"interfaces": 1}, "interfaces: 1 is not allowed; allowed: a table"),
        ({"interfaces": {"UDPInterface": "x"}}, "interfaces.UDPInterface: is no list"),
        ({"interfaces": {"UDPInterface": [7]}}, "interfaces.UDPInterface.0: is no object in braces"),
        ({"interfaces": {"UDPInterface": [{}]}}, "interfaces.UDPInterface.0.bind: is missing; allowed: ADDRESS:PORT"),
        (udp(bind="example.org:1"), "UDPInterface.0.bind: 'example.org:1' is not allowed; allowed: ADDRESS:PORT"),
        (udp(bind="192.0.2.1"), "UDPInterface.0.bind: '192.0.2.1' is not allowed"),
        (udp(bind="192.0.2.256:1"), "UDPInterface.0.bind: '192.0.2.256:1' is not allowed"),
        (udp(bind="192.0.2.1:65536"), "UDPInterface.0.bind: '192.0.2.1:65536' is not allowed"),
        (udp(bind="[192.0.2.1]:1"), "UDPInterface.0.bind: '[192.0.2.1]:1' is not allowed"),
        (udp(bind="[::1%lo]:1"), "UDPInterface.0.bind: '[::1%lo]:1' is not allowed"),
        (udp(beacon=3), "UDPInterface.0.beacon: 3 is not allowed; allowed: a whole number, 0 to 2"),
        (udp(beaconPort=0), "UDPInterface.0.beaconPort: 0 is not allowed"),
        (udp(beaconDevices=[1]), "UDPInterface.0.beaconDevices: [1] is not allowed"),
        (udp(connectTo=[]), "UDPInterface.0.connectTo: [] is not allowed"),
        (udp(connectTo={"192.0.2.1:1": "x"}), "connectTo.192.0.2.1:1: is no object in braces"),
        (udp(connectTo={"[::1]:1": neighbour()}), "allowed: an address of the family that bind has"),
        (udp(connectTo={"host:1": neighbour()}), "connectTo.host:1: 'host:1' is not allowed"),
        (udp(connectTo={"192.0.2.1:1": {}}), "192.0.2.1:1.publicKey: is missing; allowed: 52 digits"),
        (udp(connectTo={"192.0.2.1:1": neighbour(publicKey="x.k")}), "publicKey: 'x.k' is not allowed; allowed: 52"),
        (udp(connectTo={f"192.0.2.1:{port}": neighbour() for port in range(1, 258)}), "has more than 256 entries"),
        ({"interfaces": {"ETHInterface": [{"bind": "lo"}]}}, "ETHInterface.0.bind: 'lo' is not allowed"),
        (
            {"interfaces": {"ETHInterface": [{"bind": "eth0", "connectTo": {"192.0.2.1:1": neighbour()}}]}},
            "allowed: the address of one device",
        ),
        (
            {"interfaces": {"ETHInterface": [{"bind": "eth0", "connectTo": {"01:00:5e:00:00:01": neighbour()}}]}},
            "allowed: the address of one device",
        ),
        (
            {"interfaces": {"ETHInterface": [{"bind": f"eth{number}"} for number in range(33)]}},
            "interfaces: there are 33 interfaces; allowed: at most 32",
        ),
        (
            {
                "interfaces": {
                    "UDPInterface": [
                        {"bind": f"0.0.0.0:{bind}", "connectTo": {f"192.0.2.{bind}:{n}": neighbour() for n in PORTS}}
                        for bind in (1, 2)
                    ]
                }
            },
            "interfaces: there are 258 neighbours; allowed: at most 256",
        ),
        ({"authorizedPasswords": [{}]}, "authorizedPasswords.0.password: is no password"),
        ({"authorizedPasswords": [{"password": "a", "ipv6": "2001:db8::1"}]}, "allowed: an address in fc00::/8"),
        ({"authorizedPasswords": [{"password": "a"}, {"password": "a"}]}, "1.password: another user has it"),
        (
            {"authorizedPasswords": [{"password": "a", "user": "u"}, {"password": "b", "user": "u"}]},
            "1.user: 'u' is not allowed; allowed: each user once",
        ),
        ({"admin": {"bind": "11234"}}, "admin.bind: '11234' is not allowed"),
        ({"router": {"interface": {"tunDevice": "a b"}}}, "router.interface.tunDevice: 'a b' is not allowed"),
    ],
)
def test_a_refusal_names_the_value_and_what_is_allowed(document: object, told: str) -> None:
    (refused,) = refusals(document)
    assert told in refused


@pytest.mark.parametrize(
    "document",
    [
        {"authorizedPasswords": [{"password": 918273}]},
        {"authorizedPasswords": [{"password": "918273"}, {"password": "918273"}]},
        {"admin": {"password": [918273]}},
        udp(connectTo={"192.0.2.1:1": neighbour(password=918273)}),
    ],
)
def test_no_message_repeats_a_password(document: dict[str, Any]) -> None:
    (refused,) = refusals(document)
    assert "password" in refused
    assert "918273" not in refused


def test_no_representation_shows_a_password() -> None:
    conf = OverlayConf(
        users=(User("918273"),),
        udp=(Udp("0.0.0.0:1", neighbours=(Neighbour("192.0.2.1:1", KEY, "918273"),)),),
        admin=Admin("127.0.0.1:1", "918273"),
    )
    assert "918273" not in repr(conf)


def test_a_key_at_the_usual_path_is_left_to_the_unit() -> None:
    """The unit hands the key at the usual path to overlayd as a credential, so the file does not name it."""
    assert tomllib.loads(overlayd.render(OverlayConf(), "/var/lib/meshsec/node.key", "comment")) == {}
    assert tomllib.loads(overlayd.render(OverlayConf(), "/node.key", "comment")) == {"key": "/node.key"}


def test_the_written_text_has_every_imported_setting() -> None:
    conf = OverlayConf(
        users=(User('pass"\\é\n', "u", IPv6Address(ADDRESS)), User("other")),
        udp=(
            Udp("0.0.0.0:1", Beacons.SEND, 64512, ("all",), (Neighbour("192.0.2.1:1", KEY, "p", "l", "n"),)),
            Udp("[::]:1", neighbours=(Neighbour("[::1]:1", KEY),)),
        ),
        ethernet=(Ethernet("eth0", Beacons.ACCEPT, (Neighbour("02:02:03:04:05:06", KEY),)),),
        admin=Admin("127.0.0.1:1", "word"),
        tun="tun0",
        anybody=True,
    )
    assert tomllib.loads(overlayd.render(conf, "/node.key", "comment")) == {
        "key": "/node.key",
        "permit": "anybody",
        "tun": {"name": "tun0"},
        "admin": {"bind": "127.0.0.1:1", "password": "word"},
        "user": [{"name": "u", "password": 'pass"\\é\n', "address": ADDRESS}, {"password": "other"}],
        "udp": [
            {
                "bind": "0.0.0.0:1",
                "beacon": "send",
                "beacon_port": 64512,
                "beacon_devices": ["all"],
                "peer": [{"address": "192.0.2.1:1", "key": KEY, "password": "p", "login": "l", "name": "n"}],
            },
            {"bind": "[::]:1", "beacon": "off", "peer": [{"address": "[::1]:1", "key": KEY}]},
        ],
        "ethernet": [{"device": "eth0", "beacon": "accept", "peer": [{"address": "02:02:03:04:05:06", "key": KEY}]}],
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_document_is_imported_or_refused(document: object) -> None:
    try:
        imported = cjdroute.decode(document)
    except SettingsError:
        return
    tomllib.loads(overlayd.render(imported.conf, "/node.key", "comment"))


@given(st.text())
def test_any_password_is_written_as_toml_that_says_the_same(password: str) -> None:
    written = overlayd.render(OverlayConf(users=(User(password),)), "/node.key", "comment")
    assert tomllib.loads(written)["user"] == [{"password": password}]
