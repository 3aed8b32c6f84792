"""``[gateway]`` of ``meshsec.toml``: the way out through this node (docs/reference/meshsec.toml.md)."""

from collections.abc import Mapping
from ipaddress import IPv6Network, ip_network
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.config.kinds import InterfaceName, IpAddress
from meshsec.core.values.definition import Once, Rule, Wrong
from meshsec.core.values.gateway import Uplink, Way

PROBES_MAX = 4
_PREFIX_RULE = "an IPv6 prefix ADDRESS/LENGTH with zeros behind LENGTH, such as 'fd12:3456:789a::/48'"


def _prefix(value: object) -> IPv6Network:
    network = ip_network(value) if isinstance(value, str) else None
    if not isinstance(network, IPv6Network):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return network


def _way(value: object, *refused: Way) -> Way:
    way = Way(str(value))
    if way in refused:
        raise ValueError
    return way


Ipv6Prefix = Annotated[IPv6Network, Rule(_PREFIX_RULE, _prefix)]


class Translation(Struct, frozen=True):
    """``npt`` of ``[gateway]``."""

    inside: Annotated[Ipv6Prefix, Meta(description="the prefix of the clients in the mesh")]
    outside: Annotated[Ipv6Prefix, Meta(description="the prefix that the outside routes to this node")]

    def wrong(self, _given: object) -> Wrong:
        """Yield prefixes of different lengths."""
        lengths = [getattr(one, "prefixlen", 0) for one in (self.inside, self.outside)]
        if all(lengths) and lengths[0] != lengths[1]:
            yield ("outside",), f"a prefix as long as inside: /{lengths[0]}"


class GatewaySettings(Struct, frozen=True):
    """``[gateway]``."""

    uplink: Annotated[
        InterfaceName,
        Meta(
            description="the interface to the outside. With it this node is a gateway from the start; "
            "`meshsec gateway on` and `off` change that",
            extra={"default": "none"},
        ),
    ] = ""
    ipv4: Annotated[
        Way,
        Rule("'nat', 'route' or 'off'", lambda value: _way(value, Way.NPT), {"enum": ["nat", "route", "off"]}),
        Meta(
            description="how IPv4 packets leave: `nat` with the uplink's address, `route` as they are, `off` not at all"
        ),
    ] = Way.NAT
    ipv6: Annotated[
        Way,
        Rule("'nat', 'npt', 'route' or 'off'", _way, {"enum": ["nat", "npt", "route", "off"]}),
        Meta(
            description="how IPv6 packets leave: the same, and `npt`: with the prefix `npt.outside` in place of "
            "`npt.inside`; what comes from other addresses leaves with the uplink's"
        ),
    ] = Way.NAT
    npt: Annotated[
        Translation | None,
        Meta(
            description='with `ipv6 = "npt"`: the two prefixes, `{ inside = "fd12:3456:789a::/48", '
            'outside = "2001:db8:1::/48" }`',
            extra={"default": "none"},
        ),
    ] = None
    probe: Annotated[
        tuple[IpAddress, ...],
        Once("each address once"),
        Meta(
            max_length=PROBES_MAX,
            description="addresses outside, at most 4, of which one of each IP version must answer echo requests; "
            "otherwise this node does not offer that version",
            extra={"allowed": "a list of at most 4 addresses, such as ['192.0.2.1', '2001:db8::1']"},
        ),
    ] = ()

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield prefixes without their use, and a use without prefixes."""
        if self.ipv6 is Way.NPT and self.npt is None and "npt" not in given:
            yield ("ipv6",), "'nat', 'route' or 'off' without npt = { inside = PREFIX, outside = PREFIX }"
        if self.ipv6 is not Way.NPT and self.npt is not None:
            yield ("ipv6",), "'npt' with npt = { inside = PREFIX, outside = PREFIX }, or take npt away"
        if self.ipv4 is Way.OFF and self.ipv6 is Way.OFF:
            yield ("ipv6",), "'nat', 'npt' or 'route': with both versions off there is no way out"

    def by(self, interface: str) -> Uplink:
        """Return what these settings make of an interface."""
        prefixes = (self.npt.inside, self.npt.outside) if self.npt else (None, None)
        return Uplink(interface, self.ipv4, self.ipv6, *prefixes)
