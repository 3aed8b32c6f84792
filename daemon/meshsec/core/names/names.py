"""Which name leads to which addresses on this node: its own, and those of the nodes that it trusts (ADR 0071).

A name is what this node calls a peer. What a card says of its own name counts nowhere here, so that no peer can take
the name of another one.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from meshsec.core.values.host_names import ClientName
from meshsec.core.values.model import Address, Card, Peer, peer_name

DOMAIN = "mesh"
"""The domain of all names: ``bravo.mesh``. No name of a machine's own files has it, and none of the public DNS."""


CLIENT_LINES_MAX = 4096
"""Addresses of clients that have a name here: the C library reads all of them for each name."""


class Named(NamedTuple):
    """One name."""

    name: str
    """Without the domain."""
    addresses: tuple[Address, ...]
    """The addresses, the one to try first at the front."""

    @property
    def full(self) -> str:
        """The name with its domain."""
        return f"{self.name}.{DOMAIN}"


class Told(NamedTuple):
    """What the clients of one node are called, as that node says."""

    node: str
    """The node's name on this node."""
    names: tuple[ClientName, ...]
    may: Callable[[Address], bool]
    """Whether the node may give this address a name."""


def of_clients(told: Iterable[Told]) -> tuple[Named, ...]:
    """Return the names of clients, each below the name of its node. An address has the name that is said first.

    A name has two labels, so that no client has the name of a node.
    """
    taken: set[Address] = set()
    found = []
    for node, names, may in told:
        for one in names:
            addresses = tuple(address for address in one.addresses if address not in taken and may(address))
            if addresses and len(taken) + len(addresses) <= CLIENT_LINES_MAX:
                taken.update(addresses)
                found.append(Named(f"{one.label}.{node}", addresses))
    return tuple(sorted(found, key=lambda one: one.name))


def named(own: Iterable[Card], peers: Iterable[Peer]) -> tuple[Named, ...]:
    """Return all names: this node's first, then those of its peers in order.

    ``own`` are the cards of this node's keys. A peer that this node calls by its own name gets none. While a key is
    being changed, the name has the addresses of both keys, the present one's first (ADR 0041).
    """
    found: dict[str, dict[Address, None]] = {}
    for card in own:
        found.setdefault(card.name, {}).update(dict.fromkeys(_addresses(card)))
    ours = frozenset(found)
    for peer in sorted(peers, key=lambda peer: peer.name):
        name = peer_name(peer.name)
        if name not in ours:
            found.setdefault(name, {}).update(dict.fromkeys(_addresses(peer.card)))
    return tuple(Named(name, tuple(addresses)) for name, addresses in found.items())


def _addresses(card: Card) -> tuple[Address, ...]:
    return (card.address,) if card.ipv4 is None else (card.address, card.ipv4)
