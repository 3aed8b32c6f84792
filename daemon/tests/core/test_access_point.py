"""Whether a radio can be the access point, alone or beside a mesh point, and which of the machine's radios can."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from meshsec.core.config.access_settings import AccessRadio
from meshsec.core.config.radio_settings import RadioSettings, Security
from meshsec.core.radio import access_point
from meshsec.core.radio.observed import Band, Channel, Combination, Interface, Limit, Phy, Radio
from meshsec.core.radio.obstacles import Obstacle

AP_OR_MESH = Limit(8, frozenset({"AP", "mesh point"}))
STATIONS = Limit(2048, frozenset({"managed"}))
BOTH = Combination((STATIONS, AP_OR_MESH), 2048, 1)
"""As of ath9k (Linux 6.12)."""
PAIR = Combination((Limit(2, frozenset({"AP", "mesh point", "managed"})),), 2, 1)
"""As of mt76x2u."""
CHANNELS = Band({mhz: Channel(mhz) for mhz in (2412, 2437)})
ABLE = Phy(0, "phy0", frozenset({"AP", "managed", "mesh point"}), bands=(CHANNELS,), combinations=(BOTH,))
UNABLE = replace(ABLE, index=1, name="phy1", combinations=())
MESH0, WLAN1 = Interface(3, "mesh0", "managed"), Interface(4, "wlan1", "managed")
SHARED = AccessRadio("ap0", "valley", 2412, shares="mesh0")
OWN = AccessRadio("wlan1", "valley", 2412)
WISH = RadioSettings("rescue", 2412, Security.SAE)


def phy(*combinations: Combination) -> Phy:
    return Phy(0, "phy0", combinations=combinations)


@pytest.mark.parametrize(
    ("combinations", "mesh_points", "channels"),
    [
        ((), 1, 0),
        ((BOTH,), 1, 1),
        ((PAIR,), 1, 1),
        ((PAIR,), 2, 0),
        ((BOTH,), 7, 1),
        ((BOTH,), 8, 0),
        # rt2x00 with room for one beacon; a client and an access point, but no mesh point.
        ((Combination((Limit(1, AP_OR_MESH.types),), 1, 1),), 1, 0),
        ((Combination((STATIONS, Limit(1, frozenset({"AP"}))), 4, 2),), 1, 0),
        # The kernel counts an interface against every limit that has its type.
        ((Combination((AP_OR_MESH, Limit(1, frozenset({"AP", "mesh point"}))), 9, 1),), 1, 0),
        # The best of several combinations counts; one that holds too few interfaces does not.
        ((BOTH, Combination((AP_OR_MESH,), 2, 2)), 1, 2),
        ((Combination((AP_OR_MESH,), 1, 2),), 1, 0),
    ],
)
def test_a_radio_can_be_both_as_far_as_one_of_its_combinations_holds_all(
    combinations: tuple[Combination, ...], mesh_points: int, channels: int
) -> None:
    assert access_point.shared_channels(phy(*combinations), mesh_points) == channels


def obstacles(wish: AccessRadio, *radios: Radio, mesh: Mapping[str, Any] | None = None) -> list[Obstacle]:
    return access_point.obstacles(wish, {"mesh0": WISH} if mesh is None else mesh, radios)


def test_a_radio_that_can_be_both_is_taken_before_and_after_its_interface_is_made() -> None:
    assert obstacles(SHARED, Radio(ABLE, (MESH0,))) == []
    assert obstacles(SHARED, Radio(ABLE, (MESH0, Interface(5, "ap0", "AP")))) == []
    assert obstacles(OWN, Radio(ABLE, (MESH0,)), Radio(UNABLE, (WLAN1,))) == [], "a radio of its own needs no more"


def test_a_mesh_interface_that_another_program_brings_up_decides_on_its_channel_itself() -> None:
    assert obstacles(structs.replace(SHARED, frequency=2437), Radio(ABLE, (MESH0,)), mesh={"mesh0": None}) == []


@pytest.mark.parametrize(
    ("wish", "radios", "found", "fix"),
    [
        (
            SHARED,
            [Radio(UNABLE, (MESH0,)), Radio(replace(ABLE, name="phy7"), (WLAN1,))],
            "phy1, the radio of mesh0, cannot be access point and mesh point at once",
            "that can be both: of this machine phy7 (wlan1)",
        ),
        (
            SHARED,
            [Radio(UNABLE, (MESH0,))],
            "phy1, the radio of mesh0, cannot be access point and mesh point at once",
            "of this machine none; docs/reference/adapters.md lists some",
        ),
        (
            structs.replace(SHARED, frequency=2437),
            [Radio(ABLE, (MESH0,))],
            "on one channel only: the access point is to be on 2437 MHz, the mesh on 2412 MHz",
            "[access] radio frequency = 2412, or [radio] frequency = 2437 on all nodes",
        ),
        (
            structs.replace(OWN, interface="wlan1"),
            [Radio(ABLE, (MESH0, WLAN1))],
            "wlan1 is on phy0, the radio of mesh0, which [access] does not say",
            "shares = 'mesh0'",
        ),
        (SHARED, [], "there is no wireless interface mesh0, whose radio ap0 is to share", "plug the adapter in"),
        (OWN, [], "there is no wireless interface wlan1", "plug the adapter in"),
        (OWN, [Radio(ABLE, (MESH0,))], "there is no wireless interface wlan1", "shares = 'mesh0'"),
        (
            OWN,
            [Radio(replace(UNABLE, modes=frozenset({"managed"})), (WLAN1,))],
            "the driver of phy1 cannot be an access point (it can: managed)",
            "another adapter",
        ),
        (
            structs.replace(OWN, frequency=5180),
            [Radio(UNABLE, (WLAN1,))],
            "phy1 has no channel at 5180 MHz",
            "one of: 2412, 2437",
        ),
        (OWN, [Radio(UNABLE, (WLAN1,), soft_blocked=True)], "switched off by software", "rfkill unblock wlan"),
    ],
)
def test_each_obstacle_is_named_with_its_fix(wish: AccessRadio, radios: list[Radio], found: str, fix: str) -> None:
    (obstacle,) = obstacles(wish, *radios)
    assert found in obstacle.found
    assert fix in obstacle.fix


def test_two_channels_suffice_a_radio_that_has_two() -> None:
    two = replace(ABLE, combinations=(replace(BOTH, channels=2),))
    assert obstacles(structs.replace(SHARED, frequency=2437), Radio(two, (MESH0,))) == []


def test_only_the_mesh_interface_that_is_shared_takes_the_beacon_interval_of_the_access_point() -> None:
    assert access_point.beacon_interval(SHARED, "mesh0") == 100
    assert access_point.beacon_interval(SHARED, "mesh1") is None
    assert access_point.beacon_interval(OWN, "mesh0") is None
    assert access_point.beacon_interval(None, "mesh0") is None
