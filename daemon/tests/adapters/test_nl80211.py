"""Decoding the kernel's descriptions of radios, on recorded messages (tests/vectors/wiphy)."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.radio.nl80211 import decode_interface, decode_phy, decode_station, message
from meshsec.core.radio.observed import RTS_OFF, Band, Channel, Combination, Interface, Limit
from meshsec.core.radio.rts_evidence import Station

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


def test_a_radio_says_which_interfaces_may_be_up_at_once() -> None:
    beacons = frozenset({"managed", "AP", "mesh point", "p2p client", "p2p go"})
    assert decode_phy(list(recorded("hwsim.bin"))).combinations == (
        Combination(
            limits=(
                Limit(1, frozenset({"IBSS"})),
                Limit(2048, beacons),
                Limit(1, frozenset({"p2p device"})),
            ),
            most=2050,
            channels=1,
        ),
    )


def attribute(kind: int, content: bytes) -> bytes:
    """Encode one attribute (struct nlattr), padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def wiphy(*attributes: bytes) -> Any:
    """Make the message of a radio by hand, by the numbers of the kernel's nl80211.h."""
    body = struct.pack("=BBH", 3, 1, 0) + number(1, 4) + attribute(2, b"phy4\0") + b"".join(attributes)
    one: Any = message(struct.pack("=IHHII", 16 + len(body), 0x1C, 2, 1, 0) + body)  # type: ignore[no-untyped-call]
    one.decode()
    return one


def limit(index: int, most: int, *types: int) -> bytes:
    return attribute(index, number(1, most) + attribute(2, b"".join(attribute(one, b"") for one in types)))


def test_combinations_of_a_driver_are_decoded_with_all_their_limits() -> None:
    station, ap, mesh_point = 2, 3, 7
    first = attribute(1, attribute(1, limit(1, 2, station) + limit(2, 2, ap, mesh_point)) + number(2, 2) + number(4, 1))
    second = attribute(2, attribute(1, limit(1, 1, ap)) + attribute(3, b"") + number(2, 3) + number(4, 2))
    (one, other) = decode_phy([wiphy(attribute(0x78, first + second))]).combinations
    assert one == Combination((Limit(2, frozenset({"managed"})), Limit(2, frozenset({"AP", "mesh point"}))), 2, 1)
    assert other == Combination((Limit(1, frozenset({"AP"})),), 3, 2)


def test_a_driver_without_combinations_has_one_interface_at_a_time() -> None:
    assert decode_phy([wiphy()]).combinations == ()


def station(*counters: bytes) -> Any:
    """Make the message of a station by hand: NL80211_CMD_NEW_STATION, its address and NL80211_ATTR_STA_INFO."""
    body = (
        struct.pack("=BBH", 19, 1, 0) + attribute(6, bytes.fromhex("020000000100")) + attribute(21, b"".join(counters))
    )
    one: Any = message(struct.pack("=IHHII", 16 + len(body), 0x1C, 2, 1, 0) + body)  # type: ignore[no-untyped-call]
    one.decode()
    return one


def test_the_counters_of_a_station_are_decoded_by_the_numbers_of_nl80211() -> None:
    rate = attribute(8, attribute(1, struct.pack("=H", 120)) + number(5, 65_540))
    octets, airtime = attribute(24, struct.pack("=Q", 1 << 33)), attribute(39, struct.pack("=Q", 2_500_000))
    counters = [number(10, 1000), number(11, 300), number(12, 4), number(3, 77)]
    assert decode_station(station(*counters, octets, airtime, rate)) == (
        "02:00:00:00:01:00",
        Station(1000, 1 << 33, 300, 4, 2.5, 6554.0),
    )


def test_a_driver_that_counts_little_gives_zeros_and_no_airtime() -> None:
    assert decode_station(station()) == ("02:00:00:00:01:00", Station())
    only_short = station(number(3, 77), number(10, 1), attribute(8, attribute(1, struct.pack("=H", 55))))
    assert decode_station(only_short)[1] == Station(1, 77, 0, 0, None, 5.5)


def test_an_airtime_of_zero_is_that_of_a_driver_that_does_not_count_it() -> None:
    sent = [number(10, 1000), attribute(24, struct.pack("=Q", 1_400_000))]
    assert decode_station(station(*sent, attribute(39, struct.pack("=Q", 0))))[1].airtime is None
    assert decode_station(station(*sent, attribute(39, struct.pack("=Q", 1))))[1].airtime == pytest.approx(1e-6)
