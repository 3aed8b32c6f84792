"""The gateway that a client sees: the same addresses and the same MAC address at every access node."""

from collections.abc import Iterable
from hashlib import sha256
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from meshsec.core.values.model import Network

DEVICE = "meshsec-clients"
"""The bridge to which access points and wired ports belong."""


def mac_of(networks: Iterable[Network]) -> str:
    """Return the MAC address of the gateway in the mesh with these networks: unicast, locally administered."""
    digest = sha256("\n".join(sorted(map(str, networks))).encode()).digest()
    return bytes((digest[0] & 0xFC | 0x02, *digest[1:6])).hex(":")


def addresses_of(networks: Iterable[Network]) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """Return the nodes' address in each network: the first."""
    return tuple(ip_interface(f"{one.network_address + 1}/{one.prefixlen}") for one in networks)
