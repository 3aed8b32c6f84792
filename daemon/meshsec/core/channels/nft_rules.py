"""The fail-closed rules as text for ``nft -f``: one table, replaced as a whole in one transaction.

Theory of operation. User data to or from a peer passes only inside IPsec: with ESP in the kernel a packet that has a
transformation (``rt ipsec``, ``meta ipsec``), with kernel-libipsec one that takes charon's TUN device. The rules need
no daemon to stay in force, and without a daemon there is neither transformation nor TUN device: all is dropped.

- ``prerouting`` judges what arrives, before anything is done with it: sources that nobody else may have, and headers
  that hide where a packet comes from or goes to.
- ``input`` judges what is for this node, and ``output`` what this node sends.
- ``forward`` judges what a stranger sends through this node: into an SA, or into the networks behind it.
- ``postrouting`` judges what leaves from behind this node with this node's address, after address translation.

A relay forwards the packets of strangers, and those of its own peers among them: from one mesh interface to another
the rules let everything pass. On a mesh interface nothing else passes in the clear but what a mesh needs (OLSRv2,
neighbour discovery, IKE, ESP, errors of path MTU discovery) and what the policy names. So two nodes cannot talk in the
clear over the mesh, whichever of their addresses they use (ADR 0059).

A peer that was removed is barred, which closes IPsec too, for as long as its SAs take to end. While meshsecd runs, the
table ``inet meshsec_held`` (or ``meshsec_held2``) says the same again: nobody else can remove that one (ADR 0045).

Where there is an overlay, its TUN device is the second protected way, whatever a peer's mode is: a pair's ends switch
one after the other, and no rule changes with it. Through it user data passes with those alone who are trusted now.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network

from meshsec.core.access.messages import PORT as ACCESS_PORT
from meshsec.core.channels import nft_bench, nft_bypass, nft_islands, nft_joining, nft_networks
from meshsec.core.channels.nft_bypass import ERRORS6, ICMPV6_ON_LINK
from meshsec.core.channels.nft_text import chain, hooked, prefixes, set_of, sorted4, sorted6
from meshsec.core.services.services import PORT as SERVICES_PORT
from meshsec.core.trust.fleet_exchange import PORT as FLEET_PORT
from meshsec.core.values.model import EspBackend, Network, RulesSpec, UnknownNodes

TABLE = "meshsec"
HELD_TABLES = ("meshsec_held", "meshsec_held2")
"""One at a time, but while a meshsecd takes over from another."""
TUN_DEVICE = "ipsec0"
"""Name of charon's kernel-libipsec device where no other device has it."""
_HELD_BEHIND = 10
"""Distance of the held table behind the proper one, so that the proper one counts what is dropped."""

_IKE = "udp sport { 500, 4500 } udp dport { 500, 4500 }"
_IKE_OUT = f"{_IKE} meta skuid 0"
"""IKE as this node sends it: IKE daemons and their ESP in UDP are root's. Any account may bind UDP 4500 while they are
away, and what it sends would pass for theirs (ADR 0056). Nor does anything forwarded count as IKE."""
_FLEET_BEGUN = f"tcp flags & syn == syn tcp dport {FLEET_PORT}", f"tcp flags & syn == syn tcp sport {FLEET_PORT}"
"""The first segment of either end of a fleet's exchange. Later ones may outlive the socket, and have no owner then."""
_AGENTS = f"udp dport {{ {ACCESS_PORT}, {SERVICES_PORT} }}"
"""What meshsecds say to each other of clients and services."""
_ICMPV6_ERRORS = f"icmpv6 type {{ {ERRORS6} }}"
_MLD = "icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report }"
"""Switches that snoop deliver OLSRv2's group only to who reports it (RFC 4541)."""
_MORE_HEADERS = "ip6 nexthdr != { tcp, udp, esp, icmpv6 }"
"""Nothing hides behind these. Asking first is cheaper than looking through the headers of each packet."""
_INTO_SA = 'counter name "into_sa" drop'
_OLSR = ("ip daddr 224.0.0.109 udp sport 269 udp dport 269", "ip6 daddr ff02::6d udp sport 269 udp dport 269")
"""LL-MANET-Routers and the manet port (RFC 5498)."""
_STRANGERS_RATE = "limit rate 50/second burst 100 packets"
"""IKE of nodes without a card where there is no guard (ADR 0054): they get a refusal, and cannot overload charon."""

_COUNTER_NAMES = (
    "clear_out",
    "clear_in",
    "unknown_out",
    "unknown_in",
    "barred_out",
    "barred_in",
    "overlay_out",
    "overlay_in",
    "fleet_out",
    "spoofed",
    "disguised",
    "into_sa",
    "into_networks",
    "networks_out",
    "networks_in",
    "link_out",
    "link_in",
    "bypass_out",
    "bypass_in",
    *nft_bench.COUNTERS,
)


def render(spec: RulesSpec) -> str:
    """Return the transaction that replaces the table; the old rules hold until the new ones are in force."""
    return _transaction(TABLE, "", _body(spec, 0))


def render_held(spec: RulesSpec, table: str) -> str:
    """Return the same rules for a table that belongs to whoever runs the transaction."""
    return _transaction(table, "  flags owner;\n", _body(spec, _HELD_BEHIND))


def set_contents(spec: RulesSpec) -> dict[str, set[str]]:
    """Return what the sets of single addresses hold, by name, as a listing shows them."""
    return {name: {str(one) for one in elements} for name, _, elements in _single_sets(spec)}


def _transaction(name: str, flags: str, body: str) -> str:
    fresh = f"add table inet {name}" + (f" {{\n{flags}}}" if flags else "")
    return f"{fresh}\ndelete table inet {name}\ntable inet {name} {{\n{flags}{body}\n}}\n"


def _body(spec: RulesSpec, behind: int) -> str:
    counters = [f"  counter {name} {{ }}" for name in (*_COUNTER_NAMES, *nft_islands.counters(spec))]
    sets = [set_of(*one) for one in _single_sets(spec)] + [set_of(*one, interval=True) for one in _interval_sets(spec)]
    sets += [*nft_networks.sets(spec.behind), *nft_joining.sets(spec)]
    regular = [
        chain("fleet_port", ["meta skuid 0 return", 'counter name "fleet_out" drop']),
        chain("leaving", _leaving(spec)),
        chain("onto_link", _onto_link(spec)),
        chain("from_link", _from_link(spec)),
        *nft_networks.chains(spec.behind),
    ]
    at_hooks = {
        "prerouting": _prerouting(spec),
        "input": _input(spec),
        "forward": _forward(spec),
        "output": _output(spec),
        "postrouting": _postrouting(spec),
    }
    chains = [hooked(hook, behind, rules) for hook, rules in at_hooks.items()]
    return "\n".join(counters + sets + regular + chains)


def _single_sets(spec: RulesSpec) -> list[tuple[str, str, Sequence[object]]]:
    return [
        ("own6", "ipv6_addr", sorted(nft_islands.own6(spec))),
        ("own4", "ipv4_addr", sorted4(spec.own)),
        ("protected6", "ipv6_addr", sorted6(spec.protected)),
        ("protected4", "ipv4_addr", sorted4(spec.protected)),
        ("locators", "ipv6_addr", sorted(spec.locators)),
        ("barred6", "ipv6_addr", sorted6(spec.barred)),
        ("barred4", "ipv4_addr", sorted4(spec.barred)),
        ("admitted6", "ipv6_addr", sorted(spec.admitted)),
        ("links", "ifname", sorted(spec.perimeter.links)),
        *nft_islands.single_sets(spec),
    ]


def _interval_sets(spec: RulesSpec) -> list[tuple[str, str, Sequence[object]]]:
    found: list[tuple[str, str, Sequence[object]]] = []
    perimeter = spec.perimeter
    for name, networks in (("mesh", spec.mesh_prefixes), ("opened", perimeter.opened), ("reached", perimeter.reached)):
        found.append((f"{name}6", "ipv6_addr", prefixes(networks, IPv6Network)))
        found.append((f"{name}4", "ipv4_addr", prefixes(networks, IPv4Network)))
    return found


# --- the chains ---


def _prerouting(spec: RulesSpec) -> list[str]:
    """Drop what no honest neighbour sends, whatever becomes of it here: it may be for this node or to be forwarded.

    A dual-stack socket takes an IPv4-mapped source (RFC 4291, section 2.5.5.2) for an IPv4 peer. A routing header
    (RFC 8200, section 4.4) hides the last destination. A mesh source of this node's own, on a packet from outside,
    would be encrypted with this node's keys when it is forwarded.
    """
    return [
        *_disguised(),
        'iifname "lo" accept',
        'ip6 saddr @own6 counter name "spoofed" drop',
        'ip saddr @own4 counter name "spoofed" drop',
        *nft_networks.prerouting(spec.behind),
    ]


def _disguised() -> list[str]:
    counted = 'counter name "disguised" drop'
    return [
        f"ip6 saddr ::ffff:0:0/96 {counted}",
        f"ip6 daddr ::ffff:0:0/96 {counted}",
        f"{_MORE_HEADERS} exthdr rt exists {counted}",
    ]


def _input(spec: RulesSpec) -> list[str]:
    kernel = [
        "meta ipsec exists accept",
        f"ip6 saddr @protected6 {_IKE} accept",
        "ip6 saddr @protected6 meta l4proto esp accept",
        f"ip6 saddr @protected6 {_ICMPV6_ERRORS} accept",
    ]
    return [
        'iifname "lo" accept',
        *_barred(spec.backend, "saddr", "barred_in", _IKE),
        *nft_islands.arriving(spec),
        *nft_bench.arriving(spec),
        *nft_joining.arriving(spec),
        *nft_networks.arriving(spec),
        *_overlay(spec, "iifname", "saddr", "overlay_in"),
        *([f'iifname "{TUN_DEVICE}" accept'] if spec.backend is EspBackend.LIBIPSEC else kernel),
        f"ip6 saddr @locators {_IKE} accept",
        "ip6 saddr @locators frag frag-off != 0 accept",  # useless without a first one, which is IKE or ESP in UDP
        f"ip6 saddr @locators {_ICMPV6_ERRORS} accept",
        *(f"{olsr} accept" for olsr in _OLSR),
        *_drop("saddr", "clear_in"),
        *nft_bypass.arriving(spec.bypass),
        *_unknown(spec, "saddr", "unknown_in", f"{_IKE} {_STRANGERS_RATE}"),
        "iifname @links jump from_link",
    ]


def _forward(spec: RulesSpec) -> list[str]:
    """Judge what comes from the mesh. What comes from behind this node is judged when it leaves (``_postrouting``).

    From mesh to mesh everything passes, and passes early, because a relay asks these rules about each packet.
    """
    return [
        *_into_states(spec),
        "iifname @links oifname @links accept",
        *nft_islands.forwarding(spec),
        *_into_devices(spec),
        *nft_networks.forwarding(spec),
        *_into_networks(spec),
    ]


def _into_states(spec: RulesSpec) -> list[str]:
    """Return the rules that let pass what one of the kernel's SAs takes on its way out of a mesh interface."""
    if spec.backend is EspBackend.LIBIPSEC:
        return []
    return [f"iifname @links rt ipsec exists {_INTO_SA}", f"oifname @links meta ipsec exists {_INTO_SA}"]


def _into_devices(spec: RulesSpec) -> list[str]:
    devices = [TUN_DEVICE] if spec.backend is EspBackend.LIBIPSEC else []
    devices += [one for one in (spec.overlay_device, spec.behind.device) if one]
    if not devices:
        return []
    named = "{ " + ", ".join(f'"{device}"' for device in devices) + " }"
    return [f"iifname @links oifname {named} {_INTO_SA}", f"iifname {named} oifname @links {_INTO_SA}"]


def _into_networks(spec: RulesSpec) -> list[str]:
    """The last rule alone says from where and to where: what is accepted before it is dropped by nothing else."""
    return [
        *_answers(spec),
        *(f"{opened} accept" for opened in _named("opened", spec.perimeter.opened)),
        'iifname @links oifname != @links counter name "into_networks" drop',
    ]


def _output(spec: RulesSpec) -> list[str]:
    return [
        'oifname "lo" accept',
        *nft_networks.outgoing(spec.behind),
        *nft_islands.of_accounts(spec),
        "jump leaving",
        *nft_networks.own_networks(spec.behind),
        *_unknown(spec, "daddr", "unknown_out", _IKE_OUT),
        "oifname @links jump onto_link",
    ]


def _postrouting(spec: RulesSpec) -> list[str]:
    """Judge what leaves with the address that it leaves with: what is behind this node may have got its address.

    What a socket of this node sends was judged by ``_output``, IKE among it. What came from the mesh was judged by
    ``_forward``. The kernel's own errors belong to no program's socket, so they are judged here again.
    """
    return [
        "iifname @links accept",
        *_disguised(),
        *nft_networks.outgoing(spec.behind),
        "meta skuid 0-4294967295 accept",
        *(f"oifname @links fib saddr type != local {answers}" for answers in _answers(spec)),
        "jump leaving",
        "oifname != @links accept",
        *_unknown(spec, "daddr", "unknown_out"),
        "jump onto_link",
    ]


def _answers(spec: RulesSpec) -> list[str]:
    """Connections are tracked only where some may be opened through this node."""
    perimeter = spec.perimeter
    return ["ct state established,related accept"] if perimeter.opened or perimeter.reached else []


def _leaving(spec: RulesSpec) -> list[str]:
    """Return what may go to a peer: inside IPsec or the overlay, IKE, and errors that concern the path.

    A fleet's exchange, and what is said of clients and services, is meshsecd's, which is root's, at either end. A peer
    does not listen for a while to a node that gives it what nobody has signed, so that nothing else on the node, nor
    behind it, may speak there (ADR 0056).
    """
    kernel = [
        "rt ipsec exists accept",
        f"ip6 daddr @protected6 {_IKE_OUT} accept",
        "ip6 daddr @protected6 meta l4proto esp accept",
    ]
    return [
        *nft_islands.leaving(spec),
        *(f"{begun} ip6 daddr @protected6 jump fleet_port" for begun in (*_FLEET_BEGUN, _AGENTS)),
        *_barred(spec.backend, "daddr", "barred_out", _IKE_OUT),
        *nft_bench.leaving(spec),
        *nft_joining.leaving(spec),
        *nft_networks.closed(spec),
        *_overlay(spec, "oifname", "daddr", "overlay_out"),
        *([f'oifname "{TUN_DEVICE}" accept'] if spec.backend is EspBackend.LIBIPSEC else kernel),
        f"ip6 daddr @locators {_IKE_OUT} accept",
        f"ip6 daddr @locators {_ICMPV6_ERRORS} accept",
        *_drop("daddr", "clear_out"),
        *nft_bypass.leaving(spec.bypass),
    ]


def _onto_link(spec: RulesSpec) -> list[str]:
    return [
        *_needed_on_link(),
        *(f"{olsr} accept" for olsr in _OLSR),
        *_strangers(spec, "daddr"),
        *(f"{reached} accept" for reached in _named("reached", spec.perimeter.reached)),
        'counter name "link_out" drop',
    ]


def _from_link(spec: RulesSpec) -> list[str]:
    answers = ["ct state established,related accept"] if spec.perimeter.reached else []
    return [*_needed_on_link(), *_strangers(spec, "saddr"), *answers, 'counter name "link_in" drop']


# --- parts of chains ---


def _needed_on_link() -> list[str]:
    return [f"{ICMPV6_ON_LINK} accept", f"{_MLD} accept", "ip protocol igmp accept"]


def _strangers(spec: RulesSpec, direction: str) -> list[str]:
    opened = [f"ip6 {direction} @mesh6 accept", f"ip {direction} @mesh4 accept"]
    return opened if spec.unknown_nodes is UnknownNodes.ALLOW else []


def _named(name: str, networks: Iterable[Network]) -> list[str]:
    """Matches for destinations in a set of networks. A default route among them does not include private ones."""
    defaults = {network.version for network in networks if network.prefixlen == 0}
    families = (("ip6", 6), ("ip", 4))
    public = [
        f"{family} daddr != {nft_networks.PRIVATE[version]}" for family, version in families if version in defaults
    ]
    return [*(f"{family} daddr @{name}{version}" for family, version in families), *public]


def _barred(backend: EspBackend, direction: str, counter: str, ike: str) -> list[str]:
    """What comes before what passes inside IPsec. With ESP in the kernel, IKE closes the SAs from the same address."""
    closing = [f"ip6 {direction} @barred6 {ike} accept"] if backend is EspBackend.KERNEL else []
    return [
        *closing,
        f'ip6 {direction} @barred6 counter name "{counter}" drop',
        f'ip {direction} @barred4 counter name "{counter}" drop',
    ]


def _overlay(spec: RulesSpec, interface: str, direction: str, counter: str) -> list[str]:
    """Return the rules of the overlay's device. The kernel's own multicast on it is no user data and not counted."""
    if not spec.overlay_device:
        return []
    device = f'{interface} "{spec.overlay_device}"'
    return [
        f"{device} ip6 {direction} @admitted6 accept",
        f"{device} ip6 daddr ff00::/8 drop",
        f'{device} counter name "{counter}" drop',
    ]


def _drop(direction: str, counter: str) -> list[str]:
    return [
        f'ip6 {direction} @locators counter name "{counter}" drop',
        f'ip6 {direction} @protected6 counter name "{counter}" drop',
        f'ip {direction} @protected4 counter name "{counter}" drop',
    ]


def _unknown(spec: RulesSpec, direction: str, counter: str, ike: str = "") -> list[str]:
    if spec.unknown_nodes is UnknownNodes.ALLOW:
        return []
    return [
        *([f"ip6 {direction} @mesh6 {ike} accept"] if ike else []),
        f"ip6 {direction} @mesh6 {_ICMPV6_ERRORS} accept",
        f'ip6 {direction} @mesh6 counter name "{counter}" drop',
        f'ip {direction} @mesh4 counter name "{counter}" drop',
    ]
