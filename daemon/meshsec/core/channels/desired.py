"""What a peer's card and the policy ask for: the connection, the rules, and which end initiates."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import (
    Address,
    Authentication,
    Card,
    ChildSpec,
    ConnectionSpec,
    EspBackend,
    Network,
    Peer,
    Perimeter,
    RulesSpec,
    UnknownNodes,
)

CHILD = "mesh"
"""The CHILD_SA of every pair. With ESP in user space it carries the IPv4 pair too."""
CHILD_IPV4 = "mesh4"
"""The IPv4 pair's own CHILD_SA with ESP in the kernel: transport mode cannot carry it between IPv6 end points."""

CHILD_NETWORKS = "net-"
"""Prefix of the CHILD_SAs for two networks, one behind each end; a hash of the two follows."""
Selectors = Iterable[tuple[Network, Network]]
"""Pairs of a network behind this node and one behind the peer."""


class Wish(Enum):
    """What is wanted of a trusted peer's IKE_SA."""

    OPEN = auto()
    """There is a route: the IKE_SA with all CHILD_SAs is wanted."""
    KEEP = auto()
    """There is no route now, or the overlay is to carry user data: SAs are kept, none is negotiated."""
    CLOSE = auto()
    """There has been no route for the hold time: SAs are closed."""


@dataclass(frozen=True, slots=True)
class DesiredPeer:
    """What is wanted for one trusted peer."""

    connection: ConnectionSpec
    wish: Wish
    initiator: bool
    """This node is the end of the pair that initiates."""


def addresses(card: Card) -> tuple[Address, ...]:
    """Return the addresses that applications use for a node."""
    return (card.address,) if card.ipv4 is None else (card.address, card.ipv4)


def endpoint(card: Card, backend: EspBackend) -> IPv6Address:
    """Return where a node's IKE daemon is, and the destination whose route makes a channel wanted.

    See docs/development/architecture.md.
    """
    return card.address if backend is EspBackend.KERNEL else card.locator


def initiates(node: Card, peer: Card) -> bool:
    """Return whether ``node`` initiates: the end with the lower fingerprint does. Both ends compute the same."""
    return node.fingerprint < peer.fingerprint


def rules_spec(
    node: Card,
    protected: Iterable[Address],
    locators: Iterable[IPv6Address],
    backend: EspBackend,
    policy: Policy,
) -> RulesSpec:
    """Return the fail-closed rules for these addresses. They depend on trust alone: no route and no SA opens one."""
    return RulesSpec(
        backend=backend,
        own=frozenset(addresses(node)),
        protected=frozenset(protected),
        locators=frozenset(locators),
        mesh_prefixes=policy.mesh_prefixes,
        unknown_nodes=policy.unknown_nodes,
        bypass=policy.bypass,
    )


def with_overlay(rules: RulesSpec, device: str, trusted: Iterable[IPv6Address]) -> RulesSpec:
    """Return the rules of a node with an overlay: user data of trusted peers may pass through its device, too."""
    return replace(rules, overlay_device=device, admitted=frozenset(trusted)) if device else rules


def within(rules: RulesSpec, perimeter: Perimeter) -> RulesSpec:
    """Return the rules for a node whose mesh ends there."""
    return replace(rules, perimeter=perimeter)


def with_next(rules: RulesSpec, card: Card | None) -> RulesSpec:
    """Return the rules of a node whose key is being changed: its next key's addresses are its own, too (ADR 0041)."""
    return replace(rules, own=rules.own | set(addresses(card))) if card else rules


def in_doubt(rules: RulesSpec) -> RulesSpec:
    """Return stricter rules for as long as a card cannot be read: a stranger may be that card's peer."""
    return replace(rules, unknown_nodes=UnknownNodes.DROP, bypass=(), opening=None)


def connection_spec(
    node: Card, peer: Peer, backend: EspBackend, policy: Policy, selectors: Selectors = ()
) -> ConnectionSpec:
    """Return the configuration of the IKE daemon for ``peer``. ``selectors``: the networks that have CHILD_SAs."""
    proposals = policy.esp_proposals
    return ConnectionSpec(
        name=peer.name,
        local_address=endpoint(node, backend),
        remote_address=endpoint(peer.card, backend),
        local_id=node.address,
        remote_id=peer.card.address,
        local_public_key=node.public_key,
        remote_public_key=peer.card.public_key,
        ike_proposals=policy.ike_proposals,
        children=(*_children(node, peer.card, backend, proposals), *_of_networks(selectors, backend, proposals)),
        encapsulate=backend is EspBackend.LIBIPSEC,
        ike_rekey_time=policy.ike_rekey_time,
        child_rekey_time=policy.child_rekey_time,
        replay_window=policy.replay_window,
        authentication=authentication(node, peer.card),
        copy_dscp=policy.copy_dscp,
    )


def authentication(node: Card, peer: Card) -> Authentication:
    """Return how a pair authenticates: by signatures, unless one end cannot. The cards say so to both ends.

    Nobody on the way can change it: this node's card follows from its settings, and the peer's is trusted input.
    """
    return Authentication.SECRET if node.by_secret or peer.by_secret else Authentication.SIGNATURE


def _children(node: Card, peer: Card, backend: EspBackend, proposals: tuple[str, ...]) -> tuple[ChildSpec, ...]:
    local6, remote6 = (host(node.address),), (host(peer.address),)
    local4, remote4 = _ipv4_selectors(node, peer)
    if backend is EspBackend.LIBIPSEC:
        return (ChildSpec(CHILD, "tunnel", local6 + local4, remote6 + remote4, proposals),)
    mesh = ChildSpec(CHILD, "transport", local6, remote6, proposals)
    return (mesh, ChildSpec(CHILD_IPV4, "tunnel", local4, remote4, proposals)) if local4 else (mesh,)


def _of_networks(selectors: Selectors, backend: EspBackend, proposals: tuple[str, ...]) -> Iterator[ChildSpec]:
    """Yield a CHILD_SA for each pair: not every IKE daemon takes several selectors at once, or both IP versions.

    The name follows from the networks, so that an SA for others is never taken for it.
    """
    for here, there in selectors if backend is EspBackend.KERNEL else ():
        name = CHILD_NETWORKS + sha256(f"{here} {there}".encode()).hexdigest()[:8]
        yield ChildSpec(name, "tunnel", (here,), (there,), proposals)


def _ipv4_selectors(node: Card, peer: Card) -> tuple[tuple[Network, ...], tuple[Network, ...]]:
    """Only when both ends have an IPv4 address: a one-sided selector would match nothing."""
    if node.ipv4 is None or peer.ipv4 is None:
        return (), ()
    return (host(node.ipv4),), (host(peer.ipv4),)


def host(address: Address) -> Network:
    """Return the network of one address."""
    # By number, because the constructors take an address apart as text, which is ten times slower.
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), 32))
    return IPv6Network((int(address), 128))
