"""Which addresses a peer may give names (ADR 0078): those of clients that are, as far as is known, behind it."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address

from meshsec.core.channels.desired import host
from meshsec.core.channels.situation import Situation
from meshsec.core.values.model import Address, Card, Network, Peer


def of_nodes(own: Iterable[Card], peers: Iterable[Peer]) -> frozenset[Address]:
    """Return the addresses that are nodes', and no client's."""
    cards = (*own, *(peer.card for peer in peers))
    return frozenset(one for card in cards for one in (card.address, card.locator, card.ipv4) if one is not None)


def elsewhere(known: Situation) -> Mapping[Network, IPv6Address]:
    """Return behind which node each client is; one whose node is not in reach may be missing."""
    return {**known.networks.in_use, **known.networks.clients}


def admitted(
    known: Situation, peer: Peer, nodes: frozenset[Address], places: Mapping[Network, IPv6Address]
) -> Callable[[Address], bool]:
    """Return a function that says whether a peer may give an address a name.

    It must be in a network of clients for which the peer may speak, and the client behind no other node.
    """

    def may(address: Address) -> bool:
        network = host(address)
        outer = known.networks.around(network)
        if address in nodes or outer is None or not known.networks.may_speak(outer, peer.name, peer.card):
            return False
        return places.get(network, peer.card.address) == peer.card.address

    return may
