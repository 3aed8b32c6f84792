"""The steps by which an interface gets into a mesh, and back; each says in words what it does."""

from dataclasses import dataclass

from meshsec.core.config.radio_settings import Mode
from meshsec.core.radio.observed import RTS_OFF

_VHT80_STARTS = (5180, 5260, 5500, 5580, 5660, 5745)
"""MHz, lowest 20 MHz channel of each 80 MHz channel (IEEE 802.11-2020, annex E)."""
_OFFSETS = {Mode.HT40_PLUS: 20, Mode.HT40_MINUS: -20}
"""MHz from the primary to the secondary channel."""


@dataclass(frozen=True, slots=True)
class Span:
    """The channel as a whole."""

    width: int
    """nl80211_chan_width."""
    center: int
    """MHz."""
    parts: tuple[int, ...]
    """MHz, its 20 MHz channels."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """Set the interface up or down."""

    up: bool

    def __str__(self) -> str:
        return f"set the interface {'up' if self.up else 'down'}"


@dataclass(frozen=True, slots=True)
class SetType:
    """Change what the interface is; it must be down."""

    type: str

    def __str__(self) -> str:
        return f"change its type to {self.type}"


@dataclass(frozen=True, slots=True)
class SetRtsThreshold:
    """For the whole radio."""

    octets: int

    def __str__(self) -> str:
        return f"set the RTS threshold to {rts(self.octets)}"


@dataclass(frozen=True, slots=True)
class SetTxPower:
    """None: as much as is allowed."""

    dbm: float | None

    def __str__(self) -> str:
        return "send as strongly as is allowed" if self.dbm is None else f"send with {self.dbm:g} dBm"


@dataclass(frozen=True, slots=True)
class Join:
    """Join an open mesh by the kernel."""

    mesh_id: bytes
    frequency: int
    mode: Mode
    span: Span
    beacon_interval: int | None = None
    """Time units of 1.024 ms; None: the kernel's."""

    def __str__(self) -> str:
        return f"join the open mesh {self.mesh_id.decode()!r} on {self.frequency} MHz {self.mode}"


@dataclass(frozen=True, slots=True)
class StartSupplicant:
    """Join by wpa_supplicant, which does SAE and peering."""

    beacon_interval: int | None = None
    """As in ``Join``."""

    def __str__(self) -> str:
        return "join by wpa_supplicant (SAE)"


@dataclass(frozen=True, slots=True)
class StopSupplicant:
    """End wpa_supplicant, which leaves the mesh."""

    def __str__(self) -> str:
        return "end wpa_supplicant"


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the mesh."""

    def __str__(self) -> str:
        return "leave the mesh"


@dataclass(frozen=True, slots=True)
class SetMeshParameters:
    """Of the mesh that was joined: OLSRv2 routes, so 802.11s neither forwards nor looks for ways to neighbours."""

    rssi_threshold: int
    forget_seconds: int | None
    """Seconds after which a silent station is removed; None: wpa_supplicant decides."""

    def __str__(self) -> str:
        dbm = self.rssi_threshold
        return f"leave forwarding to OLSRv2, {f'no neighbour below {dbm} dBm' if dbm else 'no RSSI threshold'}"


@dataclass(frozen=True, slots=True)
class SetMcastRate:
    """The rate of frames to all neighbours."""

    mbit: float

    def __str__(self) -> str:
        return f"send multicast with {self.mbit:g} Mbit/s"


Step = (
    SetUp
    | SetType
    | SetRtsThreshold
    | SetTxPower
    | Join
    | StartSupplicant
    | StopSupplicant
    | Leave
    | SetMeshParameters
    | SetMcastRate
)


def span(frequency: int, mode: Mode) -> Span | None:
    """Return the whole channel around a primary one; None where no such channel exists."""
    if mode in (Mode.NOHT, Mode.HT20):
        return Span(0 if mode is Mode.NOHT else 1, frequency, (frequency,))
    if mode in _OFFSETS:
        other = frequency + _OFFSETS[mode]
        return Span(2, (frequency + other) // 2, (min(frequency, other), max(frequency, other)))
    for start in _VHT80_STARTS:
        if start <= frequency <= start + 60 and (frequency - start) % 20 == 0:
            return Span(3, start + 30, tuple(range(start, start + 80, 20)))
    return None


def rts(octets: int) -> str:
    return "off" if octets == RTS_OFF else str(octets)
