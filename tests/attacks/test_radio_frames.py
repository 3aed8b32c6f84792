"""Frames that an attacker outside the mesh sends in the names of its nodes part two neighbours for seconds at most.

The victims run meshsec-radio. The radios are mac80211_hwsim's; the attacker's has a monitor interface only.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.neighbours import MESH_ID, Scene, established, neighbours, started
from tests.lab.basics.waiting import wait_until
from tests.lab.forge import wireless
from tests.lab.radio import hwsim, meshsec_radio
from tests.lab.radio.meshsec_radio import OPEN, SAE, SECONDS, stations

ROUNDS = 30
"""How often frames are sent that must have no effect."""
ROOM = 250
"""Number of stations at which the kernel's table is almost full: it holds 256 for each radio."""
FORGOTTEN = 150.0
"""Seconds after which the kernel has forgotten the sender of one beacon: it looks each minute for silent stations."""


@pytest.fixture(autouse=True)
def guest() -> None:
    if obstacle := meshsec_radio.obstacle():
        pytest.skip(obstacle)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """Start two neighbours with the settings that the test is parametrized with."""
    with neighbours(request.param, tmp_path) as found:
        yield found


def without_effect(scene: Scene, *frames: bytes) -> None:
    """Send frames again and again: they reach a's radio, and the two stay neighbours."""
    sent = {(frame[0], frame[4:22]) for frame in frames}
    list(scene.ear.heard())
    for number in range(ROUNDS):
        scene.m.send(*frames)
        scene.ear.wait_heard("a forged frame at the victim", lambda heard: (heard[0], heard[4:22]) in sent)
        assert scene.peered, f"parted by round {number}: {stations(scene.a)}"
    logs = scene.one.log.read_text() + scene.other.log.read_text()
    assert "MESH-PEER-DISCONNECTED" not in logs


@pytest.mark.parametrize("scene", [OPEN, SAE], ids=["open", "sae"], indirect=True)
def test_a_forged_deauthentication_has_no_effect_in_a_mesh(scene: Scene) -> None:
    without_effect(scene, wireless.deauthentication(scene.name), wireless.deauthentication(scene.name.turned))


@pytest.mark.parametrize("scene", [SAE], ids=["sae"], indirect=True)
def test_a_forged_end_of_a_peering_is_not_believed_in_a_mesh_with_a_password(scene: Scene) -> None:
    without_effect(scene, wireless.close(scene.name, MESH_ID), wireless.close(scene.name.turned, MESH_ID))


@pytest.mark.parametrize("scene", [OPEN], ids=["open"], indirect=True)
def test_a_forged_end_of_a_peering_parts_an_open_mesh_for_seconds(scene: Scene) -> None:
    """The control of the test before. An open mesh cannot prevent it."""
    took = []
    for _ in range(3):
        scene.m.send(wireless.close(scene.name, MESH_ID))
        scene.wait_parted()
        took.append(scene.wait_peered())
    print(f"neighbours again after {took} s")


@pytest.mark.parametrize("scene", [SAE], ids=["sae"], indirect=True)
def test_a_forged_commit_parts_a_mesh_with_a_password_for_seconds(scene: Scene) -> None:
    """wpa_supplicant ends a peering at a commit in the neighbour's name, before the sender has proved anything."""
    took = []
    for _ in range(3):
        scene.m.send(wireless.commit(scene.name))
        scene.wait_parted()
        took.append(scene.wait_peered())
    print(f"neighbours again after {took} s")


@pytest.mark.parametrize("scene", [SAE], ids=["sae"], indirect=True)
def test_a_commit_shows_how_the_element_was_found(scene: Scene) -> None:
    """wpa_supplicant hunts and pecks in a mesh even where its configuration asks for hashing."""
    found = scene.m.wait_heard(
        "a commit", lambda frame: wireless.is_of(frame, wireless.AUTHENTICATION, scene.name.source)
    )
    assert wireless.status_of(found) == wireless.HUNTING_AND_PECKING


@pytest.mark.parametrize("scene", [OPEN], ids=["open"], indirect=True)
def test_invented_neighbours_keep_a_real_one_out_of_an_open_mesh_no_longer_than_they_are_invented(
    scene: Scene, tmp_path: Path
) -> None:
    beacon = scene.m.wait_heard("a beacon", lambda one: wireless.is_of(one, wireless.BEACON, scene.name.source))

    def filled() -> bool:
        scene.m.send(*(wireless.under(beacon, wireless.invented()) for _ in range(20)))
        return stations(scene.a).count("Station ") >= ROOM

    wait_until("a full table", filled, [scene.ticks], SECONDS, last=lambda: stations(scene.a).count("Station "))
    began = time.monotonic()
    with hwsim.radio("msr6", "mesh6") as c, started(tmp_path, c, OPEN) as third:
        third.wait_ready()
        assert not established(scene.a, c), "the table was not full: this proves nothing"
        wait_until("the real one", lambda: established(scene.a, c), [scene.ticks], FORGOTTEN)
        print(f"a real neighbour is one {time.monotonic() - began:.0f} s after the last invented one")
    assert scene.peered, "who was a neighbour before is one no longer"
