"""Links over the internet to trusted nodes (``[[link]]``): what is asked for, and what each of their paths has."""

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple

PATHS = 4
"""The most paths of one link, and so the most uplinks: each takes one of the router's 64 interfaces at both ends."""


@dataclass(frozen=True, slots=True)
class InternetLink:
    """A link that the operator asks for."""

    peer: str
    """The trusted node's local name."""
    address: str
    """Where it can be reached: an IP address or a host name. Empty: this node only answers."""
    uplinks: tuple[str, ...]
    """Interfaces to the outside, the preferred one first. Path n begins at the nth of the end that initiates."""


class Joint(NamedTuple):
    """One path of a link: two addresses that exist for it alone, and the Ethernet between them."""

    link: str
    """The peer's local name."""
    path: int
    own: IPv6Address
    peer: IPv6Address
    network_id: int
    """VNI of its frames (RFC 7348, section 5), the same at both ends."""
    device: str
    """The OLSRv2 interface."""
