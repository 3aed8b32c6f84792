"""Which networks on peers' cards count (ADR 0062).

The operator's words in ``[routing]`` go before all cards. A card that was added on this node goes before those of a
fleet's members. Of two cards that rank the same and name networks that overlap neither counts, because nobody knows
which is meant; the same network on several cards is no overlap.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from meshsec.core.values.model import Address, Network

Grants = Mapping[Network, tuple[str | Address, ...]]
"""Who may speak for a network, by a peer's name or one of its addresses."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The networks on a peer's card."""

    by_fleet: bool
    peer: str
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """What counts, and what does not."""

    grants: Grants
    refused: Mapping[tuple[str, Network], str]
    """By peer and network, why its card does not count."""


def granted(
    configured: Grants, claims: Iterable[Claim], own: Collection[Network], mesh: Collection[Network] = ()
) -> Granted:
    """Return who may speak for which network.

    ``own`` are the networks behind this node, ``mesh`` those in which the nodes have their own IPv4 addresses.
    """
    found = {network: list(peers) for network, peers in configured.items()}
    refused: dict[tuple[str, Network], str] = {}
    occupied = [(network, "which is behind this node") for network in own]
    occupied += [(network, "where the nodes have their own addresses (mesh_prefixes)") for network in mesh]
    by_rank: dict[bool, list[tuple[str, Network]]] = {False: [], True: []}
    for claim in sorted(claims, key=lambda one: one.peer):
        by_rank[claim.by_fleet] += [(claim.peer, network) for network in claim.networks]
    for rank in by_rank.values():
        taken = [(network, f"for which {', '.join(map(str, peers))} may speak") for network, peers in found.items()]
        fit = []
        for peer, network in rank:
            beside = [(other, f"on the card of {whose}") for whose, other in rank if whose != peer]
            others = (*occupied, *((other, why) for other, why in (*taken, *beside) if other != network))
            if clash := _clash(network, others):
                refused[peer, network] = clash
            else:
                fit.append((peer, network))
        for peer, network in fit:
            found.setdefault(network, []).append(peer)
    return Granted({network: tuple(dict.fromkeys(peers)) for network, peers in found.items()}, refused)


def _clash(network: Network, others: Iterable[tuple[Network, str]]) -> str:
    """Return what a network overlaps. Default routes overlap nothing: every other network is a part of them."""
    for other, why in others:
        if network.prefixlen and other.prefixlen and network.version == other.version and network.overlaps(other):
            return f"it overlaps {other}, {why}"
    return ""
