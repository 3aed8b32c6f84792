"""``[[link]]`` of ``meshsec.toml``: links over the internet to trusted nodes (docs/reference/meshsec.toml.md)."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from meshsec.core.config.kinds import InterfaceName, Interval, Metric, NodeName
from meshsec.core.config.link_settings import LinkTable, Weighing
from meshsec.core.config.routing_settings import RoutingDaemon, RoutingSettings
from meshsec.core.islands import paths
from meshsec.core.policy.policy import Policy
from meshsec.core.values.definition import Once, Rule
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.islands import PATHS, InternetLink

LINKS_MAX = 8
"""Half of the router's 64 interfaces; the other half is for the mesh."""
HELLO_INTERVAL = 0.2
"""Seconds. A silent path is left after three of them, so that the next uplink has taken over within a second."""
_HOLD = 3
"""HELLO intervals after which a silent path is lost."""
_HOP_METRIC = 2_105_088
"""olsrv2d's own metric of a link that is not measured."""
_HOST = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE
)
_ADDRESS_RULE = "an IP address outside, such as '203.0.113.7', or a host name, such as 'hut.example.org'"


def _where(value: object) -> str:
    """Return an address or a host name. Digits and dots alone are no host name, but a mistyped address."""
    text = value if isinstance(value, str) else ""
    try:
        address = ip_address(text)
    except ValueError:
        if not _HOST.fullmatch(text) or re.fullmatch(r"[\d.]+", text):
            raise ValueError from None
        return text
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local:
        raise ValueError
    return str(address)


class IslandLink(Struct, frozen=True):
    """One ``[[link]]``."""

    peer: Annotated[NodeName, Meta(description="the trusted node at the other end, by its local name")]
    address: Annotated[
        str,
        Rule(_ADDRESS_RULE, _where),
        Meta(
            description="where the peer can be reached from outside: an IP address or a host name. Without it this "
            "node only answers, so one of the two ends must have it",
            extra={"default": "none"},
        ),
    ] = ""
    uplinks: Annotated[
        tuple[InterfaceName, ...],
        Once("each interface once"),
        Meta(
            max_length=PATHS,
            description="this node's interfaces to the outside, at most 4 in all links, the preferred one first. The "
            "link uses all of them: one that fails is replaced by the next within a second",
            extra={
                "default": "that of `[gateway]`",
                "allowed": "a list of at most 4 interface names, such as ['eth1', 'wwan0']",
            },
        ),
    ] = ()
    hello_interval: Annotated[
        Interval,
        Meta(
            description="HELLO_INTERVAL on the link; a path that is silent for three of them is left. Each HELLO "
            "message costs about 250 bytes on each uplink"
        ),
    ] = HELLO_INTERVAL
    metric: Annotated[
        Metric | None,
        Meta(
            description="of the link over the first uplink; over each further one it weighs a quarter more",
            extra={"default": "the router's, as for a cable"},
        ),
    ] = None

    def by(self, gateway: str) -> InternetLink:
        """Return what is asked for; ``gateway`` is the uplink of ``[gateway]``."""
        return InternetLink(self.peer, self.address, self.uplinks or tuple(filter(None, [gateway])))


Problems = Iterator[tuple[tuple[str | int, ...], str, str]]
"""Paths below ``link``, each with the value and what is allowed."""


class Beside(NamedTuple):
    """The settings that links must go with."""

    node: str
    routing: RoutingSettings
    ike: IkeDaemon
    gateway: str
    """The uplink of ``[gateway]``; empty where there is none."""
    policy: Policy


def link_problems(links: Sequence[IslandLink], beside: Beside) -> Problems:
    """Yield what of ``[[link]]`` does not go with the rest."""
    node, routing, ike, gateway, policy = beside
    for index, link in enumerate(links):
        if link.peer == node:
            yield (index, "peer"), link.peer, "the name of another node, which is trusted here"
        if clash := _mesh_prefix(link.address, policy):
            yield (index, "address"), link.address, f"an address outside the mesh, not in {clash} (mesh_prefixes)"
        for number, uplink in enumerate(link.uplinks or ()):
            if uplink in routing.interfaces:
                yield (index, "uplinks", number), uplink, "an interface that is none of routing.interfaces"
        if not (link.uplinks or gateway):
            yield (index, "uplinks"), "[]", "at least one interface, where [gateway] has no uplink"
        if ike is not IkeDaemon.STRONGSWAN:
            yield (index, "peer"), link.peer, "no link with libreswan: strongSwan alone speaks IKE for links"
        if routing.daemon is not RoutingDaemon.OLSRV2D:
            yield (index, "peer"), link.peer, "no link with olsrd2: olsrv2d alone weighs the paths of a link"
    yield from _together(links, beside)


def _together(links: Sequence[IslandLink], beside: Beside) -> Problems:
    """Yield what is too much of all links together. Each uplink has a routing table, and each path an interface."""
    different = list(dict.fromkeys(uplink for link in links for uplink in link.by(beside.gateway).uplinks))
    if len(different) > PATHS:
        yield (len(links) - 1, "uplinks"), ", ".join(different), f"at most {PATHS} different interfaces in all links"
    interfaces_max = 64 - PATHS * LINKS_MAX
    if links and len(beside.routing.interfaces) > interfaces_max:
        rule = f"at most {interfaces_max} of routing.interfaces beside links, whose paths are interfaces, too"
        yield (0, "peer"), links[0].peer, rule


def _mesh_prefix(address: str, policy: Policy) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    return next((str(one) for one in policy.mesh_prefixes if found.version == one.version and found in one), "")


def with_paths(routing: RoutingSettings, links: Sequence[IslandLink]) -> RoutingSettings:
    """Return the router's settings with the interfaces of all paths that the links may have."""
    tables: dict[str, LinkTable] = {}
    for link in links:
        for path, device in enumerate(paths.devices(link.peer)):
            tables[device] = LinkTable(
                metric=_weight(link.metric or routing.metric, path),
                hello_interval=link.hello_interval,
                hello_validity=round(_HOLD * link.hello_interval, 3),
            )
    return msgspec.structs.replace(
        routing, interfaces=(*routing.interfaces, *tables), interface={**routing.interface, **tables}
    )


def _weight(metric: int | None, path: int) -> int | Weighing:
    if metric is None and path == 0:
        return Weighing.HOP
    base = metric or _HOP_METRIC
    return min(base + path * max(base // 4, 1), 16_776_960)


def resolved(links: Sequence[IslandLink], gateway: str) -> tuple[InternetLink, ...]:
    """Return the links that are asked for."""
    return tuple(one.by(gateway) for one in links)
