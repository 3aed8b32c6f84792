"""The table ``[time]``, and the chrony.conf that follows from it."""

from dataclasses import replace
from ipaddress import IPv6Network
from typing import Any

import pytest

from core.world import card
from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.config.time_settings import Driver, Reference, TimeSettings
from meshsec.core.formats.chrony import UnknownMasterError, render
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import Card

MINIMAL: dict[str, Any] = {"node": {"name": "a"}, "routing": {"interfaces": ["mesh0"]}}
MESH = (IPv6Network("fc00::/7"),)


def decoded(**time: object) -> Settings:
    return decode({**MINIMAL, "time": time}, "/etc/meshsec", lambda _: Policy())


def settings(**time: object) -> TimeSettings:
    found = decoded(**{"masters": ["a", "b"], **time}).time
    assert found
    return found


CARDS: dict[str, Card] = {name: replace(card(number), name=name) for number, name in enumerate("abc")}


def rendered(time: TimeSettings, own: str = "a") -> list[str]:
    peers = {name: one for name, one in CARDS.items() if name != own}
    return render(time, CARDS[own], peers, MESH, "made").splitlines()


def test_without_the_table_there_is_no_time_and_masters_suffice() -> None:
    assert decode(MINIMAL, "/", lambda _: Policy()).time is None
    assert settings() == TimeSettings(masters=("a", "b"))


def test_references_reach_their_fields() -> None:
    found = settings(references=[{"driver": "pps", "path": "/dev/pps0"}, {"driver": "shm", "unit": 2, "offset": 0.1}])
    assert found.references == (Reference(Driver.PPS, path="/dev/pps0"), Reference(Driver.SHM, unit=2, offset=0.1))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("masters", []),
        ("masters", ["a", "a"]),
        ("masters", ["fc00::1\nallow all"]),
        ("masters", [f"m{number}" for number in range(9)]),
        ("stratum", 1),
        ("stratum", 16),
        ("distance", 0.0),
        ("distance", float("nan")),
        ("minpoll", -1),
        ("maxpoll", 3),
        ("servers", ["ntp.example.net offline"]),
        ("servers", ["ntp\nallow"]),
        ("references", [{"driver": "shm", "unit": 256}]),
        ("references", [{"driver": "shm", "path": "/dev/pps0"}]),
        ("references", [{"driver": "pps"}]),
        ("references", [{"driver": "sock", "path": "/run/a b"}]),
        ("references", [{"driver": "sock", "path": "run/a"}]),
        ("references", [{"driver": "gps"}]),
        ("hwtimestamp", "eth0"),
        ("socket", "/run/with space.sock"),
        ("socket", "/" + "s" * 107),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(**{key: value})
    (problem,) = caught.value.problems
    assert problem.path[:2] == ("time", key)
    assert "allowed" in str(problem)


def test_masters_are_required() -> None:
    with pytest.raises(SettingsError, match=r"time\.masters: is missing"):
        decoded(stratum=10)


def test_a_master_serves_the_mesh_alone_and_asks_the_other_masters() -> None:
    lines = rendered(settings())
    a, b = CARDS["a"].address, CARDS["b"].address
    assert [line for line in lines if line.startswith("server ")] == [
        f"server {b} iburst xleave minpoll 4 maxpoll 7 minsamples 8"
    ]
    assert "local stratum 10 orphan distance 0.1" in lines
    assert [line for line in lines if line.startswith(("allow", "bindaddress"))] == [
        f"bindaddress {a}",
        "bindaddress 127.0.0.1",
        "allow fc00::/7",
    ]
    assert "port 0" not in lines


def test_a_node_that_is_no_master_serves_nobody_and_asks_all_masters() -> None:
    lines = rendered(settings(), own="c")
    assert len([line for line in lines if line.startswith("server ")]) == 2
    assert "port 0" in lines
    assert not [line for line in lines if line.startswith(("allow", "local"))]


@pytest.mark.parametrize("own", ["a", "c"])
def test_time_jumps_at_the_start_only_and_control_is_by_the_socket_alone(own: str) -> None:
    lines = rendered(settings(socket="/run/x.sock"), own=own)
    assert {"makestep 1 3", "cmdport 0", "bindcmdaddress /run/x.sock", "hwtimestamp *"} <= set(lines)
    assert "hwtimestamp *" not in rendered(settings(hwtimestamp=False), own=own)


def test_a_pulse_per_second_is_locked_to_the_receiver_with_the_time() -> None:
    references = [{"driver": "pps", "path": "/dev/pps0"}, {"driver": "shm", "unit": 0, "offset": 0.12}]
    lines = [line for line in rendered(settings(references=references)) if line.startswith("refclock")]
    assert lines == [
        "refclock SHM 0 refid GPS1 offset 0.12 delay 0.2",
        "refclock PPS /dev/pps0 refid PPS0 lock GPS1 prefer",
    ]


def test_a_master_that_nobody_trusts_is_named() -> None:
    with pytest.raises(UnknownMasterError, match=r"'stranger' is neither this node nor .*: b, c;"):
        rendered(settings(masters=["a", "stranger"]))
