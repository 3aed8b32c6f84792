"""The fail-closed rules for networks behind nodes: the parts that ``nft_rules`` puts into its chains.

Theory of operation. A packet to a network travels in UDP between the two nodes' own addresses, which the other rules
protect. What comes out of the tunnel's device has lost its outer header, so the outer packet is marked with the number
of its peer when it arrives inside IPsec or the overlay; the kernel keeps the mark when it unpacks it. Then mark and
inner source are looked up together: a peer sends only from what it may speak for. From a default route that is every
public address that is nobody else's. The mark is taken off when both copies of the rules have judged the source.

Networks in traffic selectors (``selected``) pass inside IPsec alone, and never through the tunnel. Which peer's SA it
was, the kernel checks: what comes out of a tunnel mode SA must match a policy of the same SA (RFC 4301, section 5.2).
"""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from typing import Final

from meshsec.core.channels.nft_text import chain, prefixes, set_of
from meshsec.core.networks import outside
from meshsec.core.values.model import EspBackend, Network, RulesSpec
from meshsec.core.values.networks import BehindNodes, Speaker

PORT: Final = 4790
"""VXLAN-GPE (IANA's registry of ports; draft-ietf-nvo3-vxlan-gpe)."""
_IN, _OUT = 'counter name "networks_in" drop', 'counter name "networks_out" drop'
_FAMILIES = (("ip6", 6), ("ip", 4))
_ERRORS = {
    6: "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
    4: "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
}

_MARKS: Final = 0x4D530000
"""Base of the peers' marks, so that no rule of an operator's own for a small mark meets them."""

PRIVATE = {version: f"{{ {', '.join(map(str, private))} }}" for version, private in outside.PRIVATE.items()}
"""Private networks by IP version, as nft reads them."""


def sets(behind: BehindNodes) -> list[str]:
    """Return the sets and the map of peers."""
    if not behind.device:
        return []
    numbered = list(enumerate(behind.speakers, _MARKS + 1))
    tunnels = [f"{one} : {number}" for number, peer in numbered for one in peer.tunnels]
    serving = [str(number) for number, peer in numbered if peer.serves]
    return [
        set_of("serving", "mark", serving),
        f"  map tunnels {{ type ipv6_addr : mark;{_elements(tunnels)} }}",
        *(one for _, version in _FAMILIES for one in _sets_of(version, behind, numbered)),
    ]


def chains(behind: BehindNodes) -> list[str]:
    """Return the chains that the hooks jump to."""
    if not behind.device:
        return []
    return [
        chain("from_tunnel", _from_tunnel(behind)),
        chain("tunnelled", ["meta mark set ip6 saddr map @tunnels accept", _IN]),
        chain("into_tunnel", _into_tunnel(behind)),
    ]


def prerouting(behind: BehindNodes) -> list[str]:
    """Return what judges sources: of what leaves the tunnel, and this node's own networks seen from the mesh."""
    if not behind.device:
        return []
    forged = (f"iifname @links {family} saddr @behind{version}" for family, version in _FAMILIES)
    return [f'iifname "{behind.device}" jump from_tunnel', *(f'{one} counter name "spoofed" drop' for one in forged)]


def arriving(spec: RulesSpec) -> list[str]:
    """Return what marks a peer's outer packets at the hook ``input``, and passes what the tunnel's device unpacks."""
    device = spec.behind.device
    if not device:
        return []
    protected = ["meta ipsec exists" if spec.backend is EspBackend.KERNEL else 'iifname "ipsec0"']
    protected += [f'iifname "{spec.overlay_device}"'] if spec.overlay_device else []
    return [
        *(f"{way} udp dport {PORT} jump tunnelled" for way in protected),
        f"udp dport {PORT} {_IN}",
        f'iifname "{device}" meta mark set 0 accept',
        *_from_elsewhere(),
        *_outside_ipsec(spec),
        *(f"iifname != @links {family} saddr @behind{version} accept" for family, version in _FAMILIES),
    ]


def forwarding(spec: RulesSpec) -> list[str]:
    """Return what judges packets from and to the tunnel at the hook ``forward``."""
    behind = spec.behind
    if not behind.device:
        return []
    into = f'iifname "{behind.device}"'
    public = (f"{into} {family} daddr != {PRIVATE[version]} accept" for family, version in _defaults(behind.own))
    return [
        *(f'iifname != "{behind.device}" {rule}' for rule in _from_elsewhere()),
        *_outside_ipsec(spec),
        *_between_selected(spec),
        f'oifname "{behind.device}" tcp flags syn tcp option maxseg size set rt mtu',
        f"{into} meta mark set 0",
        f"{into} ct state established,related accept",
        *(f"{into} {family} daddr @behind{version} accept" for family, version in _FAMILIES),
        *public,
        f'{into} counter name "into_networks" drop',
    ]


def outgoing(behind: BehindNodes) -> list[str]:
    """Return what judges packets that leave through the tunnel."""
    return [f'oifname "{behind.device}" jump into_tunnel'] if behind.device else []


def closed(spec: RulesSpec) -> list[str]:
    """Return what drops packets to the networks of peers that leave neither through the tunnel nor inside their SA,
    and to own networks that would leave for the mesh.
    """
    behind = spec.behind
    if not behind.device:
        return []
    dropped = [
        f"{family} daddr @{name}{version} {_OUT}"
        for name in ("closed", *_selected(behind))
        for family, version in _FAMILIES
    ]
    inside = _pairs("behind", "selected") if _has_selectors(spec) else []
    dropped += [f"oifname @links {family} daddr @behind{version} {_OUT}" for family, version in _FAMILIES]
    return [*(f"rt ipsec exists {pair} accept" for pair in inside), *dropped]


def own_networks(behind: BehindNodes) -> list[str]:
    """Return what passes from this node into the networks behind it: they may be unique local ones, as the mesh's."""
    if not behind.device:
        return []
    return [f"oifname != @links {family} daddr @behind{version} accept" for family, version in _FAMILIES]


# --- parts ---


def _pairs(source: str, destination: str) -> list[str]:
    return [
        f"{family} saddr @{source}{version} {family} daddr @{destination}{version}" for family, version in _FAMILIES
    ]


def _selected(behind: BehindNodes) -> list[str]:
    """Return the name of the sets of networks in traffic selectors, where there are any."""
    return ["selected"] if behind.selected else []


def _has_selectors(spec: RulesSpec) -> bool:
    """Return whether networks can be reached by traffic selectors. With ESP in user space they are closed alone."""
    return bool(spec.behind.selected) and spec.backend is EspBackend.KERNEL


def _outside_ipsec(spec: RulesSpec) -> list[str]:
    """Return what drops a packet from a network in traffic selectors that came out of no SA."""
    if not spec.behind.selected:
        return []
    missing = "meta ipsec missing " if _has_selectors(spec) else ""
    return [f"{missing}{family} saddr @selected{version} {_IN}" for family, version in _FAMILIES]


def _between_selected(spec: RulesSpec) -> list[str]:
    """Return what passes from networks in traffic selectors, and fits TCP's segments into their SAs both ways."""
    if not _has_selectors(spec):
        return []
    fits = "tcp flags syn tcp option maxseg size set rt mtu"
    both = [*_pairs("behind", "selected"), *_pairs("selected", "behind")]
    return [*(f"{pair} {fits}" for pair in both), *(f"{pair} accept" for pair in _pairs("selected", "behind"))]


def _from_elsewhere() -> list[str]:
    """Return what drops a packet from the networks of peers that did not come through the tunnel."""
    return [f"{family} saddr @closed{version} {_IN}" for family, version in _FAMILIES]


def _from_tunnel(behind: BehindNodes) -> list[str]:
    """A peer that may speak for a network in which another peer's address lies does not speak for that peer.

    A client may move here while packets for it still go to another access node. That node forwards them, whoever sent
    them.
    """
    own = [f"meta mark . {family} saddr @hosts{version} accept" for family, version in _FAMILIES]
    own += [f"meta mark @serving {family} daddr @shared{version} accept" for family, version in _FAMILIES]
    own += [f"{family} saddr @protected{version} {_IN}" for family, version in _FAMILIES]
    spoken = [f"meta mark . {family} saddr @spoken{version} accept" for family, version in _FAMILIES]
    others = [
        f"{family} saddr @{name}{version} {_IN}"
        for name in ("closed", *_selected(behind), "behind")
        for family, version in _FAMILIES
    ]
    gateways = [
        rule
        for family, version in _FAMILIES
        for rule in (
            f"meta mark @gateways{version} {family} saddr != {PRIVATE[version]} accept",
            f"meta mark @gateways{version} {_ERRORS[version]} accept",
        )
    ]
    return [*own, *spoken, *others, *gateways, _IN]


def _into_tunnel(behind: BehindNodes) -> list[str]:
    """The kernel's own multicast on the device goes nowhere, and is not counted."""
    allowed = [f"{family} saddr @{name}{version} accept" for name in ("own", "behind") for family, version in _FAMILIES]
    allowed += [f'iifname "{behind.device}" {family} daddr @shared{version} accept' for family, version in _FAMILIES]
    public = [f"{family} saddr != {PRIVATE[version]} accept" for family, version in _defaults(behind.own)]
    errors = [f"{_ERRORS[version]} accept" for _, version in _defaults(behind.own)]
    without_sa = [
        f"{family} daddr @{name}{version} {_OUT}" for name in _selected(behind) for family, version in _FAMILIES
    ]
    return ["ip6 daddr ff00::/8 drop", *without_sa, *allowed, *public, *errors, _OUT]


def _defaults(networks: Sequence[Network]) -> list[tuple[str, int]]:
    versions = {network.version for network in networks if network.prefixlen == 0}
    return [(family, version) for family, version in _FAMILIES if version in versions]


def _of(version: int, networks: Sequence[Network]) -> list[str]:
    return prefixes(networks, IPv4Network if version == 4 else IPv6Network)


def _sets_of(version: int, behind: BehindNodes, numbered: Sequence[tuple[int, Speaker]]) -> list[str]:
    kind = f"ipv{version}_addr"
    hosts = [f"{number} . {one}" for number, peer in numbered for one in peer.hosts if one.version == version]
    return [
        set_of(f"behind{version}", kind, _of(version, behind.own), interval=True),
        set_of(f"shared{version}", kind, _of(version, behind.shared), interval=True),
        set_of(f"closed{version}", kind, _of(version, behind.closed), interval=True),
        *(set_of(f"{name}{version}", kind, _of(version, behind.selected), interval=True) for name in _selected(behind)),
        set_of(f"hosts{version}", f"mark . {kind}", hosts),
        f"  set spoken{version} {{ type mark . {kind}; flags interval;{_elements(_sources(version, numbered))} }}",
        set_of(f"gateways{version}", "mark", _gateways(version, numbered)),
    ]


def _elements(elements: Sequence[str]) -> str:
    return f" elements = {{ {', '.join(elements)} }}" if elements else ""


def _sources(version: int, numbered: Sequence[tuple[int, Speaker]]) -> list[str]:
    """Return each peer's sources. Those of one peer must not overlap: such a set does not merge intervals."""
    found = []
    for number, peer in numbered:
        of_version = [one for one in peer.networks if one.version == version and one.prefixlen]
        found += [f"{number} . {one}" for one in collapse_addresses(of_version)]  # type: ignore[type-var]
    return found


def _gateways(version: int, numbered: Sequence[tuple[int, Speaker]]) -> list[str]:
    default = (version, 0)
    is_gateway = {
        number for number, peer in numbered for one in peer.networks if (one.version, one.prefixlen) == default
    }
    return [str(number) for number in sorted(is_gateway)]
