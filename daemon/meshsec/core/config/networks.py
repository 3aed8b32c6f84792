"""The networks of ``meshsec.toml``: which are protected, which the policy opens, and who may speak for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from meshsec.core.config.routing_settings import AttachedNetwork, RoutingSettings
from meshsec.core.networks.networks import Networks, selector_pairs
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import Address, DataPlane, EspBackend, Network, Perimeter
from meshsec.core.values.networks import Carriage

SELECTORS_MAX = 16
"""The most pairs of networks with one peer: CHILD_SAs that are negotiated one after the other, each rekeyed alone."""


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
    mesh: tuple[Network, ...] = ()
    """Where the nodes have their own IPv4 addresses; IPv6 networks may be unique local ones, as their locators."""


def configured_networks(routing: RoutingSettings, policy: Policy) -> ConfiguredNetworks:
    """Return the networks of a configuration. One that the policy opens is the router's, in the clear."""
    opened = set(policy.open_networks)
    own = tuple(one for one in routing.attached if one.prefix not in opened)
    grants = {one.prefix: one.senders for one in routing.accept if one.prefix not in opened}
    attached = tuple(one.prefix for one in routing.attached if one.prefix in opened)
    accepted = tuple(one.prefix for one in routing.accept if one.prefix in opened)
    selected = frozenset(one.prefix for one in routing.accept if one.by is Carriage.SELECTORS)
    mesh = tuple(one for one in policy.mesh_prefixes if one.version == 4)
    perimeter = Perimeter(frozenset(routing.interfaces), attached, accepted)
    return ConfiguredNetworks(own, grants, perimeter, selected, mesh)


def beginning(configured: ConfiguredNetworks) -> Networks:
    """Return the networks as they are before anything is known of peers."""
    networks = Networks()
    own = (one.prefix for one in configured.own)
    networks.configure(own, configured.grants, configured.mesh, configured.selected)
    return networks


def in_the_mesh(routing: RoutingSettings, policy: Policy) -> Iterator[tuple[str, int, Network]]:
    """Yield the networks where the nodes have their own IPv4 addresses: the key, its index, and the mesh prefix."""
    mesh = [one for one in policy.mesh_prefixes if one.version == 4 and one.prefixlen]
    found = [("attached", index, one.prefix) for index, one in enumerate(routing.attached or ())]
    found += [("accept", index, one.prefix) for index, one in enumerate(routing.accept or ())]
    for key, index, prefix in found:
        if getattr(prefix, "prefixlen", 0) and (clash := [one for one in mesh if one.overlaps(prefix)]):
            yield key, index, clash[0]


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
