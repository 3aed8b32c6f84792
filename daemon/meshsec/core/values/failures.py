"""Why an action failed: the causes that meshsecd distinguishes, whatever the IKE daemon's words."""

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Kind of a failure. An adapter derives it from its IKE daemon's words."""

    FORGED = "forged"
    """Two different answers came to one first message: somebody forges answers."""
    DENIED = "denied"
    """A first message was refused and accepted: by two ends, or by a peer that was told of this node in between."""
    NOT_TRUSTED = "not-trusted"
    """The peer refused this node's authentication."""
    OTHER_KEY = "other-key"
    """The peer authenticated by another key than the one on its card."""
    OTHER_METHOD = "other-method"
    """The peer authenticates by another method than its card says."""
    SECOND_SECRET = "second-secret"  # noqa: S105 - a kind, not a password
    """One end asks for the second secret, and the other has none or another one (ADR 0091)."""
    NO_PROPOSAL = "no-proposal"
    """One end accepts none of the other's algorithms, or has no card of it."""
    KEY_EXCHANGE = "key-exchange"
    """The peer accepts none of this node's key exchange methods."""
    SELECTORS = "selectors"
    """One end expects other addresses."""
    SYNTAX = "syntax"
    """The peer could not read a request."""
    NO_ANSWER = "no-answer"
    """The peer did not answer in time."""
    OWN_DAEMON = "own-daemon"
    """This node's IKE daemon is not in order."""
    OTHER = "other"
    """Any other, and words that the adapter does not know."""


OF_NOBODY_KNOWN = frozenset({FailureKind.FORGED, FailureKind.DENIED})
"""Failures that say nothing about the peer: a stranger may have made them."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something failed."""

    words: str
    """The IKE daemon's words, for people. No decision depends on them."""
    kind: FailureKind = FailureKind.OTHER
