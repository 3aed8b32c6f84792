"""What an adapter observes of a radio: interfaces, bands and channels under the rules in force."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MESH_POINT = "mesh point"
MANAGED = "managed"
ACCESS_POINT = "AP"
RTS_OFF = 0xFFFFFFFF
"""nl80211: no frame asks first."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A 20 MHz channel under the rules in force."""

    frequency: int
    """MHz."""
    disabled: bool = False
    no_ir: bool = False
    """Only listening is allowed."""
    radar: bool = False
    no_ht40_plus: bool = False
    no_ht40_minus: bool = False
    no_80mhz: bool = False
    power_max: float = 0.0
    """dBm."""


@dataclass(frozen=True, slots=True)
class Band:
    """What the radio can do in one band."""

    channels: Mapping[int, Channel] = field(default_factory=dict)
    """Channels by frequency in MHz."""
    rates: tuple[float, ...] = ()
    """Mbit/s."""
    ht: int | None = None
    """HT Capability Information; None without HT."""
    vht: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """How many interfaces of these types may be up at once."""

    most: int
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Combination:
    """Which interfaces of a radio may be up at once (nl80211_if_combination_attrs)."""

    limits: tuple[Limit, ...]
    most: int
    """Interfaces in all."""
    channels: int
    """Different channels."""


@dataclass(frozen=True, slots=True)
class Phy:
    """A radio."""

    index: int
    name: str
    modes: frozenset[str] = frozenset()
    """Types of interface that it can be."""
    mesh_auth: bool = False
    """Whether the driver leaves peering to a program, as SAE needs it."""
    self_managed: bool = False
    """Whether the driver keeps its own regulatory domain."""
    rts_threshold: int = RTS_OFF
    bands: tuple[Band, ...] = ()
    combinations: tuple[Combination, ...] = ()
    """None of them: the radio has one interface at a time."""

    def band(self, frequency: int) -> Band | None:
        """Return the band that has this channel."""
        return next((band for band in self.bands if frequency in band.channels), None)


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a radio."""

    index: int
    name: str
    type: str
    up: bool = False
    carrier: bool = False
    """Whether it is joined, associated or serving."""
    frequency: int | None = None
    width: int | None = None
    """nl80211_chan_width."""
    center: int | None = None
    """MHz, of the whole channel."""
    tx_power: float | None = None
    """dBm."""


@dataclass(frozen=True, slots=True)
class Radio:
    """A radio of this machine, with all of its interfaces."""

    phy: Phy
    interfaces: tuple[Interface, ...] = ()
    soft_blocked: bool = False
    hard_blocked: bool = False

    def has(self, name: str) -> bool:
        """Return whether the radio has the interface ``name``."""
        return any(one.name == name for one in self.interfaces)

    def __str__(self) -> str:
        names = ", ".join(one.name for one in self.interfaces)
        return f"{self.phy.name} ({names})" if names else self.phy.name


@dataclass(frozen=True, slots=True)
class MeshParameters:
    """What the kernel says about a mesh point."""

    forwarding: bool
    path_discovery: bool
    """Even a neighbour is looked for (HWMP) before it is sent anything."""
    rssi_threshold: int
    """dBm; 0: none."""
    forget_seconds: int
    """Seconds after which the kernel forgets a station that sends nothing; 0: it forgets none."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is."""

    name: str
    """Name of the interface."""
    exists: bool = False
    """Whether there is an interface of that name, wireless or not."""
    wireless: bool = False
    """Whether this kernel knows wireless interfaces at all."""
    interface: Interface | None = None
    """The interface; None when it is missing or not wireless."""
    phy: Phy | None = None
    others: tuple[Interface, ...] = ()
    """The radio's other interfaces."""
    soft_blocked: bool = False
    hard_blocked: bool = False
    country: str = "00"
    """The regulatory domain in force; 00: the one for the whole world."""
    mesh: MeshParameters | None = None
    """While joined."""
