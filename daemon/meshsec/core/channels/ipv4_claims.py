"""Which IPv4 addresses of cards are believed (ADR 0057).

An ``fc..`` address follows from its node's key. The IPv4 address on a card follows from nothing: its node wrote it
there. A claim that is not believed gets no traffic selector and no drop rule, and the peer's IPv6 part goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network

from meshsec.core.values.model import Address, Card, Network, Peer, peer_name

DERIVED_LENGTH = 16
"""Prefix length of the network around this node's own address where ``mesh_prefixes`` has no IPv4 prefix."""

PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""Addresses of private use (RFC 1918; RFC 6598)."""


@dataclass(frozen=True, slots=True, order=True)
class Elsewhere:
    """A network that this node reaches by an interface outside of the mesh, or an address of its own."""

    network: IPv4Network
    interface: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What claims are judged by."""

    mesh: tuple[IPv4Network, ...]
    elsewhere: tuple[Elsewhere, ...] = ()


def mesh_networks(prefixes: Iterable[Network], own: IPv4Address | None) -> tuple[IPv4Network, ...]:
    """Return where peers may have their IPv4 addresses: what ``mesh_prefixes`` names, else around this node's own.

    A node without an own address exchanges no IPv4 data with peers. There belief only closes an address, as it should
    for any of private use.
    """
    named = tuple(prefix for prefix in prefixes if isinstance(prefix, IPv4Network))
    if named:
        return named
    return PRIVATE if own is None else (IPv4Network((int(own), DERIVED_LENGTH), strict=False),)


def refusal(claim: IPv4Address, around: Surroundings) -> str:
    """Return why an address cannot be a peer's; empty when it can."""
    if not any(claim in network for network in around.mesh):
        allowed = ", ".join(map(str, around.mesh))
        return f"{claim} is outside of the mesh; allowed: {allowed} (mesh_prefixes in [policy] of meshsec.toml)"
    covering = [one for one in around.elsewhere if claim in one.network]
    if not covering:
        return ""
    nearest = max(covering, key=lambda one: one.network.prefixlen)
    if nearest.network.prefixlen == claim.max_prefixlen and nearest.network.network_address == claim:
        return f"{claim} is an address of this node's, on {nearest.interface}"
    return f"{claim} is in {nearest.network}, which this node reaches by {nearest.interface}, outside of the mesh"


def contested(peers: Mapping[str, Peer], own: Card) -> dict[str, str]:
    """Return, by name, why a peer's address is not its alone.

    Of two cards that were added on this node neither is believed, because nobody knows which is meant. Such a card
    goes before a member's of a fleet, and the member that comes first goes before those behind it.
    """
    found: dict[str, str] = {}
    holders: dict[IPv4Address, str] = {}
    for name, peer in sorted(peers.items(), key=lambda entry: bool(entry[1].fleet)):
        claim = peer.card.ipv4
        if claim is None:
            continue
        if claim == own.ipv4:
            found[name] = f"{claim} is this node's own"
            continue
        holder = holders.setdefault(claim, name)
        if peer_name(holder) == peer_name(name):  # a peer's two keys share its address (ADR 0041)
            continue
        found[name] = f"{claim} is also that of peer {holder!r}"
        if not peer.fleet:
            found.setdefault(holder, f"{claim} is also that of peer {name!r}")
    return found


def believed(peers: Mapping[str, Peer], own: Card, around: Surroundings) -> dict[str, Peer]:
    """Return the peers as they are in force: a claim that is not believed is taken from the card, with the reason."""
    doubts = contested(peers, own)
    return {name: _believed(peer, doubts.get(name, ""), around) for name, peer in peers.items()}


def _believed(peer: Peer, doubt: str, around: Surroundings) -> Peer:
    if peer.card.ipv4 is None:
        return peer
    doubt = refusal(peer.card.ipv4, around) or doubt
    return replace(peer, card=replace(peer.card, ipv4=None), ipv4_doubt=doubt) if doubt else peer


def stays_closed(address: Address, mesh: Iterable[IPv4Network]) -> bool:
    """Return whether an address that was closed for a peer may stay closed; a public one outside the mesh may not.

    An address of private use that no claim is believed for any more is no reason to send a peer's data in the clear.
    """
    if not isinstance(address, IPv4Address) or not address.is_global:
        return True
    return any(address in network for network in mesh)
