"""Read the kernel's SAs and policies through NETLINK_XFRM (linux/xfrm.h), because ``ip xfrm`` has no JSON output.

Messages are decoded here, once. The keys that the kernel sends with an SA are not read.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from meshsec.core.ike.drift_kernel import XfrmPolicy, XfrmState
from meshsec.core.values.model import Address, Network

_NETLINK_XFRM = 6
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP = 0x1, 0x4, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_DONE = 0
"""The error number by which the kernel confirms a request."""
_DELETE_STATE, _GET_STATE, _GET_POLICY = 0x11, 0x12, 0x15
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")

_SELECTOR = struct.Struct("=16s16sHHHHHBBB3xiI")
"""struct xfrm_selector: destination, source, ports and masks, family, prefix lengths, protocol, interface, user."""
_STATE_SIZE, _POLICY_SIZE = 224, 168
"""Sizes in bytes of struct xfrm_usersa_info and struct xfrm_userpolicy_info; attributes follow."""
_STATE = struct.Struct("=16s4sB3x16s72xQ32xIHBB")
"""xfrm_usersa_info after the selector: destination, SPI, protocol, source, (lifetimes, bytes,) packets, (times, errors,
number,) request, family, mode, replay window."""
_STATE_ID = struct.Struct("=16s4sHBx")
"""struct xfrm_usersa_id: destination, SPI, family, protocol."""
_POLICY = struct.Struct("=96xIIBB")
"""xfrm_userpolicy_info after the selector: (lifetimes,) priority, index, direction, action."""
_TEMPLATE = struct.Struct("=24xH2x16sIBBB13x")
"""struct xfrm_user_tmpl: family, source, request, mode, sharing, whether it is optional."""
_REPLAY = struct.Struct("=20xI")
"""struct xfrm_replay_state_esn: the window, in packets."""

_ALGORITHMS = frozenset({1, 2, 18, 20})
"""XFRMA_ALG_AUTH, _CRYPT, _AEAD and _AUTH_TRUNC. A state without any is an SPI reserved for a negotiation."""
_TEMPLATES, _MARK, _REPLAY_WINDOW, _INTERFACE_ID = 5, 21, 23, 31
_MODES = ("transport", "tunnel", "route optimization", "in trigger", "beet")
_DIRECTIONS = ("in", "out", "fwd")
"""Directions by number. Higher numbers are policies of single sockets."""
_ALLOW = 0
_NEIGHBOURS = {(58, socket.htons(kind), 0xFFFF) for kind in (135, 136)}
"""ICMPv6 of neighbour discovery (RFC 4861), which is no user data. Its type is in the place of a source port."""

_PORTION = 1 << 16
_TIMEOUT = 10.0
"""Seconds to wait for an answer of the kernel."""


class XfrmError(OSError):
    """The kernel refused, or its answer is malformed."""


async def states() -> tuple[XfrmState, ...]:
    """Return all SAs that have a key; none if the kernel has no XFRM. Raises XfrmError."""
    return tuple(filter(None, map(_state, await asyncio.to_thread(_dump, _GET_STATE, _STATE_SIZE))))


async def packets() -> dict[str, int]:
    """Return how many packets each SA has protected or accepted, by SPI in hexadecimal. Raises XfrmError."""
    return {state.spi: state.packets for state in await states()}


async def policies() -> tuple[XfrmPolicy, ...]:
    """Return all policies except those of single sockets and of neighbour discovery.

    Returns none if the kernel has no XFRM. Raises XfrmError.
    """
    return tuple(filter(None, map(_policy, await asyncio.to_thread(_dump, _GET_POLICY, _POLICY_SIZE))))


async def remove(states: Iterable[XfrmState]) -> None:
    """Remove ESP SAs. If one is gone already, that is no error. Raises XfrmError."""
    await asyncio.to_thread(_remove, tuple(states))


def _remove(states: Iterable[XfrmState]) -> None:
    for state in states:
        family = socket.AF_INET if state.destination.version == 4 else socket.AF_INET6
        body = _STATE_ID.pack(state.destination.packed, bytes.fromhex(state.spi), family, socket.IPPROTO_ESP)
        _ask(_DELETE_STATE, _NLM_F_ACK, body, forgiven=errno.ESRCH)


def _dump(kind: int, size: int) -> list[bytes]:
    """Return the kernel's answers to a request for all entries."""
    return _ask(kind, _NLM_F_DUMP, bytes(size))


def _ask(kind: int, flags: int, body: bytes, forgiven: int = 0) -> list[bytes]:
    """Return the kernel's answers to a request. ``forgiven`` is an error number that does not count."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_XFRM) as sock:
            sock.settimeout(_TIMEOUT)
            sock.send(_HEADER.pack(_HEADER.size + len(body), kind, _NLM_F_REQUEST | flags, 1, 0) + body)
            return list(_answers(sock, forgiven))
    except struct.error as error:
        raise XfrmError(f"XFRM: the kernel's answer is cut short ({error})") from error
    except OSError as error:
        if isinstance(error, XfrmError):
            raise
        if error.errno == errno.EPROTONOSUPPORT:
            return []
        raise XfrmError(f"XFRM: {error}") from error


def _answers(sock: socket.socket, forgiven: int) -> Iterator[bytes]:
    while True:
        portion = sock.recv(_PORTION)
        while portion:
            length, kind, *_ = _HEADER.unpack_from(portion)
            body, portion = portion[_HEADER.size : length], portion[_aligned(length) :]
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                error = -struct.unpack_from("=i", body)[0]
                if error in (_DONE, forgiven):
                    return
                raise XfrmError(f"XFRM: the kernel refuses, error {error}")
            yield body


def _aligned(length: int) -> int:
    return max(length + 3 & ~3, _HEADER.size)


def _attributes(body: bytes, offset: int) -> dict[int, bytes]:
    found = {}
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        found[kind] = body[offset + _ATTRIBUTE.size : offset + length]
        offset += max(length + 3 & ~3, _ATTRIBUTE.size)
    return found


def _state(body: bytes) -> XfrmState | None:
    attributes = _attributes(body, _STATE_SIZE)
    if not attributes.keys() & _ALGORITHMS:
        return None
    destination, spi, _, source, packets, _, family, mode, window = _STATE.unpack_from(body, _SELECTOR.size)
    if _REPLAY_WINDOW in attributes:
        (window,) = _REPLAY.unpack_from(attributes[_REPLAY_WINDOW])
    return XfrmState(_address(source, family), _address(destination, family), spi.hex(), _mode(mode), window, packets)


def _policy(body: bytes) -> XfrmPolicy | None:
    destination, source, *ports, family, to, from_, protocol, interface, _ = _SELECTOR.unpack_from(body)
    priority, _, direction, action = _POLICY.unpack_from(body, _SELECTOR.size)
    if direction >= len(_DIRECTIONS) or (protocol, *ports[2:]) in _NEIGHBOURS:
        return None
    attributes = _attributes(body, _POLICY_SIZE)
    return XfrmPolicy(
        direction=_DIRECTIONS[direction],
        source=_network(source, family, from_),
        destination=_network(destination, family, to),
        priority=priority,
        allows=action == _ALLOW,
        templates=tuple(_templates(attributes.get(_TEMPLATES, b""))),
        narrowed=any(ports) or bool(protocol or interface) or bool(attributes.keys() & {_MARK, _INTERFACE_ID}),
    )


def _templates(octets: bytes) -> Iterator[tuple[str, bool]]:
    for *_, mode, _, optional in _TEMPLATE.iter_unpack(octets):
        yield _mode(mode), bool(optional)


def _mode(number: int) -> str:
    return _MODES[number] if number < len(_MODES) else f"mode {number}"


def _address(octets: bytes, family: int) -> Address:
    return IPv4Address(octets[:4]) if family == socket.AF_INET else IPv6Address(octets)


def _network(octets: bytes, family: int, length: int) -> Network:
    if family == socket.AF_INET:
        return IPv4Network((octets[:4], length), strict=False)
    return IPv6Network((octets, length), strict=False)
