"""Decides whether a radio of this machine can be the access point, alone or beside a mesh point.

Theory of operation. The kernel lets interfaces of one radio be up together only as one of the radio's combinations
allows. An access point that shares its radio with a mesh interface has the same beacon interval as that: most drivers
refuse two different ones (cfg80211_iter_combinations of Linux 6.12, beacon_int_min_gcd).
"""

from collections.abc import Iterator, Mapping, Sequence

from meshsec.core.config.access_settings import AccessRadio
from meshsec.core.config.radio_settings import RadioSettings
from meshsec.core.radio.observed import ACCESS_POINT, MESH_POINT, Combination, Interface, Phy, Radio
from meshsec.core.radio.obstacles import Obstacle, switched_off

BEACON_INTERVAL = 100
"""Time units (1.024 ms) between two beacons: that of an access point by hostapd. A mesh point alone has 1000."""
_LIST = "docs/reference/adapters.md lists some"


def beacon_interval(wish: AccessRadio | None, mesh_interface: str) -> int | None:
    """Return the beacon interval that a mesh interface must have; None: any."""
    return BEACON_INTERVAL if wish and wish.shares == mesh_interface else None


def shared_channels(phy: Phy, mesh_points: int = 1) -> int:
    """Return on how many channels at once the radio can be access point and mesh point; 0: it cannot be both."""
    wanted = {ACCESS_POINT: 1, MESH_POINT: mesh_points}
    return max((one.channels for one in phy.combinations if _allows(one, wanted)), default=0)


def obstacles(wish: AccessRadio, mesh: Mapping[str, RadioSettings | None], radios: Sequence[Radio]) -> list[Obstacle]:
    """Return what keeps the access point from working; empty when hostapd may start.

    ``mesh`` has the mesh interfaces, with their settings if meshsec-radio brings them up.
    """
    own = owner(wish, radios)
    if own is None:
        return [_missing(wish, mesh, radios)]
    beside = {name: settings for name, settings in mesh.items() if own.has(name)}
    found = [*_capability(wish, own.phy), *switched_off(soft=own.soft_blocked, hard=own.hard_blocked)]
    if beside:
        found += _sharing(wish, beside, own, radios)
    return found


def owner(wish: AccessRadio, radios: Sequence[Radio]) -> Radio | None:
    """Return the radio of the access point: that of its interface, or else the one whose interface it shares."""
    names = filter(None, (wish.interface, wish.shares))
    return next((radio for name in names for radio in radios if radio.has(name)), None)


def interface(wish: AccessRadio, radios: Sequence[Radio]) -> Interface | None:
    """Return the access point's interface, if it exists."""
    return next((one for radio in radios for one in radio.interfaces if one.name == wish.interface), None)


def _missing(wish: AccessRadio, mesh: Mapping[str, RadioSettings | None], radios: Sequence[Radio]) -> Obstacle:
    if wish.shares:
        return Obstacle(
            f"there is no wireless interface {wish.shares}, whose radio {wish.interface} is to share",
            "plug the adapter in, or correct [access] radio shares: `iw dev` lists the interfaces",
        )
    fix = "plug the adapter in, or correct [access] radio interface: `iw dev` lists the interfaces"
    able = [name for name in mesh for radio in radios if radio.has(name) and shared_channels(radio.phy)]
    if able:
        fix += f"; to make it on the radio of a mesh interface: shares = '{able[0]}'"
    return Obstacle(f"there is no wireless interface {wish.interface}", fix)


def _capability(wish: AccessRadio, phy: Phy) -> Iterator[Obstacle]:
    if ACCESS_POINT not in phy.modes:
        can = ", ".join(sorted(phy.modes)) or "nothing"
        yield Obstacle(f"the driver of {phy.name} cannot be an access point (it can: {can})", "use another adapter")
    if phy.bands and phy.band(wish.frequency) is None:
        has = ", ".join(str(mhz) for band in phy.bands for mhz in sorted(band.channels))
        yield Obstacle(f"{phy.name} has no channel at {wish.frequency} MHz", f"[access] radio frequency, one of: {has}")


def _sharing(
    wish: AccessRadio, beside: Mapping[str, RadioSettings | None], own: Radio, radios: Sequence[Radio]
) -> Iterator[Obstacle]:
    """Yield why the radio cannot serve the mesh interfaces ``beside`` and the access point at the same time."""
    names = ", ".join(beside)
    if not (channels := shared_channels(own.phy, len(beside))):
        yield Obstacle(
            f"{own.phy.name}, the radio of {names}, cannot be access point and mesh point at once",
            f"give the access point a radio of its own, or the mesh one that can be both: {_able(radios)}",
        )
        return
    if wish.shares not in beside:
        yield Obstacle(
            f"{wish.interface} is on {own.phy.name}, the radio of {names}, which [access] does not say",
            f"[access] radio shares = '{next(iter(beside))}', or an interface of another radio",
        )
    used = sorted({settings.frequency for settings in beside.values() if settings})
    if len({*used, wish.frequency}) > channels:
        yield Obstacle(
            f"{own.phy.name} can be access point and mesh point on {_number(channels)} only: the access point is to be "
            f"on {wish.frequency} MHz, the mesh on {', '.join(map(str, used))} MHz",
            f"[access] radio frequency = {used[0]}, or [radio] frequency = {wish.frequency} on all nodes",
        )


def _able(radios: Sequence[Radio]) -> str:
    able = [str(radio) for radio in radios if shared_channels(radio.phy)]
    return f"of this machine {', '.join(able)}" if able else f"of this machine none; {_LIST}"


def _number(channels: int) -> str:
    return "one channel" if channels == 1 else f"{channels} channels"


def _allows(one: Combination, wanted: Mapping[str, int]) -> bool:
    """Return whether a combination holds these interfaces, as the kernel counts: against every limit with their type.

    Radar detection is left out: a mesh point of this product keeps off such channels.
    """
    left = [limit.most for limit in one.limits]
    for kind, count in wanted.items():
        places = [index for index, limit in enumerate(one.limits) if kind in limit.types]
        if not places or any(left[index] < count for index in places):
            return False
        for index in places:
            left[index] -= count
    return sum(wanted.values()) <= one.most
