"""Which kind of failure each message of the IKE daemons is: all error notifications of RFC 7296 that have a kind."""

import pytest

from meshsec.adapters.ike import pluto_status
from meshsec.adapters.ike.causes import no_answer
from meshsec.adapters.ike.ike_log import IkeLog
from meshsec.core.values.failures import Cause, FailureKind

NOTIFICATIONS = {
    "AUTHENTICATION_FAILED": FailureKind.NOT_TRUSTED,
    "NO_PROPOSAL_CHOSEN": FailureKind.NO_PROPOSAL,
    "INVALID_KE_PAYLOAD": FailureKind.KEY_EXCHANGE,
    "TS_UNACCEPTABLE": FailureKind.SELECTORS,
    "INVALID_SYNTAX": FailureKind.SYNTAX,
    "TEMPORARY_FAILURE": FailureKind.OTHER,
    "NEVER_HEARD_OF": FailureKind.OTHER,
}


def charon(line: str) -> Cause | None:
    log = IkeLog()
    log.feed(0.0, "boat", "1", line)
    return log.failure("boat")


@pytest.mark.parametrize(("name", "kind"), NOTIFICATIONS.items())
def test_the_notification_decides_on_the_kind_with_both_daemons(name: str, kind: FailureKind) -> None:
    cause = Cause(f"{name}: sent by the peer", kind)
    assert charon(f"received {name} notify error") == cause
    assert charon(f"received {name} notify, no CHILD_SA built") == cause
    assert pluto_status.failure([f"IKE_AUTH response rejected by peer: {name}"]) == cause
    assert pluto_status.failure([f"rejected Child SA with {name}"]) == cause
    assert pluto_status.failure([f"response containing {name} notification"]) == cause


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("no trusted ED25519 public key found for 'fc00::1'", FailureKind.OTHER_KEY),
        ("constraint check failed: peer not authenticated by peer cert", FailureKind.OTHER_KEY),
        ("generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]", FailureKind.OTHER_KEY),
        ("no shared key found for 'fc00::1' - 'fc00::2'", FailureKind.OTHER_METHOD),
        ("private key of type ED25519 not supported", FailureKind.OTHER_METHOD),
        ("received proposals unacceptable", FailureKind.NO_PROPOSAL),
        ("no acceptable proposal found", FailureKind.NO_PROPOSAL),
        ("traffic selectors fc00::1/128 === fc00::2/128 unacceptable", FailureKind.SELECTORS),
        ("giving up after 6 retransmits", FailureKind.NO_ANSWER),
        ("no private key found for 'fc00::1'", FailureKind.OWN_DAEMON),
        ("no matching peer config found", FailureKind.OTHER),
    ],
)
def test_what_charon_logs_has_its_kind(line: str, kind: FailureKind) -> None:
    cause = charon(line)
    assert cause is not None
    assert cause.kind is kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("timeout exceeded after 7 retransmits", FailureKind.NO_ANSWER),
        ("we cannot identify ourselves with either end of this connection", FailureKind.OWN_DAEMON),
        ('no connection named "meshsec-boat.mesh"', FailureKind.OWN_DAEMON),
        ("missing v2SA, v2TSi or v2TSr", FailureKind.OTHER),
    ],
)
def test_what_whack_prints_has_its_kind(line: str, kind: FailureKind) -> None:
    cause = pluto_status.failure(["002 initiating", line])
    assert cause is not None
    assert cause.kind is kind


def test_an_unknown_message_gives_no_cause() -> None:
    assert charon("the moon is full") is None
    assert pluto_status.failure(["the moon is full"]) is None


def test_an_attempt_that_timed_out_counts_as_unanswered() -> None:
    assert no_answer(4.0) == Cause("timeout: no answer within 4 s", FailureKind.NO_ANSWER)
