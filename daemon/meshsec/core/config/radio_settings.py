"""``[radio]`` of ``meshsec.toml``: how a wireless interface takes part in the mesh (docs/meshsec.toml.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

MESH_ID_MAX = 32
"""Octets of a mesh ID (IEEE 802.11-2020, section 9.4.2.98)."""
FREQUENCY_MHZ = (2412, 5885)
TX_POWER_DBM = (0, 36)
RSSI_DBM = (-100, -30)
RTS_OCTETS = (0, 2347)
"""2347 octets and more are never reached (IEEE 802.11-2020, annex C, dot11RTSThreshold)."""
RATES_MBIT = (1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48, 54)
INTERFACES_MAX = 16


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


@dataclass(frozen=True, slots=True)
class RadioSettings:
    """How one interface joins the mesh; None: what the driver does by itself."""

    mesh_id: str
    frequency: int
    """MHz, centre of the primary 20 MHz channel."""
    security: Security
    mode: Mode = Mode.HT20
    country: str | None = None
    """ISO 3166-1 alpha-2."""
    mcast_rate: float | None = None
    """Mbit/s."""
    tx_power: int | None = None
    """dBm."""
    rssi_threshold: int | None = None
    """dBm; a weaker node is no neighbour."""
    rts_threshold: int | None = None
    """Octets; a longer frame asks for the channel first."""


@dataclass(frozen=True, slots=True)
class Radios:
    """All of ``[radio]``: what holds for every interface, and where one differs."""

    common: RadioSettings
    interfaces: Mapping[str, RadioSettings] = field(default_factory=dict)

    def of(self, interface: str) -> RadioSettings:
        """The settings of one interface."""
        return self.interfaces.get(interface, self.common)


def read(table: Table) -> Radios | None:
    """The settings in ``[radio]``; None when there is no such table. Problems are noted in the table."""
    common = _settings(table, None)
    own = table.table("interfaces")
    if len(own.values) > INTERFACES_MAX:
        table.refuse(len(own.values), RefusedError(f"at most {INTERFACES_MAX} tables"), "interfaces")
    found = {}
    for name in list(own.values)[:INTERFACES_MAX]:
        if not tables.is_interface_name(name):
            own.refuse(name, RefusedError(tables.INTERFACE_RULE), name)
        one = own.table(name)
        found[name] = _settings(one, common)
        one.refuse_the_rest()
    table.refuse_the_rest()
    return Radios(common, found) if table.values else None


def _settings(table: Table, base: RadioSettings | None) -> RadioSettings:
    """The keys of one table over those of ``base``; without one the keys that have no default are required."""
    default = base or RadioSettings("", 0, Security.SAE)
    required = base is None and bool(table.values)
    readers = {
        "mesh_id": _read_mesh_id,
        "frequency": tables.integer(*FREQUENCY_MHZ),
        "security": tables.choice(Security),
        "mode": tables.choice(Mode),
        "country": _read_country,
        "mcast_rate": _read_rate,
        "tx_power": tables.integer(*TX_POWER_DBM),
        "rssi_threshold": tables.integer(*RSSI_DBM),
        "rts_threshold": tables.integer(*RTS_OCTETS),
    }
    taken = {
        one.name: table.take(
            one.name,
            readers[one.name],
            getattr(default, one.name),
            required=required and one.name in ("mesh_id", "frequency", "security"),
        )
        for one in fields(RadioSettings)
    }
    return RadioSettings(**taken)


def _read_mesh_id(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= MESH_ID_MAX or not value.isprintable():
        raise RefusedError(f"a text of 1 to {MESH_ID_MAX} octets of UTF-8, printable")
    return value


def _read_country(value: object) -> str:
    if not isinstance(value, str) or len(value) != 2 or not value.isascii() or not value.isalpha():
        raise RefusedError("two letters of ISO 3166-1, such as 'DE'")
    return value.upper()


def _read_rate(value: object) -> float:
    if isinstance(value, bool) or value not in RATES_MBIT:
        raise RefusedError(f"one of {', '.join(f'{rate:g}' for rate in RATES_MBIT)} (Mbit/s)")
    return float(value)
