"""Names, addresses and numbers of a link's paths: both ends derive the same ones from their keys.

Theory of operation. A path is one CHILD_SA in tunnel mode between two addresses that exist for this path alone. Between
them runs VXLAN (RFC 7348), and its device is an interface of the router. So nothing but the path's own Ethernet fits
into the SA, and a peer can bring in no other address.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from meshsec.core.values.islands import PATHS, Joint
from meshsec.core.values.model import Card

PREFIX: Final = IPv6Network("fd4d:534c::/32")
"""Where the paths' addresses lie. No router announces them."""
PORT: Final = 4789
"""VXLAN (RFC 7348, section 5)."""
MTU: Final = 1280
"""Octets of the largest IPv6 packet on a path, the least that IPv6 allows. With all headers it takes 1434, so that it
fits into the uplinks of mobile networks, too."""
_DEVICE = re.compile(r"ml[0-9a-f]{6}-[0-9]")
_CONNECTION = "link:"
"""Begins the names of links' connections in the IKE daemon. No name of a peer has a colon."""


def device(peer: str, path: int) -> str:
    """Return the name of a path's interface. It follows from the peer's local name, and stays when others are added."""
    return f"ml{sha256(peer.encode()).hexdigest()[:6]}-{path}"


def devices(peer: str) -> tuple[str, ...]:
    """Return the names of the interfaces of all paths that a link may have."""
    return tuple(device(peer, path) for path in range(PATHS))


def is_path(interface: str) -> bool:
    """Return whether an interface of the router is a path of a link, and no interface of the mesh."""
    return _DEVICE.fullmatch(interface) is not None


def connection(peer: str, uplink: int) -> str:
    """Return the name of the connection in the IKE daemon that uses one of this node's uplinks."""
    return f"{_CONNECTION}{peer}:{uplink}"


def is_link(name: str) -> bool:
    """Return whether a connection of the IKE daemon is a link's."""
    return name.startswith(_CONNECTION)


def parts(name: str) -> tuple[str, int]:
    """Return the peer and the number of the uplink of a link's connection."""
    peer, _, uplink = name.removeprefix(_CONNECTION).rpartition(":")
    return peer, int(uplink)


def child(path: int) -> str:
    """Return the name of a path's CHILD_SA."""
    return f"path{path}"


def joints(own: Card, peer: Card, name: str) -> tuple[Joint, ...]:
    """Return the paths between two nodes; ``name`` is the peer's local name."""
    return tuple(
        Joint(
            link=name,
            path=path,
            own=_address(own, peer, path),
            peer=_address(peer, own, path),
            network_id=int.from_bytes(_hash(sorted([own.public_key, peer.public_key]), path)[:3]),
            device=device(name, path),
        )
        for path in range(PATHS)
    )


def all_joints(own: Card, cards: Mapping[str, Card], linked: Collection[str]) -> tuple[Joint, ...]:
    """Return the paths to the peers to whom links are asked for, as far as they are trusted: their cards by name."""
    return tuple(one for name in sorted(linked) if name in cards for one in joints(own, cards[name], name))


def _address(end: Card, other: Card, path: int) -> IPv6Address:
    rest = _hash([end.public_key, other.public_key], path)[:12]
    return IPv6Address(PREFIX.network_address.packed[:4] + rest)


def _hash(keys: Iterable[bytes], path: int) -> bytes:
    return sha256(b"".join([b"meshsec link", *keys, bytes([path])])).digest()
