"""Decides how a radio gets into the mesh: the steps there, the way back, and what still differs.

Theory of operation. An adapter observes (``Observed``). ``obstacles`` says what forbids joining, each with its fix.
Without any, ``plan`` gives the steps. After a failure, and at the end, ``undo`` gives the steps back for those that
were done. The adapter observes again, and ``differences`` judges the result: only what was read back is believed.
"""

import errno
from collections.abc import Iterable, Sequence

from meshsec.core.config.radio_settings import RadioSettings, RtsThreshold, Security
from meshsec.core.radio.observed import ACCESS_POINT, MESH_POINT, RTS_OFF, Interface, Observed
from meshsec.core.radio.obstacles import obstacles
from meshsec.core.radio.steps import (
    Join,
    Leave,
    SetMcastRate,
    SetMeshParameters,
    SetRtsThreshold,
    SetTxPower,
    SetType,
    SetUp,
    StartSupplicant,
    Step,
    StopSupplicant,
    rts,
    span,
)

FORGET_SECONDS = 60
"""Seconds until a silent station is forgotten; a neighbour sends a beacon each second.

In an open mesh the kernel forgets, with room for 256 stations of a radio. An attacker who invents stations fills
it, and with the kernel's default of 1800 s he keeps new neighbours out for half an hour after the attack.

With SAE wpa_supplicant forgets, and switches the kernel's limit off. It tries a neighbour for 40 to 80 s and then
leaves it alone until it forgets it. Were the limit longer than that (300 s is its default), two ends that refused each
other by turns would never meet again, whatever their passwords are by then.
"""


def plan(wish: RadioSettings, seen: Observed, beacon_interval: int | None = None) -> tuple[Step, ...]:
    """Return the steps into the mesh from what was seen. Raises ValueError when there are obstacles.

    ``beacon_interval`` is that of an access point which shares the radio (access_point.py).
    """
    whole = span(wish.frequency, wish.mode)
    if seen.interface is None or whole is None or obstacles(wish, seen):
        raise ValueError(f"{seen.name}: there are obstacles")
    steps: list[Step] = []
    if seen.interface.type == MESH_POINT and seen.interface.carrier:
        steps.append(Leave())
    steps += [SetUp(up=False), SetType(MESH_POINT)]
    if (octets := rts_threshold(wish)) is not None:
        steps.append(SetRtsThreshold(octets))
    if wish.tx_power is not None:
        steps.append(SetTxPower(wish.tx_power))
    steps.append(SetUp(up=True))
    if wish.security is Security.SAE:
        steps.append(StartSupplicant(beacon_interval))
    else:
        steps.append(Join(wish.mesh_id.encode(), wish.frequency, wish.mode, whole, beacon_interval))
    steps.append(SetMeshParameters(wish.rssi_threshold or 0, _forget_seconds(wish)))
    if wish.mcast_rate is not None:
        steps.append(SetMcastRate(wish.mcast_rate))
    return tuple(steps)


def rts_threshold(wish: RadioSettings) -> int | None:
    """Return the RTS threshold in octets with which the radio joins, None: the driver's; a measured one begins off."""
    return RTS_OFF if isinstance(wish.rts_threshold, RtsThreshold) else wish.rts_threshold


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
    octets = rts_threshold(wish)
    if seen.phy and octets is not None and seen.phy.rts_threshold != octets:
        found.append(f"the RTS threshold is {rts(seen.phy.rts_threshold)}, not {rts(octets)}")
    return found


def summary(seen: Observed, signals: Sequence[int], reason: str = "") -> str:
    """Return the radio in a line for people.

    ``signals`` are those of its neighbours, in dBm; ``reason`` is why it has its RTS threshold.
    """
    own = seen.interface
    parts = [own.type if own else "gone", f"{own.frequency} MHz" if own and own.frequency else "on no channel"]
    parts.append(f"regulatory domain {seen.country}")
    if seen.phy and MESH_POINT not in seen.phy.modes:
        parts.append("the driver has no mesh mode")
    heard = f", the weakest with {min(signals)} dBm" if signals else ""
    parts.append(f"{len(signals)} neighbours{heard}")
    if reason or (seen.phy and seen.phy.rts_threshold != RTS_OFF):
        parts.append(f"RTS threshold {rts(seen.phy.rts_threshold) if seen.phy else 'unknown'}")
    return ", ".join(parts) + (f" ({reason})" if reason else "")


def hint(code: int | None, seen: Observed) -> str:
    """Return what an error number of the kernel means here, and the fix; empty where its name says it."""
    match code:
        case errno.EPERM | errno.EACCES:
            return "; fix: run as root, or with CAP_NET_ADMIN"
        case errno.EBUSY if seen.others:
            others = ", ".join(f"{other.name} ({other.type})" for other in seen.others)
            how = "take that down, or put it on the same channel"
            if any(other.type == ACCESS_POINT for other in seen.others):
                how += f"; for an access point, too: [access] radio shares = '{seen.name}'"
            return f"; fix: the radio is shared with {others}: {how}"
        case errno.ERFKILL:
            return "; fix: rfkill unblock wlan, or the switch of the device"
        case _:
            return ""


def _forget_seconds(wish: RadioSettings) -> int | None:
    return FORGET_SECONDS if wish.security is Security.OPEN else None


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
