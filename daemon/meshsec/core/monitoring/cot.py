"""Positions as Cursor on Target events, which ATAK, WinTAK and TAK servers read (MITRE, CoT Event 2.0)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

View = Mapping[str, Any]
METHODS = ("positions",)
STALE_SECONDS = 300.0
"""Time after which a map shows a node as one that was there: a node at rest says each 2 minutes that it still is."""
UNKNOWN = "9999999.0"
"""What CoT has in place of an altitude or an error that is not known."""
_TYPE = "a-f-G-U-C"
"""A friendly unit on the ground: what ATAK calls itself."""
_MEASURED, _WRITTEN = "m-g", "h-e"
"""How a position came to be: by a GPS receiver, or by a person."""
_HIDDEN = "\N{REPLACEMENT CHARACTER}"


def events(positions: View, now: float) -> Iterator[bytes]:
    """Yield an event for each node whose position is known. ``now``: seconds of the wall clock."""
    for one in positions["positions"]:
        yield _event(one, now)


def _event(one: View, now: float) -> bytes:
    since = now - one["age"]
    event = Element("event")
    event.attrib |= {
        "version": "2.0",
        "uid": f"meshsec-{one['address']}",
        "type": _TYPE,
        "how": _WRITTEN if one["fixed"] else _MEASURED,
        "time": _time(now),
        "start": _time(since),
        "stale": _time(since + STALE_SECONDS),
    }
    point = SubElement(event, "point")
    point.attrib |= {
        "lat": f"{one['latitude']:.7f}",
        "lon": f"{one['longitude']:.7f}",
        "hae": _metres(one["altitude"]),
        "ce": _metres(one["accuracy"]),
        "le": _metres(one["altitude_accuracy"]),
    }
    detail = SubElement(event, "detail")
    SubElement(detail, "contact").attrib["callsign"] = _visible(one["node"])
    text: bytes = tostring(event, encoding="utf-8", xml_declaration=False)
    return text


def _metres(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _visible(text: str) -> str:
    """Return a text without what XML forbids or nobody sees."""
    return "".join(one if one.isprintable() else _HIDDEN for one in text)
