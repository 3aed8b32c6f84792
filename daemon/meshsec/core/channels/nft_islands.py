"""The fail-closed rules for links over the internet: the parts that ``nft_rules`` puts into its chains.

Theory of operation. A path's frames travel in VXLAN between two addresses that exist for this path alone. They leave
and arrive inside its SA, or not at all, and bear its network number. VXLAN's socket takes datagrams for any address of
this node, so these rules alone keep others' out. On an uplink nothing of the mesh passes but IKE and ESP, which run
between the uplink's own addresses: whatever bears an address of a node is dropped there, also what an SA would protect.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address

from meshsec.core.channels.nft_text import sorted6
from meshsec.core.islands.paths import PORT
from meshsec.core.trust.identity import locator_of
from meshsec.core.values.islands import Joint
from meshsec.core.values.model import EspBackend, RulesSpec

COUNTERS = ("joints_in", "joints_out", "uplink_out")
"""Names of the counters of what is dropped: frames of paths outside their SAs, and what is the mesh's on an uplink."""
_IN, _OUT, _UPLINK = (f'counter name "{name}" drop' for name in COUNTERS)
_ACCOUNTS = "meta skuid 1-4294967295"
"""Sockets of everybody but root. The frames of paths are the kernel's own and belong to no socket."""
_IKE = "udp dport { 500, 4500 }"
_MANET = "udp dport 269"


def counters(spec: RulesSpec) -> tuple[str, ...]:
    """Return the names of the counters; a node without links has none."""
    return COUNTERS if spec.perimeter.uplinks else ()


def own6(spec: RulesSpec) -> set[IPv6Address]:
    """Return what nobody else may have as a source: this node's addresses, and those of the paths of its links."""
    nodes = {end for one in sorted6(spec.own) for end in (one, locator_of(one))}
    return nodes | {one.own for one in spec.joints}


def single_sets(spec: RulesSpec) -> list[tuple[str, str, Sequence[object]]]:
    """Return the sets of the paths' far ends and of the uplinks."""
    if not spec.perimeter.uplinks:
        return []
    return [
        ("joints6", "ipv6_addr", sorted(one.peer for one in spec.joints)),
        ("uplinks", "ifname", sorted(spec.perimeter.uplinks)),
    ]


def arriving(spec: RulesSpec) -> list[str]:
    """Return what judges the paths' frames, and IKE in IPv4, which the IKE daemon takes for links alone."""
    if not spec.perimeter.uplinks:
        return []
    protected = "meta ipsec exists" if spec.backend is EspBackend.KERNEL else 'iifname "ipsec0"'
    passing = (f"{protected} ip6 saddr {one.peer} ip6 daddr {one.own} {_frames(one)} accept" for one in spec.joints)
    return [
        *passing,
        f"udp dport {PORT} {_IN}",
        f"ip6 saddr @joints6 {_IN}",
        f"iifname != @uplinks meta nfproto ipv4 {_IKE} {_IN}",
    ]


def forwarding(spec: RulesSpec) -> list[str]:
    """Return what keeps others from the paths' addresses."""
    if not spec.perimeter.uplinks:
        return []
    return [f"ip6 daddr @joints6 {_OUT}", f"ip6 saddr @joints6 {_OUT}"]


def of_accounts(spec: RulesSpec) -> list[str]:
    """Return what keeps an account of this node from sending frames of its own into a path."""
    return [f"ip6 daddr @joints6 {_ACCOUNTS} {_OUT}"] if spec.perimeter.uplinks else []


def leaving(spec: RulesSpec) -> list[str]:
    """Return what passes into the paths' SAs, and what drops the mesh's addresses on an uplink."""
    if not spec.perimeter.uplinks:
        return []
    protected = "rt ipsec exists" if spec.backend is EspBackend.KERNEL else 'oifname "ipsec0"'
    passing = (f"{protected} ip6 saddr {one.own} ip6 daddr {one.peer} {_frames(one)} accept" for one in spec.joints)
    return [
        *passing,
        f"ip6 daddr @joints6 {_OUT}",
        *(f"oifname @uplinks {one} {_UPLINK}" for one in _OF_THE_MESH),
    ]


_OF_THE_MESH = (
    "ip6 saddr @own6",
    "ip saddr @own4",
    "ip6 daddr @protected6",
    "ip6 daddr @locators",
    "ip daddr @protected4",
    _MANET,
)


def _frames(joint: Joint) -> str:
    """The VNI is behind the UDP header and four octets of flags (RFC 7348, section 5)."""
    return f"udp dport {PORT} @th,96,24 {joint.network_id:#08x}"
