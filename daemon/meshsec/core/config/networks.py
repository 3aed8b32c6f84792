"""The networks of ``meshsec.toml``: which are protected, which the policy opens, and who may speak for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from meshsec.core.config.access_settings import NEEDS_OLSRV2D, AccessSettings
from meshsec.core.config.routing_settings import AttachedNetwork, RoutingDaemon, RoutingSettings
from meshsec.core.networks.networks import Networks, selector_pairs
from meshsec.core.policy.policy import Policy
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import Address, DataPlane, EspBackend, Network, Perimeter
from meshsec.core.values.networks import Carriage

SELECTORS_MAX = 16
"""The most pairs of networks with one peer: CHILD_SAs that are negotiated one after the other, each rekeyed alone."""

NOT_IN_THE_CLEAR = "a network that the policy's open_networks does not name; olsrd2 takes those from everybody"


@dataclass(frozen=True, slots=True)
class ConfiguredNetworks:
    """What ``[routing]`` and the policy say of networks."""

    own: tuple[AttachedNetwork, ...]
    """The protected networks behind this node, which meshsecd announces."""
    grants: Mapping[Network, tuple[str | Address, ...]]
    """The protected networks of others, with the peers that may speak for them."""
    perimeter: Perimeter
    selected: frozenset[Network] = frozenset()
    """Those of ``grants`` that are in traffic selectors: each has one peer."""
    shared: Mapping[Network, tuple[str | Address, ...]] = field(default_factory=dict)
    """The networks of this node's clients, with the peers that serve clients of them, too."""
    mesh: tuple[Network, ...] = ()
    """Where the nodes have their own IPv4 addresses; IPv6 networks may be unique local ones, as their locators."""


def configured_networks(
    routing: RoutingSettings, policy: Policy, access: AccessSettings, links: Iterable[InternetLink] = ()
) -> ConfiguredNetworks:
    """Return the networks of a configuration. One that the policy opens is the router's, in the clear."""
    opened = set(policy.open_networks)
    own = tuple(one for one in routing.attached if one.prefix not in opened)
    grants = {one.prefix: one.senders for one in routing.accept if one.prefix not in opened}
    attached = tuple(one.prefix for one in routing.attached if one.prefix in opened)
    accepted = tuple(one.prefix for one in routing.accept if one.prefix in opened)
    selected = frozenset(one.prefix for one in routing.accept if one.by is Carriage.SELECTORS)
    mesh = tuple(one for one in policy.mesh_prefixes if one.version == 4)
    uplinks = frozenset(uplink for link in links for uplink in link.uplinks)
    perimeter = Perimeter(frozenset(routing.interfaces), uplinks, attached, accepted)
    shared = dict.fromkeys(access.networks, access.peers)
    return ConfiguredNetworks(own, grants, perimeter, selected, shared, mesh)


def beginning(configured: ConfiguredNetworks) -> Networks:
    """Return the networks as they are before anything is known of peers."""
    networks = Networks()
    own = (one.prefix for one in configured.own)
    networks.configure(own, configured.grants, configured.mesh, selected=configured.selected, shared=configured.shared)
    return networks


def in_the_mesh(routing: RoutingSettings, policy: Policy) -> Iterator[tuple[str, int, Network]]:
    """Yield the networks where the nodes have their own IPv4 addresses: the key, its index, and the mesh prefix."""
    mesh = [one for one in policy.mesh_prefixes if one.version == 4 and one.prefixlen]
    found = [("attached", index, one.prefix) for index, one in enumerate(routing.attached or ())]
    found += [("accept", index, one.prefix) for index, one in enumerate(routing.accept or ())]
    for key, index, prefix in found:
        if getattr(prefix, "prefixlen", 0) and (clash := [one for one in mesh if one.overlaps(prefix)]):
            yield key, index, clash[0]


def access_problems(
    node: str, routing: RoutingSettings, access: AccessSettings, policy: Policy
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield what of ``[access]`` does not go with the rest: the path below it, the value, and what is allowed."""
    mesh = [one for one in policy.mesh_prefixes if one.version == 4 and one.prefixlen]
    other = [one.prefix for one in routing.attached or ()] + [one.prefix for one in routing.accept or ()]
    own = "where the nodes have their own addresses (mesh_prefixes)"
    taken: list[tuple[Network, str]] = [(one, own) for one in mesh]
    taken += [(one, "which [routing] names") for one in other if getattr(one, "prefixlen", 0)]
    for index, network in enumerate(access.networks or ()):
        clash = next(((one, what) for one, what in taken if one.overlaps(network)), None)
        if clash:
            yield ("networks", index), str(network), f"a network that does not overlap {clash[0]}, {clash[1]}"
    for index, port in enumerate(access.ports or ()):
        if port in (routing.interfaces or ()):
            yield ("ports", index), port, "an interface that is none of routing.interfaces"
    if access.radio is not None and access.radio.interface in (routing.interfaces or ()):
        yield ("radio", "interface"), access.radio.interface, "an interface that is none of routing.interfaces"
    if access.radio is not None and access.radio.shares not in ("", *(routing.interfaces or ())):
        yield ("radio", "shares"), access.radio.shares, "one of routing.interfaces"
    if node in (access.peers or ()):
        yield ("peers", access.peers.index(node)), node, "other nodes than this one"
    if access.networks and routing.daemon is RoutingDaemon.OLSRD2:
        yield ("networks",), ", ".join(map(str, access.networks)), NEEDS_OLSRV2D


def accepted_in_the_clear(routing: RoutingSettings, policy: Policy) -> Iterator[tuple[int, Network]]:
    """Yield the networks of others that are used in the clear: the index of each below ``accept``, and its prefix."""
    opened = set(policy.open_networks)
    yield from ((index, one.prefix) for index, one in enumerate(routing.accept or ()) if one.prefix in opened)


def wrong_selectors(routing: RoutingSettings, policy: Policy, backend: EspBackend | None) -> Iterator[tuple[int, str]]:
    """Yield the entries of ``accept`` that cannot be in traffic selectors: the index of each, and what is allowed."""
    own = [one.prefix for one in routing.attached or () if one.prefix not in policy.open_networks]
    pairs: dict[str | Address, int] = {}
    for index, one in enumerate(routing.accept or ()):
        if one.by is not Carriage.SELECTORS or None in (one.prefix, one.senders):
            continue
        count = len(selector_pairs(own, [one.prefix]))
        pairs[one.senders[0]] = pairs.get(one.senders[0], 0) + count
        if rule := _wrong_selectors(one.prefix, count, policy, backend):
            yield index, rule
        elif (found := pairs[one.senders[0]]) > SELECTORS_MAX:
            rule = f"at most {SELECTORS_MAX} pairs of a network in routing.attached and one of this peer's, not {found}"
            yield index, f"'tunnel', because each pair has a CHILD_SA of its own: {rule}"


def _wrong_selectors(prefix: Network, pairs: int, policy: Policy, backend: EspBackend | None) -> str:
    """Return what is allowed in the place of ``by = "selectors"``; empty where that can be."""
    if prefix in policy.open_networks:
        return "'tunnel' for a network that the policy's open_networks leaves in the clear"
    if backend is EspBackend.LIBIPSEC:
        return "'tunnel' with ike.esp = 'libipsec': networks in traffic selectors need ESP in the kernel"
    if policy.data_plane is DataPlane.OVERLAY:
        return "'tunnel' with data_plane = 'overlay' of the policy: the overlay has no traffic selectors"
    if not pairs:
        return f"'tunnel', unless routing.attached names an IPv{prefix.version} network: selectors hold both ends"
    return ""


def only_open(routing: RoutingSettings, policy: Policy) -> RoutingSettings:
    """Return the settings of a router that carries the networks that the policy opens, and no others."""
    opened = set(policy.open_networks)
    attached = tuple(one for one in routing.attached if one.prefix in opened)
    accept = tuple(one for one in routing.accept if one.prefix in opened)
    return replace(routing, attached=attached, accept=accept)
