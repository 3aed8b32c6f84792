"""``[radio]`` of ``meshsec.toml``: how a wireless interface takes part in the mesh (docs/reference/meshsec.toml.md)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from meshsec.core.values import tables
from meshsec.core.values.definition import Inherits, Rule, Wrong

SSID_MAX = 32
"""Octets of an SSID and of a mesh ID (IEEE 802.11-2020, sections 9.4.2.2 and 9.4.2.98)."""
_RATES = (1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48, 54)
"""Mbit/s of 802.11b, a and g."""


class Security(StrEnum):
    """What a node must know to be a neighbour. User data is protected by IPsec in either case."""

    OPEN = "open"
    SAE = "sae"


class Mode(StrEnum):
    """Channel width and modulation, named as iw(8) does."""

    NOHT = "NOHT"
    HT20 = "HT20"
    HT40_PLUS = "HT40+"
    HT40_MINUS = "HT40-"
    VHT80 = "VHT80"


class RtsThreshold(StrEnum):
    """An RTS threshold in words."""

    MEASURED = "measured"
    OFF = "off"


def ssid_text(value: object) -> str:
    """Return a name of a network. Raises ValueError."""
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= SSID_MAX or not value.isprintable():
        raise ValueError
    return value


def _country(value: object) -> str:
    if not isinstance(value, str) or len(value) != 2 or not value.isascii() or not value.isalpha():
        raise ValueError
    return value.upper()


def _rate(value: object) -> float:
    if isinstance(value, bool) or value not in _RATES or not isinstance(value, int | float):
        raise ValueError
    return float(value)


def _rts_threshold(value: object) -> int | RtsThreshold:
    return RtsThreshold(value) if isinstance(value, str) else msgspec.convert(value, _RtsOctets)


# 2347 and more are never reached (IEEE 802.11-2020, annex C, dot11RTSThreshold).
_RtsOctets = Annotated[int, Meta(ge=0, le=2347)]

Country = Annotated[
    str | None,
    Rule("two letters of ISO 3166-1, such as 'DE'", _country),
    Meta(description="two letters of ISO 3166-1: the regulatory domain asked for", extra={"default": "the kernel's"}),
]


class RadioSettings(Struct, frozen=True):
    """How one interface joins the mesh; None: what the driver does by itself."""

    mesh_id: Annotated[
        str,
        Rule(f"a text of 1 to {SSID_MAX} octets of UTF-8, printable", ssid_text),
        Meta(description="the mesh's name: 1 to 32 octets of printable UTF-8, the same on all nodes"),
    ]
    frequency: Annotated[
        int,
        Meta(
            ge=2412,
            le=5885,
            description="centre of the primary 20 MHz channel: what the radio has and the regulatory domain allows",
            extra={"unit": "MHz"},
        ),
    ]
    security: Annotated[
        Security,
        Meta(
            description="`open`: any node may be a neighbour. `sae`: only who knows the password. User data is "
            "protected by IPsec in both"
        ),
    ]
    mode: Annotated[Mode, Meta(description="channel width and modulation, the same on all nodes")] = Mode.HT20
    country: Country = None
    mcast_rate: Annotated[
        float | None,
        Rule(f"one of {', '.join(f'{rate:g}' for rate in _RATES)} (Mbit/s)", _rate, {"type": "number", "enum": _RATES}),
        Meta(
            description="Mbit/s of frames to all neighbours: 1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48 or 54; 1, 2, 5.5 "
            "and 11 only on 2.4 GHz",
            extra={"default": "the driver's"},
        ),
    ] = None
    tx_power: Annotated[
        int | None,
        Meta(
            ge=0,
            le=36,
            description="transmit power, at most what the regulatory domain allows",
            extra={"unit": "dBm", "default": "as much as is allowed"},
        ),
    ] = None
    rssi_threshold: Annotated[
        int | None,
        Meta(
            ge=-100,
            le=-30,
            description="a node that is heard weaker is no neighbour",
            extra={"unit": "dBm", "default": "none"},
        ),
    ] = None
    rts_threshold: Annotated[
        int | RtsThreshold | None,
        Rule(
            "'measured', 'off', or a whole number from 0 to 2347 (octets)",
            _rts_threshold,
            {"anyOf": [{"enum": ["measured", "off"]}, {"type": "integer", "minimum": 0, "maximum": 2347}]},
        ),
        Meta(
            description="a longer frame asks for the channel first (RTS/CTS), for the whole radio: octets, `off`, or "
            "`measured`: what delivers most for its time on the air where nodes are hidden, else off",
            extra={"default": "the driver's"},
        ),
    ] = None


class Radios(RadioSettings, frozen=True):
    """All of ``[radio]``: what holds for every interface, and where one differs."""

    interfaces: Annotated[
        dict[str, RadioSettings],
        Inherits(),
        Meta(max_length=16, description="a table `[radio.interfaces.NAME]` for each interface that differs"),
    ] = {}  # msgspec copies it

    @property
    def common(self) -> RadioSettings:
        """The settings of interfaces that do not differ."""
        return RadioSettings(**{one.name: getattr(self, one.name) for one in fields(RadioSettings)})

    def of(self, interface: str) -> RadioSettings:
        """Return the settings of one interface."""
        return self.interfaces.get(interface, self.common)

    def wrong(self, _given: Mapping[str, object]) -> Wrong:
        """Yield names that no interface can have."""
        for name in self.interfaces:
            if not tables.is_interface_name(name):
                yield ("interfaces", name), tables.INTERFACE_RULE
