"""The fail-closed rules for datagrams without an SA: the parts that ``nft_rules`` puts into its chains.

A new node asks in the clear, because nobody trusts it yet. A member that has learned its card answers on the same way,
although the two are peers by then (ADR 0070). A node that asks a peer for an SA in vain says so there (ADR 0079).
Nothing but meshsecd, which is root's, may send there.
"""

from meshsec.core.trust.joining import PORT
from meshsec.core.values.model import RulesSpec

_DATAGRAM = f"udp sport {PORT} udp dport {PORT}"
_OF_ONE = "limit rate over 5/second burst 20 packets"
"""From one address through one neighbour: a new node sends two or three datagrams in 30 s. The neighbour belongs to
it, because anybody can forge another node's address, and would else use up what that node may send."""
_ORIGINS = 1024
"""Addresses, each through one neighbour, that are limited. Those for which there is no room are limited by their
neighbour's share."""
_EACH = "limit rate 100/second burst 200 packets"
"""Through one neighbour: a thousand new nodes. meshsecd takes some 20 us for a datagram."""
_OTHERS = "limit rate 400/second burst 1000 packets"
"""Of all neighbours that have no share of their own, and on links without hardware addresses."""
_SHARES = 16
"""Neighbours with a share of their own: with all others they cost 4 % of a processor at most."""
_KEPT = 60
"""Seconds for which an address is kept after its last datagram; nodes repeat their requests sooner."""
_PEERS = ("protected6", "locators")
"""The sets of addresses that peers' routers announce."""
_PEERS_RATE = "limit rate 100/second burst 100 packets"
"""From the addresses of peers, where nobody asks to join: it bounds the signatures that forged senders may cost."""


def sets(spec: RulesSpec) -> list[str]:
    """Return the sets of the nodes and of the neighbours whose datagrams are counted, these by hardware address.

    A full set accepts no new element, and nobody loses a place in it. The set of the rates is larger than that of the
    shares, because ended elements count until the kernel removes them.
    """
    if not spec.joins:
        return []
    found = [
        ("origins", "ether_addr . ipv6_addr", _ORIGINS),
        ("shares", "ether_addr", _SHARES),
        ("rates", "ether_addr", 2 * _SHARES),
    ]
    flags = f"flags dynamic,timeout; timeout {_KEPT}s"
    return [f"  set {name} {{ type {kind}; {flags}; size {size}; }}" for name, kind, size in found]


def arriving(spec: RulesSpec) -> list[str]:
    """Return what lets in requests and answers, in a node that has a fleet, and what peers send.

    A source must be a node to which a route leads. A node that floods loses its own datagrams alone, and a neighbour
    that floods under many addresses, or under another node's, those through itself. Who has many hardware addresses,
    too, can take the shares that are free, and flood those without a share; who forges a neighbour's takes that one's.
    Links without hardware addresses have the rate of all others alone. What exceeds a rate is dropped here, because
    later rules accept it where unknown nodes are allowed.
    """
    if not spec.joins:
        return [f"iifname @links ip6 saddr @{peers} {_DATAGRAM} {_PEERS_RATE} accept" for peers in _PEERS]
    datagram = f"iifname @links ip6 saddr @mesh6 {_DATAGRAM}"
    return [
        *(f"{datagram} fib saddr oifname != {{ {links} }} drop" for links in _named(spec)),
        f"{datagram} update @origins {{ ether saddr . ip6 saddr {_OF_ONE} }} drop",
        f"{datagram} update @shares {{ ether saddr }}",
        f"{datagram} ether saddr @shares update @rates {{ ether saddr {_EACH} }} accept",
        f"{datagram} ether saddr @shares drop",
        f"{datagram} {_OTHERS} accept",
        f"{datagram} drop",
    ]


def _named(spec: RulesSpec) -> list[str]:
    """Return the mesh interfaces in quotes, as one text: nft compares what ``fib`` says with no named set."""
    links = ", ".join(f'"{name}"' for name in sorted(spec.perimeter.links))
    return [links] if links else []


def leaving(spec: RulesSpec) -> list[str]:
    """Return what lets them out."""
    receivers = ("mesh6",) if spec.joins else _PEERS
    return [f"oifname @links ip6 daddr @{one} {_DATAGRAM} meta skuid 0 accept" for one in receivers]
