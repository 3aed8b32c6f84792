"""How a protected network is announced: as IPv6, whatever it is.

An IPv4 network is announced as ``::ffff:10.1.0.0/112`` (IPv4-mapped, RFC 4291, section 2.5.5.2). So it is known in
meshes whose nodes have no IPv4 address, and a route to it that a router may set carries no packet.
"""

from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from meshsec.core.values.model import Network

_MAPPED = IPv6Network("::ffff:0:0/96")


class LocalNetwork(NamedTuple):
    """A network that this node announces."""

    network: Network
    distance: int
    metric: int


def as_ipv6(network: Network) -> str:
    """Return a network as it is announced, in the notation of both routers."""
    if isinstance(network, IPv6Network):
        return str(network)
    return f"::ffff:{network.network_address}/{_MAPPED.prefixlen + network.prefixlen}"


def as_meant(network: Network) -> Network:
    """Return the network that an announced one stands for."""
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - _MAPPED.prefixlen))
    return network
