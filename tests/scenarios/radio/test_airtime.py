"""Real mesh interfaces on an air that takes time: throughput falls by hops, hidden stations collide, and RTS helps.

The radios are mac80211_hwsim's, the frames mac80211's, and airmedium is the air between them. It runs where time
follows the executed instructions, so that the processor is no part of the result (tests/guest/test_guest.py).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.lab.basics import programs
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.guest import DETERMINISTIC_VARIABLE
from tests.lab.net import namespaces
from tests.lab.net.instance import RUN
from tests.lab.net.offered import Offer, throughput
from tests.lab.radio import medium
from tests.lab.radio.airmedium import AirMedium, Place, line
from tests.lab.radio.medium import Channel, Radio

NAMES = ("a", "b", "c")
CHANNEL = Channel("air", 2412, 6)
"""6 Mbit/s alone: a frame of 1400 octets takes 2 ms, so that the air is what limits."""
SNR = 40.0
SECONDS = 2.0
LOAD = 8.0
"""Mbit/s of payload: more than the air carries."""
PEERING = 30.0
"""Seconds until stations that hear each other are peers: some beacons, and some lost frames."""
_NO_REDIRECTS = [f"net.ipv4.conf.{which}.send_redirects=0" for which in ("all", "mesh0")]
"""A relay sends packets out where they came in."""
EVERYBODY = {("a", "b"): SNR, ("b", "c"): SNR, ("a", "c"): SNR}


@dataclass(frozen=True)
class Field:
    """Three stations with a radio and an address each; ``c`` is reached through ``b``."""

    radios: dict[str, Radio]
    directory: Path

    def medium(self, place: Place) -> AirMedium:
        """Return the air, for a ``with`` block."""
        return AirMedium(self.directory, self.radios, place)

    def wait_peers(self, *pairs: tuple[str, str]) -> None:
        """Wait until these stations have peerings."""
        for first, second in pairs:
            what = f"{first} and {second} are peers"
            wait_until(what, partial(self._are_peers, first, second), [], PEERING)

    def offer(self, source: str, target: str, mbit_s: float = LOAD) -> Offer:
        """Return a flow between two stations."""
        return Offer(self._end(source), self._end(target), mbit_s)

    def set_rts(self, threshold: str) -> None:
        """Set the RTS threshold of every radio, as an operator does."""
        for radio in self.radios.values():
            argv = ["ip", "netns", "exec", radio.namespace, "iw", "phy", radio.phy, "set", "rts", threshold]
            run(argv)

    def _end(self, name: str) -> tuple[str, str]:
        return self.radios[name].namespace, _address(name)

    def _are_peers(self, first: str, second: str) -> bool:
        both = ((self.radios[first], self.radios[second]), (self.radios[second], self.radios[first]))
        return all(_hardware(other) in one.peers() for one, other in both)


def _address(name: str) -> str:
    return f"10.85.0.{1 + NAMES.index(name)}"


def _hardware(radio: Radio) -> str:
    path = f"/sys/class/net/{radio.interface}/address"
    return run(["ip", "netns", "exec", radio.namespace, "cat", path]).stdout.strip()


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    if not os.environ.get(DETERMINISTIC_VARIABLE):
        pytest.skip("this machine's time does not follow its instructions; tests/guest/test_guest.py boots one")
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    RUN.mkdir(mode=0o755, exist_ok=True)
    made: dict[str, Radio] = {}
    try:
        for name in NAMES:
            namespace = f"{namespaces.PREFIX}air-{name}"
            namespaces.create(namespace)
            made[name] = medium.mesh_radio(namespace, CHANNEL)
        for name, radio in made.items():
            _equip(name, radio, made)
        yield Field(made, tmp_path_factory.mktemp("air"))
    finally:
        for radio in made.values():
            radio.give_back()
        for name in NAMES:
            namespaces.destroy(f"{namespaces.PREFIX}air-{name}")


def _equip(name: str, radio: Radio, all_radios: dict[str, Radio]) -> None:
    """Give a station its address, and what it must know to send without asking: neighbours, and the relay."""
    ip = ["ip", "-n", radio.namespace]
    run([*ip, "address", "add", f"{_address(name)}/24", "dev", radio.interface])
    run(["ip", "netns", "exec", radio.namespace, "sysctl", "-q", "-w", *_NO_REDIRECTS])
    for other, known in all_radios.items():
        if other != name:
            argv = ["neighbour", "replace", _address(other), "lladdr", _hardware(known), "dev", radio.interface]
            run([*ip, *argv, "nud", "permanent"])
    if name != "b":
        far = "c" if name == "a" else "a"
        run([*ip, "route", "add", _address(far), "via", _address("b"), "dev", radio.interface])


def test_two_hops_carry_half_of_what_one_hop_carries(field: Field) -> None:
    """The relay is in reach of both ends, and all three share the air."""
    field.set_rts("off")
    with field.medium(Place(EVERYBODY)):
        field.wait_peers(("a", "b"), ("b", "c"))
        (one,) = throughput([field.offer("a", "b")], SECONDS)
        (two,) = throughput([field.offer("a", "c")], SECONDS)
    print(f"one hop {one:.2f} Mbit/s, two hops {two:.2f} Mbit/s")
    assert 4.0 < one < 6.0, f"one hop carries {one} Mbit/s, of 6 on the air"
    assert 0.4 < two / one < 0.6, f"two hops carry {two} of {one} Mbit/s"


def test_hidden_stations_collide_and_rts_saves_their_frames(field: Field) -> None:
    """The negative case is the same load while the two senders hear each other.

    Without a threshold mac80211 still asks for RTS before some repetitions, so hidden stations lose half and not all.
    """
    both = [field.offer("a", "b", LOAD / 2), field.offer("c", "b", LOAD / 2)]
    found: dict[str, float] = {}
    sent: dict[str, int] = {}
    for what, threshold, place in (
        ("heard", "off", Place(EVERYBODY)),
        ("hidden", "off", line(NAMES, SNR)),
        ("hidden, RTS", "500", line(NAMES, SNR)),
    ):
        field.set_rts(threshold)
        with field.medium(place) as air:
            field.wait_peers(("a", "b"), ("b", "c"))
            found[what] = sum(throughput(both, SECONDS))
            sent[what] = sum(station["rts_sent"] for station in air.end().values())
    print(f"Mbit/s: {found}, RTS sent: {sent}")
    assert found["heard"] > 4.0, found
    assert found["hidden"] < 0.65 * found["heard"], found
    assert found["hidden, RTS"] > 1.4 * found["hidden"], found
    assert sent["heard"] < 200 < sent["hidden, RTS"], sent


def test_a_weak_link_carries_nothing_and_a_moved_station_is_heard_again(field: Field) -> None:
    """Below what 6 Mbit/s needs, no frame arrives; SIGHUP moves the station back."""
    field.set_rts("off")
    near, far = Place({("a", "b"): SNR}), Place({("a", "b"): 0.0})
    with field.medium(near) as air:
        field.wait_peers(("a", "b"))
        (before,) = throughput([field.offer("a", "b", 1.0)], SECONDS)
        air.move(far)
        wait_until("it is read", lambda: air.log().count("read again") == 1, [], 10)
        (lost,) = throughput([field.offer("a", "b", 1.0)], SECONDS)
        air.move(near)
        wait_until("it is read", lambda: air.log().count("read again") == 2, [], 10)
        field.wait_peers(("a", "b"))
        (after,) = throughput([field.offer("a", "b", 1.0)], SECONDS)
    assert before > 0.9, before
    assert lost == 0.0, lost
    assert after > 0.9, after


def test_a_second_medium_is_refused_and_a_bad_configuration_too(field: Field, tmp_path: Path) -> None:
    with field.medium(Place(EVERYBODY)):
        other = AirMedium(tmp_path, field.radios, Place(EVERYBODY))
        with pytest.raises(AssertionError, match="another medium is registered: end it first"):
            other.__enter__()
    (tmp_path / "air.toml").write_text('phy = "ac"\n', encoding="utf-8")
    argv = [programs.airmedium(), "--check", str(tmp_path / "air.toml")]
    refused = run(argv, check=False)
    assert refused.returncode == 2
    assert 'air.toml:1: phy = "ac" is refused; allowed: "b"' in refused.stderr
