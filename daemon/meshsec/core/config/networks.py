"""The networks of ``meshsec.toml``: which are protected, which the policy opens, and who may speak for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from meshsec.core.config.access_settings import NEEDS_OLSRV2D, AccessSettings
from meshsec.core.config.routing_settings import AttachedNetwork, RoutingDaemon, RoutingSettings
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import Address, Network, Perimeter

NOT_IN_THE_CLEAR = "a network that the policy's open_networks does not name; olsrd2 takes those from everybody"


@dataclass(frozen=True, slots=True)
class ConfiguredNetworks:
    """What ``[routing]`` and the policy say of networks."""

    own: tuple[AttachedNetwork, ...]
    """The protected networks behind this node, which meshsecd announces."""
    grants: Mapping[Network, tuple[str | Address, ...]]
    """The protected networks of others, with the peers that may speak for them."""
    perimeter: Perimeter
    shared: Mapping[Network, tuple[str | Address, ...]] = field(default_factory=dict)
    """The networks of this node's clients, with the peers that serve clients of them, too."""
    mesh: tuple[Network, ...] = ()
    """Where the nodes have their own IPv4 addresses; IPv6 networks may be unique local ones, as their locators."""


def configured_networks(routing: RoutingSettings, policy: Policy, access: AccessSettings) -> ConfiguredNetworks:
    """Return the networks of a configuration. One that the policy opens is the router's, in the clear."""
    opened = set(policy.open_networks)
    own = tuple(one for one in routing.attached if one.prefix not in opened)
    grants = {one.prefix: one.senders for one in routing.accept if one.prefix not in opened}
    attached = tuple(one.prefix for one in routing.attached if one.prefix in opened)
    accepted = tuple(one.prefix for one in routing.accept if one.prefix in opened)
    mesh = tuple(one for one in policy.mesh_prefixes if one.version == 4)
    shared = dict.fromkeys(access.networks, access.peers)
    return ConfiguredNetworks(own, grants, Perimeter(frozenset(routing.interfaces), attached, accepted), shared, mesh)


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
    if node in (access.peers or ()):
        yield ("peers", access.peers.index(node)), node, "other nodes than this one"
    if access.networks and routing.daemon is RoutingDaemon.OLSRD2:
        yield ("networks",), ", ".join(map(str, access.networks)), NEEDS_OLSRV2D


def accepted_in_the_clear(routing: RoutingSettings, policy: Policy) -> Iterator[tuple[int, Network]]:
    """Yield the networks of others that are used in the clear: the index of each below ``accept``, and its prefix."""
    opened = set(policy.open_networks)
    yield from ((index, one.prefix) for index, one in enumerate(routing.accept or ()) if one.prefix in opened)


def only_open(routing: RoutingSettings, policy: Policy) -> RoutingSettings:
    """Return the settings of a router that carries the networks that the policy opens, and no others."""
    opened = set(policy.open_networks)
    attached = tuple(one for one in routing.attached if one.prefix in opened)
    accept = tuple(one for one in routing.accept if one.prefix in opened)
    return replace(routing, attached=attached, accept=accept)
