"""Which networks on peers' cards count (ADR 0062).

The operator's words in ``[routing]`` go before all cards. A card that was added on this node goes before those of a
fleet's members. Of two cards that rank the same and name networks that overlap neither counts, because nobody knows
which is meant; the same network on several cards is no overlap.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    configured: Grants,
    claims: Iterable[Claim],
    own: Collection[Network],
    mesh: Collection[Network] = (),
    selected: Collection[Network] = (),
) -> Granted:
    """Return who may speak for which network.

    ``own`` are the networks behind this node, ``mesh`` those in which the nodes have their own IPv4 addresses.
    ``selected`` are those of ``configured`` that are in traffic selectors, and so have one peer.
    """
    found = {network: list(peers) for network, peers in configured.items()}
    refused: dict[tuple[str, Network], str] = {}
    occupied = dict.fromkeys(own, "which is behind this node")
    occupied |= dict.fromkeys(mesh, "where the nodes have their own addresses (mesh_prefixes)")
    occupied |= dict.fromkeys(selected, "which one peer alone has (by traffic selectors)")
    by_rank: dict[bool, dict[Network, list[str]]] = {False: {}, True: {}}
    for claim in sorted(claims, key=lambda one: one.peer):
        for network in claim.networks:
            by_rank[claim.by_fleet].setdefault(network, []).append(claim.peer)
    for asked in by_rank.values():
        taken = {network: f"for which {', '.join(map(str, peers))} may speak" for network, peers in found.items()}
        clashes = _clashes(asked, occupied, taken)
        for network, peers in asked.items():
            for peer in peers:
                if (peer, network) not in clashes:
                    found.setdefault(network, []).append(peer)
        refused |= clashes
    return Granted({network: tuple(dict.fromkeys(peers)) for network, peers in found.items()}, refused)


def _clashes(
    asked: Mapping[Network, Collection[str]], occupied: Mapping[Network, str], taken: Mapping[Network, str]
) -> dict[tuple[str, Network], str]:
    """Return what each peer's network overlaps. Default routes overlap nothing: all others are a part of them.

    ``asked``: who asks for each network. ``occupied`` and ``taken``: other networks, with what they are; one that is
    taken may be asked for, too, if it is the same.
    """
    refusals, fixed = _Refusals(asked), {**taken, **occupied}
    for network in asked.keys() & occupied.keys():
        if network.prefixlen:
            refusals.add(network, network, occupied[network])
    for inner, outer in _nested(asked, fixed):
        refusals.add(inner, outer, fixed[outer])
    for inner, outer in _nested(fixed, asked):
        refusals.add(outer, inner, fixed[inner])
    for inner, outer in _nested(asked, asked):
        for peer in asked[outer]:
            refusals.add(inner, outer, f"on the card of {peer}", unless=peer)
        for peer in asked[inner]:
            refusals.add(outer, inner, f"on the card of {peer}", unless=peer)
    return refusals.reasons


class _Refusals:
    """The first reason for each claim that does not count."""

    def __init__(self, asked: Mapping[Network, Collection[str]]) -> None:
        self.reasons: dict[tuple[str, Network], str] = {}
        self._asked = asked

    def add(self, network: Network, other: Network, what: str, unless: str = "") -> None:
        """Refuse a network to all who ask for it, but for the one peer who has both."""
        for peer in self._asked[network]:
            if peer != unless:
                self.reasons.setdefault((peer, network), f"it overlaps {other}, {what}")


def _nested(inner: Iterable[Network], outer: Mapping[Network, object]) -> Iterator[tuple[Network, Network]]:
    """Yield each network with the larger ones that contain it, found by their few lengths and not in pairs."""
    lengths = sorted({one.prefixlen for one in outer if one.prefixlen})
    for network in inner:
        for length in lengths:
            if length < network.prefixlen:
                container = network.supernet(new_prefix=length)
                if container in outer:
                    yield network, container
