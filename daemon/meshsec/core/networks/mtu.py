"""The largest packet that fits into the tunnel."""

from collections.abc import Iterable, Mapping

from meshsec.core.values.model import EspBackend

IPV6_MINIMUM = 1280
"""Bytes that every IPv6 link carries (RFC 8200, section 5). Where less fits, the outer packets are fragmented."""
_USUAL = 1500
"""MTU of a mesh interface that is not there yet."""
_TUNNEL = 40 + 8 + 8
"""Outer IPv6, UDP and VXLAN-GPE headers."""
_ESP = 8 + 16 + 16 + 16
"""ESP (RFC 4303): header, the longest IV, padding with trailer, and the longest integrity value of the suites."""
_IN_UDP = 40 + 8
"""Where ESP is in user space it is tunnel mode in UDP (RFC 3948)."""
OVERLAY_LEAST = IPV6_MINIMUM + _TUNNEL
"""MTU of the overlay's device in bytes with which IPv6 of networks just fits."""
OVERLAY = 1396
"""MTU of the overlay's device in bytes, so that the tunnel is no smaller in the overlay than in ESP in user space. A
packet of this size has 1500 bytes at most with all of the overlay's headers."""


def inner_mtu(mtus: Mapping[str, int], links: Iterable[str], backend: EspBackend, overlay: str) -> int:
    """Return the MTU of the tunnel's device in bytes.

    ``mtus``: of all interfaces; ``links``: the mesh interfaces; ``overlay``: the overlay's device, empty where there is
    none. It can carry the tunnel's packets in the SA's place at any time. What it cannot take is lost: the kernel does
    not fragment there.
    """
    smallest = min((mtus[link] for link in links if link in mtus), default=_USUAL)
    overhead = _TUNNEL + _ESP + (_IN_UDP if backend is EspBackend.LIBIPSEC else 0)
    room = [smallest - overhead]
    if overlay:
        room.append(mtus.get(overlay, OVERLAY) - _TUNNEL)
    return max(min(room), IPV6_MINIMUM)
