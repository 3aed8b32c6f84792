"""Positions: what is refused in meshsec.toml, and what of a peer's message is believed."""

import math
import tomllib
from typing import Any

import msgspec
import pytest

from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.policy.policy import Policy
from meshsec.core.positions import positions
from meshsec.core.positions.positions import AGE_MAX, MessageError, Position, checked, distance, whereabouts

NODE = '[node]\nname = "bravo"\n[routing]\ninterfaces = ["mesh0"]\n'
HERE = Position(47.26, 11.39, 620.5, 17.0, 27.5)
FIELDS = [47.26, 11.39, 620.5, 17.0, 27.5, False]


def settings(text: str) -> Settings:
    return decode(tomllib.loads(f"{NODE}[position]\n{text}\n"), "/etc/meshsec", lambda _: Policy())


def test_where_a_node_is_is_read() -> None:
    found = settings("latitude = -47.26\nlongitude = 11\naltitude = 620.5").position
    assert found.fixed == Position(-47.26, 11.0, 620.5, fixed=True)
    assert settings("latitude = 0\nlongitude = 0").position.fixed == Position(0.0, 0.0, fixed=True)
    asked = settings("gpsd = true").position
    assert (asked.fixed, asked.gpsd, asked.port) == (None, True, 2947)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("latitude = 90.1\nlongitude = 0", "latitude: 90.1 is not allowed; allowed: a number from -90 to 90"),
        ("latitude = 0\nlongitude = -180.5", "longitude: -180.5 is not allowed; allowed: a number from -180 to 180"),
        ("latitude = nan\nlongitude = 0", "latitude: nan is not allowed"),
        ("latitude = 0\nlongitude = inf", "longitude: inf is not allowed"),
        ('latitude = "47 N"\nlongitude = 0', "latitude: '47 N' is not allowed"),
        ("latitude = 47", "latitude: 47 is not allowed; allowed: only together with longitude"),
        ("longitude = 11", "longitude: 11 is not allowed; allowed: only together with latitude"),
        ("altitude = 600", "altitude: 600 is not allowed; allowed: only together with latitude and longitude"),
        ("latitude = 47\nlongitude = 11\ngpsd = true", "gpsd: true is not allowed; allowed: false beside latitude"),
        ("latitude = 47\nlongitude = 11\naltitude = 100001", "altitude: 100001 is not allowed"),
        ("gpsd = true\nport = 0", "port: 0 is not allowed; allowed: a whole number from 1 to 65535"),
    ],
)
def test_what_is_no_place_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(line)
    assert complaint in str(refused.value)


def message(**changed: Any) -> bytes:
    return msgspec.msgpack.encode({"type": "position", "row": FIELDS, "age": 1.5, "asks": True, **changed})


def row(index: int, value: object) -> bytes:
    return message(row=[*FIELDS[:index], value, *FIELDS[index + 1 :]])


def test_a_message_says_where_and_how_long_ago() -> None:
    found = positions.decode(message())
    assert (found.position, found.age, found.asks) == (HERE, 1.5, True)
    assert positions.decode(positions.encode(whereabouts(HERE, 2.0, asks=False))).position == HERE
    assert positions.decode(message(row=None)).position is None


@pytest.mark.parametrize("age", [-1.0, AGE_MAX + 1])
def test_what_this_node_says_is_always_a_message(age: float) -> None:
    found = positions.decode(positions.encode(whereabouts(HERE, age, asks=True)))
    assert found.age == 0.0
    assert found.position == (None if age > 0 else HERE), "a position that is too old is none"


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\xc1",
        message()[:-1],
        message() + b"\0",
        *(row(index, math.nan) for index in range(5)),
        *(row(index, math.inf) for index in range(5)),
        row(0, 90.0001),
        row(0, -91),
        row(0, None),
        row(0, "47"),
        row(1, 180.1),
        row(1, -181),
        row(2, 100_001),
        row(2, -12_001),
        row(3, -1),
        row(3, 1e7),
        row(4, -0.1),
        row(4, 1e7),
        row(5, 1),
        message(row=FIELDS[:5]),
        message(row=[*FIELDS, "fc00::2"]),
        message(age=-0.1),
        message(age=math.nan),
        message(age=AGE_MAX + 1),
        message(age=None),
        message(node="other"),
        message(address="fc00::2"),
        message(type="offer"),
        message(asks=2),
        b"\xdd\xff\xff\xff\xff",
        msgspec.msgpack.encode({"type": "position", "later": 0})[:-1] + b"\x91" * 170 + b"\xc0",
        b"\xc6\xff\xff\xff\xff" + b"x" * 100,
        b"\xde\x00\x22" + message()[1:] + b"\xa4asks\xc3" * 30,  # a map of 34 keys, the last one again and again
    ],
)
def test_what_is_no_message_is_refused(octets: bytes) -> None:
    with pytest.raises(MessageError):
        positions.decode(octets)


def test_a_key_that_comes_again_is_harmless_within_the_size() -> None:
    """So it is the size for which the long message above is refused."""
    assert positions.decode(b"\xde\x00\x08" + message()[1:] + b"\xa4asks\xc3" * 4).asks


def test_the_longest_message_is_short_enough() -> None:
    most = Position(-89.123456789, -179.123456789, -11999.123456, 999_999.123, 999_999.123)
    assert len(positions.encode(whereabouts(most, AGE_MAX - 0.123, asks=True))) < positions.SIZE_MAX


def test_of_what_a_receiver_says_only_the_possible_is_kept() -> None:
    assert checked(HERE) == HERE
    assert checked(HERE._replace(latitude=math.nan)) is None
    assert checked(HERE._replace(longitude=180.5)) is None
    wild = HERE._replace(altitude=math.nan, accuracy=-1.0, altitude_accuracy=math.inf)
    assert checked(wild) == HERE._replace(altitude=None, accuracy=None, altitude_accuracy=None)


@pytest.mark.parametrize(
    ("there", "metres"),
    [
        (HERE, 0),
        (HERE._replace(latitude=HERE.latitude + 0.001), 111.2),
        (HERE._replace(longitude=HERE.longitude + 0.001), 75.5),
        (HERE._replace(altitude=520.5), 100),
        (HERE._replace(altitude=None), 0),
        (Position(-47.26, -168.61), 20_015_115),
    ],
)
def test_distances_are_those_on_the_earth(there: Position, metres: float) -> None:
    assert distance(HERE, there) == pytest.approx(metres, rel=0.002, abs=0.1)
    assert distance(there, HERE) == pytest.approx(distance(HERE, there))


def test_the_date_line_is_no_distance() -> None:
    assert distance(Position(0.0, 179.9999), Position(0.0, -179.9999)) < 25
