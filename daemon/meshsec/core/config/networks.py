"""The networks of ``meshsec.toml``: which are protected, which the policy opens, and who may speak for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from meshsec.core.config.routing_settings import AttachedNetwork, RoutingSettings
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
    mesh: tuple[Network, ...] = ()
    """Where the nodes have their own IPv4 addresses; IPv6 networks may be unique local ones, as their locators."""


def configured_networks(routing: RoutingSettings, policy: Policy) -> ConfiguredNetworks:
    """Return the networks of a configuration. One that the policy opens is the router's, in the clear."""
    opened = set(policy.open_networks)
    own = tuple(one for one in routing.attached if one.prefix not in opened)
    grants = {one.prefix: one.senders for one in routing.accept if one.prefix not in opened}
    attached = tuple(one.prefix for one in routing.attached if one.prefix in opened)
    accepted = tuple(one.prefix for one in routing.accept if one.prefix in opened)
    mesh = tuple(one for one in policy.mesh_prefixes if one.version == 4)
    return ConfiguredNetworks(own, grants, Perimeter(frozenset(routing.interfaces), attached, accepted), mesh)


def in_the_mesh(routing: RoutingSettings, policy: Policy) -> Iterator[tuple[str, int, Network]]:
    """Yield the networks where the nodes have their own IPv4 addresses: the key, its index, and the mesh prefix."""
    mesh = [one for one in policy.mesh_prefixes if one.version == 4 and one.prefixlen]
    found = [("attached", index, one.prefix) for index, one in enumerate(routing.attached or ())]
    found += [("accept", index, one.prefix) for index, one in enumerate(routing.accept or ())]
    for key, index, prefix in found:
        if getattr(prefix, "prefixlen", 0) and (clash := [one for one in mesh if one.overlaps(prefix)]):
            yield key, index, clash[0]


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
