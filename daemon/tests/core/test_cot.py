"""Cursor on Target events: each rule of MITRE's Event schema, and what a hostile name cannot do."""

import re
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import takproto

from meshsec.core.monitoring import cot

NOW = 1_795_000_000.25
PLACE: dict[str, Any] = {
    "node": "boat",
    "address": "fc00::2",
    "latitude": 47.2682345,
    "longitude": -11.5,
    "altitude": 620.44,
    "accuracy": 17.1,
    "altitude_accuracy": 27.6,
    "fixed": False,
    "age": 75.5,
    "reached": True,
}
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
RULES = {
    "version": r"2\.0",
    "uid": r"\S+",
    "type": r"\w+(-\w+)*(;[^;]*)?",
    "how": r"\w(-\w+)*",
    "time": _MOMENT,
    "start": _MOMENT,
    "stale": _MOMENT,
}
"""What the Event schema requires of an event."""
RANGES = {"lat": (-90, 90), "lon": (-180, 180), "hae": (-1e7, 1e7), "ce": (0, 1e7), "le": (0, 1e7)}
"""What it requires of a point, all of which must be there."""


def read(**changed: object) -> Element:
    """Return the one event, which must keep the schema's rules."""
    (octets,) = cot.events({"positions": [{**PLACE, **changed}]}, NOW)
    event: Element = fromstring(octets)  # noqa: S314  # our own
    assert_valid(event)
    return event


def assert_valid(event: Element) -> None:
    """Assert what the schema says of an event."""
    assert event.tag == "event"
    assert set(event.attrib) == set(RULES)
    for name, rule in RULES.items():
        assert re.fullmatch(rule, event.attrib[name]), name
    assert [one.tag for one in event] == ["point", "detail"]
    point = event[0]
    assert set(point.attrib) == set(RANGES)
    for name, (least, most) in RANGES.items():
        assert least <= float(point.attrib[name]) <= most
    assert _at(event, "start") <= _at(event, "time")
    assert _at(event, "start") < _at(event, "stale")


def _at(event: Element, name: str) -> float:
    return datetime.fromisoformat(event.attrib[name]).timestamp()


def test_an_event_says_who_is_where_since_when() -> None:
    event = read()
    assert event[0].attrib == {"lat": "47.2682345", "lon": "-11.5000000", "hae": "620.4", "ce": "17.1", "le": "27.6"}
    assert event.attrib["uid"] == "meshsec-fc00::2"
    assert event.attrib["how"] == "m-g"
    assert (_at(event, "time"), _at(event, "start")) == (NOW, NOW - 75.5)
    assert _at(event, "stale") == NOW - 75.5 + cot.STALE_SECONDS
    contact = event.find("detail/contact")
    assert contact is not None
    assert contact.attrib == {"callsign": "boat"}


def test_what_is_not_known_is_said_as_the_schema_wants_it() -> None:
    event = read(altitude=None, accuracy=None, altitude_accuracy=None, fixed=True, age=0.0)
    assert [event[0].attrib[name] for name in ("hae", "ce", "le")] == [cot.UNKNOWN] * 3
    assert event.attrib["how"] == "h-e"


def test_a_node_that_was_last_heard_long_ago_is_stale() -> None:
    assert _at(read(age=cot.STALE_SECONDS + 1, reached=False), "stale") < NOW
    assert _at(read(age=cot.STALE_SECONDS - 1), "stale") > NOW


@pytest.mark.parametrize(
    "name",
    ['x"/><event uid="y', "</event><event/>", "a&b;<c>", "]]>", "a\nb\r\tc", "\0\x1b[2J\x07", "\ud800", "\u202e\ufffe"],
)
def test_a_name_is_text_and_nothing_else(name: str) -> None:
    event = read(node=name)
    assert len(list(event.iter())) == 4
    contact = event.find("detail/contact")
    assert contact is not None
    assert contact.attrib["callsign"] == "".join(one if one.isprintable() else "\ufffd" for one in name)
    (octets,) = cot.events({"positions": [{**PLACE, "node": name}]}, NOW)
    assert octets.count(b"<event") == 1
    assert b"\n" not in octets, "one line for each"


def test_each_node_has_an_event() -> None:
    found = b"\n".join(cot.events({"positions": [PLACE, {**PLACE, "address": "fc00::3"}]}, NOW))
    assert re.findall(rb'uid="([^"]*)"', found) == [b"meshsec-fc00::2", b"meshsec-fc00::3"]
    assert list(cot.events({"positions": []}, NOW)) == []


@pytest.mark.parametrize("name", ["boat", 'a&b "<c>"', "\u202eboat"])
def test_taks_own_library_reads_an_event(name: str) -> None:
    """takproto makes of it what TAK's programs say to each other."""
    (octets,) = cot.events({"positions": [{**PLACE, "node": name, "altitude": None}]}, NOW)
    found = takproto.parse_proto(bytearray(takproto.xml2proto(octets.decode()))).cotEvent
    assert (found.uid, found.type, found.how) == ("meshsec-fc00::2", "a-f-G-U-C", "m-g")
    assert (found.lat, found.lon, found.hae, found.ce, found.le) == (47.2682345, -11.5, float(cot.UNKNOWN), 17.1, 27.6)
    assert (found.sendTime, found.staleTime - found.startTime) == (int(NOW * 1000), int(cot.STALE_SECONDS * 1000))
    assert found.detail.contact.callsign == name.replace("\u202e", "\ufffd")
