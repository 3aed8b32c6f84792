"""What lies outside: where a default route leads, and no other network."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Final

from meshsec.core.values.model import Address, Network

PRIVATE: Final[Mapping[int, tuple[Network, ...]]] = {
    4: tuple(
        map(
            ip_network,
            (
                "10.0.0.0/8",
                "100.64.0.0/10",
                "127.0.0.0/8",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "224.0.0.0/3",
            ),
        )
    ),
    6: tuple(map(ip_network, ("::/8", "fc00::/7", "fe80::/10", "ff00::/8"))),
}
"""Private networks by IP version, which a default route does not open: it leads out, not into the networks beside."""


def is_outside(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether an address lies outside. ``networks`` are those of nodes; default routes among them lead out."""
    inside = (*PRIVATE[address.version], *(one for one in networks if one.prefixlen))
    return not any(address in one for one in inside)
