"""Real mesh interfaces on an air that takes time: throughput falls by hops, hidden stations collide, and RTS helps.

The radios are mac80211_hwsim's, the frames mac80211's, and airmedium is the air between them. It runs where time
follows the executed instructions, so that the processor is no part of the result (tests/guest/test_guest.py).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lab.basics import programs
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net.offered import throughput
from tests.lab.radio import field as stations
from tests.lab.radio import medium
from tests.lab.radio.airmedium import AirMedium, Place, line
from tests.lab.radio.field import EVERYBODY, NAMES, SNR, Field
from tests.lab.radio.medium import Channel

CHANNEL = Channel("air", 2412, 6)
"""6 Mbit/s alone: a frame of 1400 octets takes 2 ms, so that the air is what limits."""
SECONDS = 2.0
LOAD = 8.0
"""Mbit/s of payload: more than the air carries."""


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    if obstacle := stations.obstacle():
        pytest.skip(obstacle)
    joined = partial(medium.mesh_radio, channel=CHANNEL)
    with stations.field(tmp_path_factory.mktemp("air"), joined) as made:
        made.equip()
        yield made


def set_rts(field: Field, threshold: str) -> None:
    """Set the RTS threshold of every radio, as an operator does."""
    for radio in field.radios.values():
        run(["ip", "netns", "exec", radio.namespace, "iw", "phy", radio.phy, "set", "rts", threshold])


def test_two_hops_carry_half_of_what_one_hop_carries(field: Field) -> None:
    """The relay is in reach of both ends, and all three share the air."""
    set_rts(field, "off")
    with field.medium(EVERYBODY):
        field.wait_peers(("a", "b"), ("b", "c"))
        (one,) = throughput([field.offer("a", "b", LOAD)], SECONDS)
        (two,) = throughput([field.offer("a", "c", LOAD)], SECONDS)
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
        ("heard", "off", EVERYBODY),
        ("hidden", "off", line(NAMES, SNR)),
        ("hidden, RTS", "500", line(NAMES, SNR)),
    ):
        set_rts(field, threshold)
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
    set_rts(field, "off")
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
    with field.medium(EVERYBODY):
        other = AirMedium(tmp_path, field.radios, EVERYBODY)
        with pytest.raises(AssertionError, match="another medium is registered: end it first"):
            other.__enter__()
    (tmp_path / "air.toml").write_text('phy = "ac"\n', encoding="utf-8")
    argv = [programs.airmedium(), "--check", str(tmp_path / "air.toml")]
    refused = run(argv, check=False)
    assert refused.returncode == 2
    assert 'air.toml:1: phy = "ac" is refused; allowed: "b"' in refused.stderr
