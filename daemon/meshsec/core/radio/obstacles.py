"""What keeps a radio out of the mesh, and how to fix it."""

from collections.abc import Iterator
from dataclasses import dataclass

from meshsec.core.config.radio_settings import Mode, RadioSettings, Security
from meshsec.core.radio.observed import MESH_POINT, Band, Channel, Interface, Observed, Phy
from meshsec.core.radio.steps import span

_HT_40 = 1 << 1
"""Supported Channel Width Set (IEEE 802.11-2020, section 9.4.2.55.2)."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the radio cannot join, and how to fix it."""

    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.found}; fix: {self.fix}"


def obstacles(wish: RadioSettings, seen: Observed) -> list[Obstacle]:
    """Return what is in the way, in the order in which one would fix it; empty when ``plan`` may be carried out."""
    missing = list(_missing(seen))
    if missing or seen.phy is None or seen.interface is None:
        return missing
    return [
        *_capability(wish, seen.phy),
        *_regulation(wish, seen),
        *switched_off(soft=seen.soft_blocked, hard=seen.hard_blocked),
        *_busy(seen.interface),
        *_channel(wish, seen.phy),
    ]


def wants_country(wish: RadioSettings, seen: Observed) -> bool:
    """Return whether the regulatory domain has to be asked for first."""
    return wish.country not in (None, seen.country) and seen.phy is not None and not seen.phy.self_managed


def blocked(seen: Observed) -> list[str]:
    """Return which rfkill switches block the radio."""
    return [one.found for one in switched_off(soft=seen.soft_blocked, hard=seen.hard_blocked)]


def switched_off(*, soft: bool, hard: bool) -> Iterator[Obstacle]:
    """Yield the switches that are off."""
    if hard:
        yield Obstacle("the radio is switched off by hardware", "turn on the switch of the device")
    if soft:
        yield Obstacle("the radio is switched off by software", "rfkill unblock wlan")


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
