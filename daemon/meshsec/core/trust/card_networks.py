"""The networks on a card as octets (docs/reference/card.md)."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from meshsec.core.values.model import Network

_IPV4 = 0xC0
"""Of the first octet of an IPv4 network; the rest of it is the prefix length. IPv6: the octet is the length, 0 to 128.
"""


class NetworksError(ValueError):
    """Octets that are no networks. The message says why."""


def encode(networks: Iterable[Network]) -> bytes:
    """Return the number of networks in one octet, and each of them: family with length, and the prefix's octets."""
    found = [*networks]
    return bytes([len(found)]) + b"".join(map(_encoded, found))


def decode(octets: bytes) -> tuple[tuple[Network, ...], int]:
    """Return the networks at the beginning of the octets, and how many octets they take. Raises NetworksError."""
    if not octets:
        raise NetworksError("its networks are missing")
    networks: list[Network] = []
    at = 1
    for _ in range(octets[0]):
        network, at = _decoded(octets, at)
        networks.append(network)
    return tuple(networks), at


def _encoded(network: Network) -> bytes:
    head = network.prefixlen | (_IPV4 if network.version == 4 else 0)
    return bytes([head]) + network.network_address.packed[: _octets(network.prefixlen)]


def _decoded(octets: bytes, at: int) -> tuple[Network, int]:
    head = octets[at] if at < len(octets) else None
    if head is None:
        raise NetworksError("it ends within its networks")
    is_ipv4 = head >= _IPV4
    length, size = (head - _IPV4, 4) if is_ipv4 else (head, 16)
    if length > size * 8:
        raise NetworksError(f"a network has the prefix length {length}; allowed: 0 to {size * 8}")
    end = at + 1 + _octets(length)
    if end > len(octets):
        raise NetworksError("it ends within its networks")
    number = int.from_bytes(octets[at + 1 : end].ljust(size, b"\0"))
    try:
        return (IPv4Network((number, length)) if is_ipv4 else IPv6Network((number, length))), end
    except ValueError as error:
        raise NetworksError(str(error)) from None


def _octets(length: int) -> int:
    return (length + 7) // 8
