"""Decoding the kernel's descriptions of radios, on recorded messages (tests/vectors/wiphy)."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.radio.nl80211 import decode_interface, decode_phy, message
from meshsec.core.radio.observed import RTS_OFF, Band, Channel, Interface

VECTORS = Path(__file__).parents[3] / "tests" / "vectors" / "wiphy"


def recorded(name: str) -> Iterator[Any]:
    data = (VECTORS / name).read_bytes()
    while data:
        length: int = struct.unpack_from("=I", data)[0]
        one: Any = message(data[:length])  # type: ignore[no-untyped-call]
        one.decode()
        yield one
        data = data[(length + 3) & ~3 :]


@pytest.fixture(scope="module")
def bands() -> tuple[Band, ...]:
    phy = decode_phy(list(recorded("hwsim.bin")))
    assert (phy.index, phy.name, phy.mesh_auth, phy.self_managed, phy.rts_threshold) == (
        0,
        "phy0",
        True,
        False,
        RTS_OFF,
    )
    assert {"mesh point", "managed", "AP", "AP/VLAN", "IBSS"} <= phy.modes
    assert phy.band(2412) is phy.bands[0]
    assert phy.band(2413) is None
    return phy.bands


def test_each_band_keeps_its_own_capabilities_though_it_comes_in_many_messages(bands: tuple[Band, ...]) -> None:
    low, high = bands[:2]
    assert [(band.ht, band.vht) for band in (low, high)] == [(0x107E, False), (0x107E, True)]
    assert list(low.rates) == [1, 2, 5.5, 11, 6, 9, 12, 18, 24, 36, 48, 54]
    assert list(high.rates) == [6, 9, 12, 18, 24, 36, 48, 54]
    assert (min(low.channels), max(low.channels), min(high.channels)) == (2412, 2484, 5180)


def test_each_channel_has_what_the_regulatory_rules_allow(bands: tuple[Band, ...]) -> None:
    low, high = (band.channels for band in bands[:2])
    free = low[2412]
    assert free == Channel(2412, no_ht40_minus=True, no_80mhz=True, power_max=20.0)
    assert low[2472].no_ir
    assert (high[5180].no_ir, high[5180].radar) == (True, False)
    assert high[5260].radar


def test_an_interface_in_a_mesh_has_its_channel_and_an_idle_one_has_none() -> None:
    found = dict(decode_interface(one) for one in recorded("interfaces.bin"))
    assert found[0] == Interface(2, "wlan0", "mesh point", frequency=2412, width=1, center=2412, tx_power=20.0)
    assert found[1] == Interface(3, "wlan1", "managed", tx_power=0.0)
