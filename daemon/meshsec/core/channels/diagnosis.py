"""What the failure of a negotiation means, and whose fault it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from meshsec.core.values.failures import Cause, FailureKind


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

OF_AUTHENTICATION = frozenset({FailureKind.NOT_TRUSTED, FailureKind.OTHER_KEY, FailureKind.OTHER_METHOD})
"""Said where one end does not accept the other's identity."""

_BY_KIND: Mapping[FailureKind, Diagnosis] = {
    FailureKind.FORGED: Diagnosis(
        Fault.PATH,
        "somebody who hears this node answers in the name of {address}, too; "
        "this node repeats its attempts at once until the true answer is first",
    ),
    FailureKind.DENIED: Diagnosis(
        Fault.PATH,
        "{address} refused this node and accepted it: it was told of this node only in between, or somebody who hears "
        "this node refuses in its name; this node repeats its attempts at once",
    ),
    FailureKind.NOT_TRUSTED: Diagnosis(
        Fault.PEER,
        "the peer does not trust this node's key, its key is not the one on its card, "
        f"the peer asks for a second secret that this node does not have, {_OLD_CARD}",
    ),
    FailureKind.OTHER_KEY: Diagnosis(
        Fault.PEER, f"the peer has another key than on the card that this node has, {_OLD_CARD}"
    ),
    FailureKind.OTHER_METHOD: Diagnosis(
        Fault.PEER, "the peer has changed its IKE daemon, and this node has its old card"
    ),
    FailureKind.SECOND_SECRET: Diagnosis(
        Fault.BOTH,
        "the level of authentication asks for the second secret, and the two ends do not have the same one: "
        "`meshsec secret show` compares them, `meshsec secret set` gives a node that of the others",
    ),
    FailureKind.NO_PROPOSAL: Diagnosis(
        Fault.BOTH, "the peer does not trust this node (it has no card of it), or accepts none of its algorithms"
    ),
    FailureKind.KEY_EXCHANGE: Diagnosis(
        Fault.BOTH, "the peer accepts none of this node's key exchange methods: the two profiles differ"
    ),
    FailureKind.SELECTORS: Diagnosis(
        Fault.BOTH, "the peer expects other addresses: one end has an old card of the other"
    ),
    FailureKind.SYNTAX: Diagnosis(Fault.PEER, "the peer could not read the request: another or a broken IKE daemon"),
    FailureKind.NO_ANSWER: Diagnosis(Fault.PATH, "no answer from {address}"),
    FailureKind.OWN_DAEMON: Diagnosis(Fault.NODE, "this node's IKE daemon is not in order"),
}
"""All but OTHER, whose words are all that is known."""


def diagnose(cause: Cause, address: object) -> Diagnosis:
    """Return what ``cause`` means for the peer at ``address``."""
    found = _BY_KIND.get(cause.kind)
    if found is None:
        return Diagnosis(Fault.UNKNOWN, cause.words)
    return Diagnosis(found.fault, found.meaning.format(address=address))
