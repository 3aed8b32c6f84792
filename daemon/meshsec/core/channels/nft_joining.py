"""The fail-closed rules for requests to join a fleet: the parts that ``nft_rules`` puts into its chains (ADR 0070).

A new node asks in the clear, because nobody trusts it yet. A member that has learned its card answers on the same way,
although the two are peers by then. Nothing but meshsecd, which is root's, may send there.
"""

from meshsec.core.trust.joining import PORT
from meshsec.core.values.model import RulesSpec

_DATAGRAM = f"udp sport {PORT} udp dport {PORT}"
_RATE = "limit rate 1000/second burst 1000 packets"
"""meshsecd takes some 20 us for a datagram that does not bring the cookie of its source."""


def arriving(spec: RulesSpec) -> list[str]:
    """Return what lets requests and answers in, in a node that has a fleet.

    What exceeds the rate is dropped here, because later rules accept it where unknown nodes are allowed.
    """
    datagram = f"iifname @links ip6 saddr @mesh6 {_DATAGRAM}"
    return [f"{datagram} {_RATE} accept", f"{datagram} drop"] if spec.joins else []


def leaving(spec: RulesSpec) -> list[str]:
    """Return what lets them out."""
    return [f"oifname @links ip6 daddr @mesh6 {_DATAGRAM} meta skuid 0 accept"] if spec.joins else []
