"""Translate the IKE daemons' messages about failures into causes."""

import re
from collections.abc import Iterable, Mapping

from meshsec.core.values.failures import Cause, FailureKind

Table = Iterable[tuple[re.Pattern[str], Cause]]
"""Patterns of an IKE daemon's messages with their causes. The text of a cause may name groups of the pattern."""

NOTIFIED = Cause("{what}: sent by the peer")
"""The peer sent an error notification; its name decides the kind."""
REPEATED = Cause("timeout: no answer after {what} repetitions", FailureKind.NO_ANSWER)

_BY_NOTIFICATION: Mapping[str, FailureKind] = {
    "AUTHENTICATION_FAILED": FailureKind.NOT_TRUSTED,
    "NO_PROPOSAL_CHOSEN": FailureKind.NO_PROPOSAL,
    "INVALID_KE_PAYLOAD": FailureKind.KEY_EXCHANGE,
    "TS_UNACCEPTABLE": FailureKind.SELECTORS,
    "INVALID_SYNTAX": FailureKind.SYNTAX,
}
"""Failure kinds by notification name (RFC 7296, section 3.10.1), as both IKE daemons print it. All others are OTHER."""


def find(table: Table, line: str) -> tuple[Cause, Mapping[str, str]] | None:
    """Return the first cause whose pattern is in ``line``, and the pattern's groups."""
    for pattern, cause in table:
        if found := pattern.search(line):
            groups = found.groupdict()
            kind = cause.kind
            if cause is NOTIFIED:
                kind = _BY_NOTIFICATION.get(groups["what"], FailureKind.OTHER)
            return Cause(cause.words.format(**groups), kind), groups
    return None


def no_answer(seconds: float) -> Cause:
    """Return the cause of an attempt that did not end within ``seconds``."""
    return Cause(f"timeout: no answer within {seconds:g} s", FailureKind.NO_ANSWER)
