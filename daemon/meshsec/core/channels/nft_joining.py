"""The fail-closed rules for datagrams without an SA: the parts that ``nft_rules`` puts into its chains.

A new node asks in the clear, because nobody trusts it yet. A member that has learned its card answers on the same way,
although the two are peers by then (ADR 0070). A node that asks a peer for an SA in vain says so there (ADR 0079).
Nothing but meshsecd, which is root's, may send there.
"""

from meshsec.core.trust.joining import PORT
from meshsec.core.values.model import RulesSpec

_DATAGRAM = f"udp sport {PORT} udp dport {PORT}"
_RATE = "limit rate 1000/second burst 1000 packets"
"""meshsecd takes some 20 us for a datagram that does not bring the cookie of its source."""


_PEERS = ("protected6", "locators")
"""The sets of addresses that peers' routers announce."""
_PEERS_RATE = "limit rate 100/second burst 100 packets"
"""From the addresses of peers, where nobody asks to join: it bounds the signatures that forged senders may cost."""


def arriving(spec: RulesSpec) -> list[str]:
    """Return what lets in requests and answers, in a node that has a fleet, and what peers send.

    What exceeds the rate is dropped here, because later rules accept it where unknown nodes are allowed.
    """
    if spec.joins:
        datagram = f"iifname @links ip6 saddr @mesh6 {_DATAGRAM}"
        return [f"{datagram} {_RATE} accept", f"{datagram} drop"]
    return [f"iifname @links ip6 saddr @{peers} {_DATAGRAM} {_PEERS_RATE} accept" for peers in _PEERS]


def leaving(spec: RulesSpec) -> list[str]:
    """Return what lets them out."""
    receivers = ("mesh6",) if spec.joins else _PEERS
    return [f"oifname @links ip6 daddr @{one} {_DATAGRAM} meta skuid 0 accept" for one in receivers]
