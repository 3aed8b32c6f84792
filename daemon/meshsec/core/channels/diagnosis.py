"""What the failure of a negotiation means, and whose fault it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Where to look for the mistake."""

    PEER = "peer"
    BOTH = "both"
    """The two ends are configured differently: either may be wrong."""
    PATH = "path"
    NODE = "node"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A failure in words that lead on."""

    fault: Fault
    meaning: str


_OLD_CARD = "or one end has changed its IKE daemon, and with it its card, of which the other has the old one"

_OLD_CARD_HERE = Diagnosis(Fault.PEER, "the peer has changed its IKE daemon, and this node has its old card")

OF_AUTHENTICATION: Sequence[tuple[str, Diagnosis]] = (
    (
        "AUTHENTICATION_FAILED",
        Diagnosis(
            Fault.PEER, f"the peer does not trust this node's key, its key is not the one on its card, {_OLD_CARD}"
        ),
    ),
    (
        "not the one on its card",
        Diagnosis(Fault.PEER, f"the peer has another key than on the card that this node has, {_OLD_CARD}"),
    ),
    ("authenticates by a secret", _OLD_CARD_HERE),
    ("takes no Ed25519 signature", _OLD_CARD_HERE),
)
"""Where the one end is not, for the other, who it says it is."""

FORGED = "somebody forges answers to the first message"
"""How a reason begins when the guard saw two different answers to one IKE_SA_INIT (``ike_guard``)."""

_BY_SIGN: Sequence[tuple[str, Diagnosis]] = (
    (
        FORGED,
        Diagnosis(
            Fault.PATH,
            "somebody who hears this node answers in the name of {address}, too; "
            "this node repeats its attempts at once until the true answer is first",
        ),
    ),
    *OF_AUTHENTICATION,
    (
        "NO_PROPOSAL_CHOSEN",
        Diagnosis(
            Fault.BOTH,
            "the peer does not trust this node (it has no card of it), or accepts none of its algorithms",
        ),
    ),
    (
        "INVALID_KE_PAYLOAD",
        Diagnosis(Fault.BOTH, "the peer accepts none of this node's key exchange methods: the two profiles differ"),
    ),
    (
        "TS_UNACCEPTABLE",
        Diagnosis(Fault.BOTH, "the peer expects other addresses: one end has an old card of the other"),
    ),
    (
        "INVALID_SYNTAX",
        Diagnosis(Fault.PEER, "the peer could not read the request: another or a broken IKE daemon"),
    ),
    ("timeout", Diagnosis(Fault.PATH, "no answer from {address}")),
    ("timed out", Diagnosis(Fault.PATH, "no answer from {address}")),
    ("no answer", Diagnosis(Fault.PATH, "no answer from {address}")),
    ("unreachable", Diagnosis(Fault.PATH, "no answer from {address}")),
    ("IKE daemon", Diagnosis(Fault.NODE, "this node's IKE daemon is not in order")),
)
"""By what stands in the IKE daemon's reason (error types of RFC 7296, section 3.10.1); the first that fits."""


def diagnose(reason: str, address: object) -> Diagnosis:
    """What ``reason`` means for the peer at ``address``."""
    lowered = reason.lower()
    for sign, diagnosis in _BY_SIGN:
        if sign.lower() in lowered:
            return Diagnosis(diagnosis.fault, diagnosis.meaning.format(address=address))
    return Diagnosis(Fault.UNKNOWN, reason)
