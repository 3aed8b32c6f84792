"""What a node's captures say of user data in the clear.

Theory of operation. User data carries a mark, and goes between known addresses. A packet leaks when the mark can be
read in it, or when it is one between a node's address and its peer's and is neither ESP nor IKE. What is on a link is
known from its sender alone: a kernel that has decapsulated a packet of a tunnel shows it as if it had come in on the
link. So incoming IPv4 is not judged where ESP is the kernel's, because it comes in a tunnel
(docs/development/architecture.md).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, ip_address

from meshsec.core.leaktest.packets import IPV4, SNAPLEN, Classifier, Kind, ends
from meshsec.core.values.model import Network

KEPT = 16
"""Leaking packets that are described; all of them are counted."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A packet as one interface showed it."""

    interface: str
    outgoing: bool
    ethertype: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Leak:
    """A packet in the clear."""

    interface: str
    outgoing: bool
    source: str
    destination: str


class Verdict(StrEnum):
    """What the counts say."""

    TIGHT = "tight"
    LEAK = "leak"
    INCONCLUSIVE = "inconclusive"


@dataclass
class Watch:
    """Judges packets one by one, in bounded memory."""

    mark: bytes
    own: frozenset[bytes] = frozenset()
    """This node's addresses, as octets."""
    peers: frozenset[bytes] = frozenset()
    """Those of the peers that take part."""
    judges_incoming_ipv4: bool = True
    links: frozenset[str] = frozenset()
    """The mesh interfaces."""
    behind: tuple[Network, ...] = ()
    """The networks behind this node: on other interfaces, their packets are as their hosts send and want them. The
    node's own address in one of them is no host's."""
    counts: Counter[Kind] = field(default_factory=Counter)
    leaks: list[Leak] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._classifiers: dict[str, Classifier] = {}

    def take(self, sight: Sight) -> None:
        """Count a packet; those in the clear that concern nobody here are left out."""
        classifier = self._classifiers.setdefault(sight.interface, Classifier(self.mark))
        payload = sight.payload[:SNAPLEN]
        kind = classifier.content(sight.ethertype, payload)
        if kind is Kind.CLEAR:
            if not self._concerns_us(sight, payload):
                return
            self._keep(sight, payload)
        self.counts[kind] += 1

    def _concerns_us(self, sight: Sight, payload: bytes) -> bool:
        if not sight.outgoing and sight.ethertype == IPV4 and not self.judges_incoming_ipv4:
            return False
        source, destination = ends(sight.ethertype, payload) or (b"", b"")
        others = (one for one in (source, destination) if one not in self.own)
        if sight.interface not in self.links and any(self._is_behind(one) for one in others):
            return False
        if self.mark in payload:
            return True
        there = source in self.own and destination in self.peers
        return there or (source in self.peers and destination in self.own)

    def _is_behind(self, address: bytes) -> bool:
        return bool(address) and any(ip_address(address) in one for one in self.behind)

    def _keep(self, sight: Sight, payload: bytes) -> None:
        if len(self.leaks) < KEPT:
            shown = [str(ip_address(one)) for one in ends(sight.ethertype, payload) or ()] or ["?", "?"]
            self.leaks.append(Leak(sight.interface, sight.outgoing, *shown))


def source_of_ipv4(
    address: str | None, assigned: Iterable[IPv4Address], behind: Iterable[Network]
) -> IPv4Address | None:
    """Return the address from which this node sends IPv4 into networks of peers; None if it has none.

    Without a mesh address it is one in a network behind the node, for which the node speaks. ``assigned`` are the
    addresses of its interfaces.
    """
    if address:
        return IPv4Address(address)
    networks = [one for one in behind if one.prefixlen]
    return min((one for one in assigned if any(one in network for network in networks)), default=None)


def octets_of(addresses: Iterable[str | None]) -> frozenset[bytes]:
    """Addresses as they occur in packets; None is left out."""
    return frozenset(ip_address(one).packed for one in addresses if one)


def verdict(clear: int, lost: int, sent: int, proofs: int) -> tuple[Verdict, str]:
    """Return the verdict and its reason.

    ``proofs`` are packets that arrived or were seen protected: without any, silence proves nothing. ``lost`` are
    packets that the captures had no room for.
    """
    if clear:
        return Verdict.LEAK, f"{clear} packets in the clear"
    if not sent:
        return Verdict.INCONCLUSIVE, "nothing was sent"
    if lost:
        return Verdict.INCONCLUSIVE, f"the captures lost {lost} packets, which nobody has looked at"
    if not proofs:
        return Verdict.INCONCLUSIVE, "nothing was answered and nothing protected was seen: is the peer protected?"
    return Verdict.TIGHT, "no packet in the clear"
