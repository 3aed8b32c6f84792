"""Decides how a radio gets into the mesh: what is in the way, the steps there, the way back, what is still amiss.

Theory of operation: an adapter observes (``Observed``). ``obstacles`` says what forbids joining, each with its fix.
Without any, ``plan`` gives the steps; after a failure, and at the end, ``undo`` gives the steps back for those that
were done. What came of it is observed again, and ``differences`` judges it: only what was read back is believed.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from meshsec.core.config.radio_settings import Mode, RadioSettings, Security

MESH_POINT = "mesh point"
MANAGED = "managed"
RTS_OFF = 0xFFFFFFFF
"""nl80211: no frame asks first."""
FORGET_SECONDS = 60
"""Seconds until a silent station is forgotten; a neighbour sends a beacon each second.

In an open mesh the kernel forgets, with room for 256 stations of a radio. An attacker who invents stations fills
it, and with the kernel's default of 1800 s he keeps new neighbours out for half an hour after the attack.

With SAE wpa_supplicant forgets, and switches the kernel's limit off. It tries a neighbour for 40 to 80 s and then
leaves it alone until it forgets it. Were the limit longer than that (300 s is its default), two ends that refused each
other by turns would never meet again, whatever their passwords are by then.
"""

_HT_40 = 1 << 1
"""Supported Channel Width Set (IEEE 802.11-2020, section 9.4.2.55.2)."""
_VHT80_STARTS = (5180, 5260, 5500, 5580, 5660, 5745)
"""MHz, lowest 20 MHz channel of each 80 MHz channel (IEEE 802.11-2020, annex E)."""
_OFFSETS = {Mode.HT40_PLUS: 20, Mode.HT40_MINUS: -20}
"""MHz from the primary to the secondary channel."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the radio cannot join, and how to fix it."""

    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.found}; fix: {self.fix}"


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


@dataclass(frozen=True, slots=True)
class Span:
    """The channel as a whole."""

    width: int
    """nl80211_chan_width."""
    center: int
    """MHz."""
    parts: tuple[int, ...]
    """MHz, its 20 MHz channels."""


# --- steps ---


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
        return f"set the RTS threshold to {_rts(self.octets)}"


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

    def __str__(self) -> str:
        return f"join the open mesh {self.mesh_id.decode()!r} on {self.frequency} MHz {self.mode}"


@dataclass(frozen=True, slots=True)
class StartSupplicant:
    """Join by wpa_supplicant, which does SAE and peering."""

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


# --- decisions ---


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


def obstacles(wish: RadioSettings, seen: Observed) -> list[Obstacle]:
    """Return what is in the way, in the order in which one would fix it; empty when ``plan`` may be carried out."""
    missing = list(_missing(seen))
    if missing or seen.phy is None or seen.interface is None:
        return missing
    return [
        *_capability(wish, seen.phy),
        *_regulation(wish, seen),
        *_blocked(seen),
        *_busy(seen.interface),
        *_channel(wish, seen.phy),
    ]


def wants_country(wish: RadioSettings, seen: Observed) -> bool:
    """Return whether the regulatory domain has to be asked for first."""
    return wish.country not in (None, seen.country) and seen.phy is not None and not seen.phy.self_managed


def plan(wish: RadioSettings, seen: Observed) -> tuple[Step, ...]:
    """Return the steps into the mesh from what was seen. Raises ValueError when there are obstacles."""
    whole = span(wish.frequency, wish.mode)
    if seen.interface is None or whole is None or obstacles(wish, seen):
        raise ValueError(f"{seen.name}: there are obstacles")
    steps: list[Step] = []
    if seen.interface.type == MESH_POINT and seen.interface.carrier:
        steps.append(Leave())
    steps += [SetUp(up=False), SetType(MESH_POINT)]
    if wish.rts_threshold is not None:
        steps.append(SetRtsThreshold(wish.rts_threshold))
    if wish.tx_power is not None:
        steps.append(SetTxPower(wish.tx_power))
    steps.append(SetUp(up=True))
    if wish.security is Security.SAE:
        steps.append(StartSupplicant())
    else:
        steps.append(Join(wish.mesh_id.encode(), wish.frequency, wish.mode, whole))
    steps.append(SetMeshParameters(wish.rssi_threshold or 0, _forget_seconds(wish)))
    if wish.mcast_rate is not None:
        steps.append(SetMcastRate(wish.mcast_rate))
    return tuple(steps)


def undo(done: Iterable[Step], before: Observed) -> tuple[Step, ...]:
    """Return the steps back, the last one first, to what the interface and its radio were before."""
    back = (_inverse(step, before) for step in reversed(tuple(done)))
    return tuple(step for step in back if step)


def differences(wish: RadioSettings, seen: Observed) -> list[str]:
    """Return what differs from the settings; empty when the interface is in the mesh as configured."""
    own = seen.interface
    if own is None:
        return [f"{seen.name} is gone"]
    if own.type != MESH_POINT or not own.carrier or seen.mesh is None:
        return [_left(seen, own)]
    whole, forgets = span(wish.frequency, wish.mode), seen.mesh.forget_seconds
    pairs = (
        ("frequency", own.frequency, wish.frequency),
        ("channel width", own.width, whole and whole.width),
        ("centre frequency", own.center, whole and whole.center),
        ("forwarding by 802.11s", seen.mesh.forwarding, False),
        ("path discovery by 802.11s", seen.mesh.path_discovery, False),
        ("RSSI threshold", seen.mesh.rssi_threshold, wish.rssi_threshold or 0),
        ("time in seconds until a silent station is forgotten", forgets, _forget_seconds(wish) or forgets),
    )
    return [f"{name} is {found}, not {wanted}" for name, found, wanted in pairs if found != wanted]


def remarks(wish: RadioSettings, seen: Observed) -> list[str]:
    """Return what the driver does differently from what it was asked; the mesh works all the same."""
    found = []
    own = seen.interface
    if own and wish.tx_power is not None and own.tx_power is not None and abs(own.tx_power - wish.tx_power) >= 1:
        found.append(f"the driver sends with {own.tx_power:g} dBm, not {wish.tx_power}")
    if seen.phy and wish.rts_threshold is not None and seen.phy.rts_threshold != wish.rts_threshold:
        found.append(f"the RTS threshold is {_rts(seen.phy.rts_threshold)}, not {wish.rts_threshold}")
    return found


def blocked(seen: Observed) -> list[str]:
    """Return which rfkill switches block the radio."""
    return [one.found for one in _blocked(seen)]


def summary(seen: Observed, signals: Sequence[int]) -> str:
    """Return the radio in a line for people; ``signals`` are those of its neighbours, in dBm."""
    own = seen.interface
    parts = [own.type if own else "gone", f"{own.frequency} MHz" if own and own.frequency else "on no channel"]
    parts.append(f"regulatory domain {seen.country}")
    if seen.phy and MESH_POINT not in seen.phy.modes:
        parts.append("the driver has no mesh mode")
    heard = f", the weakest with {min(signals)} dBm" if signals else ""
    return ", ".join([*parts, f"{len(signals)} neighbours{heard}"])


def hint(code: int | None, seen: Observed) -> str:
    """Return what an error number of the kernel means here, and the fix; empty where its name says it."""
    match code:
        case errno.EPERM | errno.EACCES:
            return "; fix: run as root, or with CAP_NET_ADMIN"
        case errno.EBUSY if seen.others:
            others = ", ".join(f"{other.name} ({other.type})" for other in seen.others)
            return f"; fix: the radio is shared with {others}: take that down, or put it on the same channel"
        case errno.ERFKILL:
            return "; fix: rfkill unblock wlan, or the switch of the device"
        case _:
            return ""


def _forget_seconds(wish: RadioSettings) -> int | None:
    return FORGET_SECONDS if wish.security is Security.OPEN else None


# --- obstacles ---


def _missing(seen: Observed) -> Iterator[Obstacle]:
    if seen.interface is not None:
        return
    if not seen.wireless:
        yield Obstacle("this kernel has no wireless stack", "modprobe cfg80211, and the driver of the adapter")
    elif seen.exists:
        yield Obstacle(f"{seen.name} is not wireless", "name a wireless interface: `iw dev` lists them")
    else:
        fix = "plug the adapter in, load its driver and firmware (`dmesg`), or correct the name: `iw dev` lists them"
        yield Obstacle(f"there is no interface {seen.name}", fix)


def _capability(wish: RadioSettings, phy: Phy) -> Iterator[Obstacle]:
    if MESH_POINT not in phy.modes:
        can = ", ".join(sorted(phy.modes)) or "nothing"
        yield Obstacle(
            f"the driver of {phy.name} has no mesh mode (it can: {can})",
            "use another adapter (docs/guide/radio.md), or a firmware with mesh mode",
        )
    elif wish.security is Security.SAE and not phy.mesh_auth:
        yield Obstacle(
            f"the driver of {phy.name} leaves no peering to wpa_supplicant, so it cannot do SAE",
            "use another adapter, or [radio] security = 'open'",
        )


def _regulation(wish: RadioSettings, seen: Observed) -> Iterator[Obstacle]:
    if wish.country in (None, seen.country):
        return
    if seen.phy and seen.phy.self_managed:
        yield Obstacle(
            f"the driver keeps its own regulatory domain, {seen.country}, not {wish.country}",
            f"[radio] country = '{seen.country}', or leave country out",
        )
    else:
        yield Obstacle(
            f"the kernel stays in regulatory domain {seen.country}, not {wish.country}",
            "install wireless-regdb and load cfg80211 again (reboot), or leave country out",
        )


def _blocked(seen: Observed) -> Iterator[Obstacle]:
    if seen.hard_blocked:
        yield Obstacle("the radio is switched off by hardware", "turn on the switch of the device")
    if seen.soft_blocked:
        yield Obstacle("the radio is switched off by software", "rfkill unblock wlan")


def _busy(own: Interface) -> Iterator[Obstacle]:
    if own.type != MESH_POINT and own.carrier:
        yield Obstacle(
            f"{own.name} is in use as {own.type}",
            "end what uses it (NetworkManager, wpa_supplicant, hostapd), and keep it from coming back",
        )


def _channel(wish: RadioSettings, phy: Phy) -> Iterator[Obstacle]:
    band = phy.band(wish.frequency)
    if band is None:
        usable = _usable(phy)
        yield Obstacle(f"{phy.name} has no channel at {wish.frequency} MHz", f"[radio] frequency, one of: {usable}")
        return
    whole = span(wish.frequency, wish.mode)
    if whole is None or not _can(band, wish.mode):
        allowed = ", ".join(mode for mode in Mode if _can(band, mode) and span(wish.frequency, mode))
        yield Obstacle(f"{phy.name} cannot do {wish.mode} on {wish.frequency} MHz", f"[radio] mode, one of: {allowed}")
        return
    forbidden = [words for part in whole.parts if (words := _forbidden(part, band.channels.get(part)))]
    if words := "; ".join(forbidden) or _width_forbidden(wish.mode, band.channels[wish.frequency]):
        fix = f"set [radio] country, with wireless-regdb installed, or a frequency that is allowed: {_usable(phy)}"
        yield Obstacle(f"the regulatory domain forbids it: {words}", fix)
    yield from _strength(wish, band)


def _strength(wish: RadioSettings, band: Band) -> Iterator[Obstacle]:
    power = band.channels[wish.frequency].power_max
    if wish.tx_power is not None and power and wish.tx_power > power:
        yield Obstacle(f"{wish.tx_power} dBm is too strong for {wish.frequency} MHz", f"[radio] tx_power <= {power:g}")
    if wish.mcast_rate is not None and band.rates and wish.mcast_rate not in band.rates:
        rates = ", ".join(f"{rate:g}" for rate in band.rates)
        yield Obstacle(f"no {wish.mcast_rate:g} Mbit/s on {wish.frequency} MHz", f"[radio] mcast_rate, one of: {rates}")


def _can(band: Band, mode: Mode) -> bool:
    match mode:
        case Mode.NOHT:
            return True
        case Mode.HT20:
            return band.ht is not None
        case Mode.VHT80:
            return band.vht
        case _:
            return band.ht is not None and bool(band.ht & _HT_40)


def _forbidden(frequency: int, channel: Channel | None) -> str:
    if channel is None or channel.disabled:
        return f"{frequency} MHz is disabled"
    if channel.radar:
        return f"{frequency} MHz must make way for radar, which a mesh point does not look for"
    return f"on {frequency} MHz only listening is allowed (no-IR)" if channel.no_ir else ""


def _width_forbidden(mode: Mode, channel: Channel) -> str:
    forbidden = {
        Mode.HT40_PLUS: channel.no_ht40_plus,
        Mode.HT40_MINUS: channel.no_ht40_minus,
        Mode.VHT80: channel.no_80mhz,
    }
    return f"{mode} around {channel.frequency} MHz" if forbidden.get(mode) else ""


def _usable(phy: Phy) -> str:
    free = sorted(
        channel.frequency
        for band in phy.bands
        for channel in band.channels.values()
        if not _forbidden(channel.frequency, channel)
    )
    return ", ".join(map(str, free)) or "none in this domain"


# --- the way back, and what is amiss ---


def _inverse(step: Step, before: Observed) -> Step | None:
    own = before.interface
    back: Step | None = None
    match step:
        case SetUp(up=up) if up or (own and own.up):
            back = SetUp(not up)
        case SetType() if own:
            back = SetType(own.type)
        case SetRtsThreshold() if before.phy:
            back = SetRtsThreshold(before.phy.rts_threshold)
        case SetTxPower():
            back = SetTxPower(None)
        case Join():
            back = Leave()
        case StartSupplicant():
            back = StopSupplicant()
    return back


def _left(seen: Observed, own: Interface) -> str:
    if seen.hard_blocked or seen.soft_blocked:
        return f"{own.name} was switched off by rfkill"
    if own.type != MESH_POINT:
        return f"{own.name} was made {own.type} by another program"
    return f"{own.name} has left the mesh" if own.up else f"{own.name} was set down"


def _rts(octets: int) -> str:
    return "off" if octets == RTS_OFF else str(octets)
