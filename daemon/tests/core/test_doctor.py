"""Doctor's verdicts: each fault gives its own check a level and a fix, and no other."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.config.access_settings import AccessRadio
from meshsec.core.config.radio_settings import RadioSettings, Security
from meshsec.core.explain.copied_keys import Own
from meshsec.core.explain.doctor import examine, view
from meshsec.core.explain.findings import AccessPointFacts, Check, Facts, Level, RadioFacts
from meshsec.core.radio.observed import Combination, Interface, Limit, MeshParameters, Observed, Phy, Radio
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import EspBackend
from meshsec.core.values.refusals import Refusal, Source

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/schema/meshsec-doctor-1.json").read_text(encoding="utf-8")
)

SOUND = Facts(
    backend=EspBackend.LIBIPSEC,
    backend_reason="the kernel refuses",
    backend_problem="",
    ike_version="5.9.8",
    ike_problem="",
    plugins_missing=[],
    router_software="olsrv2d 0.1.0",
    router_problem="",
    router_warnings=[],
    routes_missing=[],
    rules_in_force=True,
    dropped={"clear_out": 0, "clear_in": 7},
    addresses_missing=[],
    address_problem="",
    key_problem="",
    forwarding={"net.ipv6.conf.all.forwarding": True},
    mtus={"mesh0": 1500},
    trust_problems=[],
    closed_by_doubt=False,
    config_problem="",
    strangers=[],
)


def test_a_sound_node_is_all_ok_and_says_what_it_is() -> None:
    checks = {check.name: check for check in examine(SOUND)}
    assert {check.level for check in checks.values()} == {Level.OK}
    assert {check.fix for check in checks.values()} == {""}
    assert "5.9.8" in checks["IKE daemon"].found
    assert "in user space" in checks["ESP"].found
    assert checks["fail-closed rules"].found == "they are in force; dropped so far: clear_in 7"
    assert view(examine(SOUND))["verdict"] == "ok"


def test_ipv4_networks_that_not_everything_here_can_use_are_named_and_no_fault() -> None:
    name = "IPv4 networks of peers"
    assert name not in {check.name for check in examine(SOUND)}
    (check,) = (one for one in examine(replace(SOUND, limited_networks="0.0.0.0/0: of no use")) if one.name == name)
    assert (check.level, check.found) == (Level.OK, "0.0.0.0/0: of no use")


def test_the_guards_drops_are_reported_and_peers_with_forged_answers_are_named() -> None:
    def first(**facts: Any) -> Check:
        return next(one for one in examine(replace(SOUND, **facts)) if one.name == "first messages")

    assert "dropped so far: unproven 3" in first(guarded={"unproven": 3, "forged": 0}).found
    assert first(guarded={"forged": 0}).found.endswith("nothing")
    broken = first(guard_problem="nft: no such expression")
    assert (broken.level, broken.found) == (Level.WARN, "nft: no such expression")
    contested = first(contested=["boat"], guarded={"forged": 9})
    assert contested.level is Level.WARN
    assert "boat" in contested.found
    denied = first(denied=["ship"])
    assert denied.level is Level.WARN
    assert "refused and accepted in the name of ship" in denied.found


def test_a_peer_to_which_nothing_passes_is_named() -> None:
    assert "silent peers" not in {check.name for check in examine(SOUND)}
    (check,) = (one for one in examine(replace(SOUND, lost=["boat", "ship"])) if one.name == "silent peers")
    assert check.level is Level.WARN
    assert "boat, ship" in check.found
    assert check.fix


def test_proposals_that_the_ike_daemon_lacks_are_reported_and_no_fault() -> None:
    (check,) = (one for one in examine(replace(SOUND, left_out=2)) if one.name == "IKE daemon")
    assert check.level is Level.OK
    assert "cannot do 2 of the policy's proposals" in check.found


def test_an_ipv4_address_that_is_not_believed_is_reported_with_the_reason() -> None:
    assert "peers' IPv4 addresses" not in {check.name for check in examine(SOUND)}
    (check,) = (one for one in examine(replace(SOUND, ipv4_doubts=["b: 9.9.9.9 is out"])) if "IPv4" in one.name)
    assert (check.level, "b: 9.9.9.9 is out" in check.found, "mesh_prefixes" in check.fix) == (Level.WARN, True, True)


def test_a_program_on_an_ike_port_is_named_with_the_command_that_ends_it() -> None:
    (check,) = (one for one in examine(replace(SOUND, ports_problem="charon runs without 4500")) if "ports" in one.name)
    assert (check.level, check.found) == (Level.FAIL, "charon runs without 4500")
    assert "meshsec-ike.service has the port within seconds" in check.fix


FORGED = tuple(Source("mesh-m", f"fe80::{n}", 9 - n) for n in range(1, 6))


@pytest.mark.parametrize(
    ("refusal", "found", "meaning"),
    [
        (Refusal("over_limit", 599, FORGED, 500), "are full: 599 entries", "invents routers"),
        (Refusal("rate_limited", 7, FORGED[:1]), "7 messages were dropped", "floods"),
        (Refusal("malformed", 1, FORGED[:1]), "1 packets or messages were no RFC 5444", "garbage"),
        (Refusal("spoofed", 2, FORGED[:1]), "2 messages claimed an address of this node", "meshsec key show"),
        (Refusal("disbelieved", 151, FORGED[:1]), "151 messages said what only another router may say", "forges"),
        (Refusal("forged", 1, FORGED[:1]), "1 messages had a false signature", "`meshsec topology`"),
        (Refusal("replayed", 2, FORGED[:1]), "2 signed messages were repeated", "two nodes have one key"),
        (Refusal("not_signed", 4, FORGED[:1]), "4 messages were not signed and were ignored", 'set "prefer"'),
    ],
)
def test_refusals_of_the_router_are_reported_with_their_senders(refusal: Refusal, found: str, meaning: str) -> None:
    (check,) = (one for one in examine(replace(SOUND, refusals=[refusal])) if one.name == "routing input")
    assert check.level is Level.WARN
    assert found in check.found
    assert "fe80::1 on mesh-m (8)" in check.found
    assert meaning in check.fix
    assert "tcpdump -e -n -i mesh-m udp port 269" in check.fix


def test_of_many_forged_addresses_three_are_named() -> None:
    facts = replace(SOUND, refusals=[Refusal("over_limit", 1, FORGED, 500)])
    (check,) = (one for one in examine(facts) if one.level is Level.WARN)
    assert check.found.endswith("fe80::2 on mesh-m (7), fe80::3 on mesh-m (6) and 502 more addresses")


def test_a_few_refused_messages_are_no_fault() -> None:
    assert examine(replace(SOUND, refusals=[Refusal("disbelieved", 150, FORGED[:1])])) == examine(SOUND)


def test_unknown_counters_of_later_versions_are_ignored() -> None:
    assert examine(replace(SOUND, refusals=[Refusal("unheard_of", 1)])) == examine(SOUND)


def test_bypassed_traffic_is_reported_and_no_fault() -> None:
    assert "bypass list" not in {check.name for check in examine(SOUND)}
    counted = {"clear_in": 7, "bypass_out": 3, "bench_in": 9}
    facts = replace(SOUND, bypass=["fd00::/64 udp 123 (the clock)"], dropped=counted)
    checks = {check.name: check for check in examine(facts)}
    assert checks["bypass list"].level is Level.OK
    told = "in the clear by the policy: fd00::/64 udp 123 (the clock); packets so far: 3 out, 0 in"
    assert checks["bypass list"].found == told
    assert checks["fail-closed rules"].found == "they are in force; dropped so far: clear_in 7"


def test_dropped_packets_are_explained_and_no_fault() -> None:
    facts = replace(SOUND, dropped={"clear_in": 7, "into_networks": 3, "spoofed": 0})
    (check,) = (one for one in examine(facts) if one.name == "dropped packets")
    assert check.level is Level.OK
    assert check.found.startswith("3 packets came from the mesh for a network behind this node")
    explained = ("spoofed", "disguised", "into_sa", "into_networks", "link_out", "link_in")
    for name in explained:
        assert len([one for one in examine(replace(SOUND, dropped={name: 1})) if one.name == "dropped packets"]) == 1
    for name in ("clear_out", "clear_in", "unknown_out", "unknown_in"):
        assert "dropped packets" not in {one.name for one in examine(replace(SOUND, dropped={name: 1}))}


@pytest.mark.parametrize(
    ("fault", "name", "level", "found"),
    [
        ({"config_problem": "meshsec.toml:3: nonsense"}, "configuration", Level.WARN, "meshsec.toml:3"),
        ({"key_problem": "node.key: mode 0644"}, "node key", Level.FAIL, "0644"),
        ({"key_problem": "node.key holds another", "key_changed": True}, "node key", Level.WARN, "holds another"),
        ({"trust_problems": ["boat.card: bad", "ship.card: bad"]}, "trust store", Level.WARN, "boat.card: bad; ship"),
        ({"trust_problems": ["boat.card: bad"], "closed_by_doubt": True}, "trust store", Level.WARN, "are closed"),
        ({"backend_problem": "/dev/net/tun: No such file"}, "ESP", Level.FAIL, "/dev/net/tun"),
        ({"ike_problem": "refused"}, "IKE daemon", Level.FAIL, "refused"),
        ({"plugins_missing": ["openssl"]}, "IKE plugins", Level.FAIL, "without openssl"),
        ({"router_problem": "gone"}, "routing daemon", Level.FAIL, "gone"),
        ({"router_warnings": ["it lags"]}, "routing daemon", Level.WARN, "it lags"),
        ({"own_copy": Own.ANNOUNCED}, "copied key", Level.WARN, "a copy of this node's key"),
        ({"own_copy": Own.TAKEN}, "copied key", Level.WARN, "takes another one for it"),
        ({"own_copy": Own.PROVEN}, "copied key", Level.WARN, "another node has this node's key"),
        ({"unprotected_networks": ["10.9.0.0/16"]}, "open networks", Level.WARN, "10.9.0.0/16 crosses"),
        ({"networks": 2, "network_problems": ["::/0: c is failed"]}, "networks of peers", Level.WARN, "c is failed"),
        (
            {"tables_altered": ["the chain x is not there"]},
            "tables of networks",
            Level.FAIL,
            "the chain x is not there",
        ),
        ({"resolvers_lost": ["192.0.2.53"]}, "resolvers", Level.WARN, "cannot ask 192.0.2.53"),
        ({"past_networks": ["10.1.0.0/16 by eth0"]}, "routes past the tunnel", Level.FAIL, "10.1.0.0/16 by eth0: into"),
        ({"unannounced": ["10.9.0.0/16"]}, "networks behind this node", Level.WARN, "not announced by the router"),
        (
            {"doubled": ["boat"]},
            "copied key",
            Level.WARN,
            "two nodes have the key of boat",
        ),
        ({"routes_missing": ["fd00::b/128"]}, "kernel routes", Level.FAIL, "lacks 1 of"),
        ({"rules_in_force": False}, "fail-closed rules", Level.FAIL, "inet meshsec"),
        ({"rules_disturbed": 3}, "fail-closed rules", Level.WARN, "3 times"),
        ({"addresses_missing": ["fc00::a"]}, "own addresses", Level.FAIL, "fc00::a"),
        ({"address_problem": "no permission"}, "own addresses", Level.FAIL, "no permission"),
        ({"forwarding": {"net.ipv4.ip_forward": False}}, "forwarding", Level.WARN, "net.ipv4.ip_forward"),
        ({"mtus": {"mesh0": 1400}}, "interface mesh0", Level.WARN, "MTU 1400"),
        ({"mtus": {"mesh0": None}}, "interface mesh0", Level.WARN, "does not exist"),
        ({"down": ["mesh0"]}, "interface mesh0", Level.WARN, "is down"),
        ({"no_carrier": ["mesh0"]}, "interface mesh0", Level.WARN, "no link to anybody"),
        ({"neighbours": {}}, "neighbours", Level.WARN, "no other node is heard on mesh0"),
        ({"neighbours": {"boat": False}}, "neighbours", Level.WARN, "heard, and not hearing this node: boat"),
        ({"announced_instead": ["fd00::9"]}, "routing configuration", Level.FAIL, "announces fd00::9"),
        ({"failed": ["boat (it refuses)"]}, "failed peers", Level.WARN, "boat (it refuses)"),
        ({"unauthenticated": ["boat", "ship"]}, "authentication", Level.WARN, "failed with boat, ship"),
        ({"strangers": ["fd00::5: no card (3 times)"]}, "strangers", Level.WARN, "fd00::5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_fault_is_found_by_its_check_alone(fault: dict[str, Any], name: str, level: Level, found: str) -> None:
    checks = examine(replace(SOUND, **fault))
    (wrong,) = (check for check in checks if check.level is not Level.OK)
    assert (wrong.name, wrong.level) == (name, level)
    assert found in wrong.found
    assert wrong.fix
    shown = view(checks)
    assert shown["verdict"] == str(level)
    jsonschema.validate(shown, SCHEMA)


def names(*card_names: tuple[str, str]) -> list[Check]:
    facts = replace(SOUND, own_name="hut", card_names=set(card_names))
    return [one for one in examine(facts) if one.name == "peers' names"]


def test_a_peer_that_is_called_otherwise_here_is_reported_and_no_fault() -> None:
    assert names(("boat", "boat"), ("ship", "ship")) == []
    (check,) = names(("boat", "raft"), ("ship", "ship"))
    assert (check.level, check.fix) == (Level.OK, "")
    assert check.found == "called otherwise on this node: boat (on its card: raft)"


@pytest.mark.parametrize(
    ("card_names", "called"),
    [
        ([("boat", "ship"), ("ship", "ship")], ["peer ship"]),
        ([("boat", "ship"), ("raft", "ship")], ["peer raft", "peer boat"]),
        ([("boat", "ship"), ("ship", "boat")], ["peer ship", "peer boat"]),
        ([("boat", "hut")], ["this node"]),
        ([("boat", "hut"), ("hut", "raft")], ["this node and peer hut", None]),
    ],
)
def test_cards_that_may_be_mixed_up_are_named_with_the_comparison_that_tells(
    card_names: list[tuple[str, str]], called: list[str | None]
) -> None:
    checks = names(*card_names)
    wrong = [one for one in called if one]
    assert [one.level for one in checks] == [Level.WARN] * len(wrong)
    for check, who in zip(checks, wrong, strict=True):
        assert f"and so is {who} called" in check.found
        assert "`meshsec peer verify " in check.fix


def neighbours(**facts: Any) -> list[Check]:
    return [one for one in examine(replace(SOUND, **facts)) if one.name == "neighbours"]


def test_neighbours_are_named_and_of_many_the_first_eight() -> None:
    (few,) = neighbours(neighbours={"boat": True, "fd00::5": True, "ship": False})
    assert (few.level, few.fix) == (Level.OK, "")
    assert few.found == "boat, fd00::5; heard, and not hearing this node: ship"
    (many,) = neighbours(neighbours={f"n{number}": True for number in range(10)})
    assert many.found == "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"


def test_a_node_that_hears_nobody_is_told_what_to_compare_and_where_to_listen() -> None:
    (alone,) = neighbours(neighbours={}, mtus={"gone0": None, "mesh0": 1500})
    assert (alone.level, alone.found) == (Level.WARN, "no other node is heard on mesh0")
    assert all(part in alone.fix for part in ("mesh_id", "meshsec-radio --check", "tcpdump -n -i mesh0 udp port 269"))


@pytest.mark.parametrize("amiss", [{"mtus": {"mesh0": None}}, {"down": ["mesh0"]}, {"no_carrier": ["mesh0"]}, {}])
def test_neighbours_are_not_asked_about_where_another_check_says_why_there_are_none(amiss: dict[str, Any]) -> None:
    assert neighbours(neighbours={} if amiss else None, **amiss) == []


def test_a_changed_configuration_needs_a_restart_and_no_correction() -> None:
    changed = replace(SOUND, config_problem="meshsec.toml was changed", config_changed=True)
    (check,) = (one for one in examine(changed) if one.name == "configuration")
    assert (check.level, check.fix) == (Level.WARN, "meshsec up")


def test_with_libreswan_doctor_does_not_say_that_no_stranger_asked() -> None:
    (check,) = (one for one in examine(replace(SOUND, ike_daemon=IkeDaemon.LIBRESWAN)) if one.name == "strangers")
    assert check.level is Level.OK
    assert check.found.startswith("not known")
    assert "journalctl -u meshsec-pluto.service" in check.found


def test_with_esp_in_the_kernel_the_mtu_needs_no_room_for_udp() -> None:
    kernel = replace(SOUND, backend=EspBackend.KERNEL, mtus={"mesh0": 1280})
    assert view(examine(kernel))["verdict"] == "ok"


def test_the_verdict_is_the_worst_level() -> None:
    levels = (Level.WARN, Level.FAIL, Level.OK)
    assert view(Check("x", level, "found") for level in levels)["verdict"] == "fail"
    assert view([])["verdict"] == "ok"


def test_a_radio_is_reported_with_its_neighbours_or_its_fault() -> None:
    wish = RadioSettings("rescue", 2412, Security.OPEN)
    joined = Interface(7, "mesh0", "mesh point", up=True, carrier=True, frequency=2412, width=1, center=2412)
    mesh = MeshParameters(forwarding=False, path_discovery=False, rssi_threshold=0, forget_seconds=60)
    good = Observed("mesh0", exists=True, wireless=True, interface=joined, country="DE", mesh=mesh)
    off = replace(good, interface=replace(joined, up=False, carrier=False), soft_blocked=True)

    def judged(*arguments: Any) -> Check:
        return next(
            one for one in examine(replace(SOUND, radios=[RadioFacts(*arguments)])) if one.name == "radio mesh0"
        )

    fine = judged(wish, good, (-50, -61))
    assert (fine.level, fine.found) == (
        Level.OK,
        "mesh point, 2412 MHz, regulatory domain DE, 2 neighbours, the weakest with -61 dBm",
    )
    amiss = judged(wish, off)
    assert (amiss.level, amiss.found) == (Level.WARN, "mesh0 was switched off by rfkill")
    assert amiss.fix.startswith("meshsec-radio --check mesh0")
    assert judged(None, good).level is Level.OK
    asking = replace(good, phy=Phy(0, "phy0", frozenset({"mesh point"}), rts_threshold=500))
    assert judged(wish, asking, (), "measured: off delivers 45 % less for its time on the air").found == (
        "mesh point, 2412 MHz, regulatory domain DE, 0 neighbours, "
        "RTS threshold 500 (measured: off delivers 45 % less for its time on the air)"
    )
    assert judged(None, off).found == "the radio is switched off by software"


def test_a_driver_with_which_no_rts_threshold_can_be_measured_is_named_with_its_fix() -> None:
    def rts(reason: str) -> list[Check]:
        facts = replace(SOUND, radios=[RadioFacts(None, Observed("mesh0"), (), reason)])
        return [one for one in examine(facts) if one.name == "RTS of mesh0"]

    (told,) = rts("not measured: the driver takes no RTS threshold (not supported)")
    assert (told.level, "rts_threshold = 'off'" in told.fix) == (Level.WARN, True)
    assert rts("measured: fewer than 10 % of the frames are repeated") == []
    assert rts("") == []


def access_point(*radios: Radio) -> Check:
    wish, mesh = AccessRadio("ap0", "valley", 2412, shares="mesh0"), RadioSettings("rescue", 2412, Security.OPEN)
    facts = replace(SOUND, access_point=AccessPointFacts(wish, {"mesh0": mesh}, radios))
    return next(one for one in examine(facts) if one.name == "access point ap0")


def test_the_access_point_is_reported_as_it_is_and_a_radio_that_cannot_be_it_with_the_reason() -> None:
    both = Combination((Limit(2, frozenset({"AP", "mesh point"})),), 2, 1)
    phy = Phy(0, "phy0", frozenset({"AP", "mesh point"}), combinations=(both,))
    mesh = Interface(7, "mesh0", "mesh point", up=True, carrier=True)
    serving = Interface(8, "ap0", "AP", up=True, carrier=True, frequency=2412)
    fine = access_point(Radio(phy, (mesh, serving)))
    assert (fine.level, fine.found) == (Level.OK, "2412 MHz, on the radio of mesh0")
    idle = access_point(Radio(phy, (mesh, replace(serving, type="managed", carrier=False))))
    assert (idle.level, idle.found) == (Level.WARN, "ap0 is managed and serves nobody")
    absent = access_point(Radio(phy, (mesh,)))
    assert (absent.found, absent.fix) == (
        "ap0 does not exist yet and serves nobody",
        "systemctl status meshsec-hostapd",
    )
    refused = access_point(Radio(replace(phy, combinations=()), (mesh,)))
    assert refused.level is Level.WARN
    assert refused.found == "phy0, the radio of mesh0, cannot be access point and mesh point at once"
    assert not [one for one in examine(SOUND) if one.name.startswith("access point")]


def test_a_cable_beside_a_radio_needs_a_metric() -> None:
    seen = Observed("wlan0", exists=True, wireless=True, interface=Interface(7, "wlan0", "managed"))
    mixed = replace(SOUND, radios=[RadioFacts(None, seen)], mtus={"wlan0": 1500, "eth0": 1500, "gone0": None})

    def told(facts: Facts) -> list[str]:
        return [check.fix for check in examine(facts) if "last resort" in check.found]

    assert told(replace(mixed, unweighed=["wlan0", "eth0", "gone0"])) == [
        "[routing.interface.eth0] metric = 26, for Ethernet"
    ]
    assert not told(replace(mixed, unweighed=["wlan0"]))
    assert not told(replace(SOUND, mtus={"eth0": 1500}, unweighed=["eth0"]))


def test_an_overlay_is_checked_only_where_it_is_enabled() -> None:
    def judged(**changes: Any) -> dict[str, Check]:
        found = replace(SOUND, overlay="overlayd 0.1.0, by overlay0", **changes)
        return {check.name: check for check in examine(found)}

    assert "overlay" not in {check.name for check in examine(SOUND)}
    assert judged()["overlay"] == Check("overlay", Level.OK, "overlayd 0.1.0, by overlay0")
    assert judged(overlay_problem="it is away")["overlay"].level is Level.FAIL
    assert judged(overlay_mtu=1304)["overlay's device"].level is Level.WARN
    assert "overlay's device" not in judged(overlay_mtu=1336)
    one_sided = judged(one_sided=["boat"])["data planes"]
    assert (one_sided.level, "boat" in one_sided.found) == (Level.WARN, True)
    assert "boat" in judged(without_ipv4=["boat"])["IPv4"].found
