"""Reading charon's log, on shortened lines of strongSwan 5.9.8."""

import pytest

from meshsec.adapters.ike.ike_log import MAX_NEGOTIATIONS, Asking, Failure, IkeLog, Loads, Setup
from meshsec.core.values.failures import Cause, FailureKind

ALPHA, CHARLIE = "fddb:162:1705:69bf:c9a5:7699:b49e:d2e0", "fddd:50e3:80c7:f4a0:6719:361d:6904:46b3"

INITIATOR = [
    (0.000, "charlie", f"initiating IKE_SA charlie[1] to {CHARLIE}"),
    (0.001, "charlie", "generating IKE_SA_INIT request 0 [ SA KE No N(NATD_S_IP) N(NATD_D_IP) ]"),
    (0.004, "charlie", "parsed IKE_SA_INIT response 0 [ SA KE No N(NATD_S_IP) N(NATD_D_IP) ]"),
    (0.005, "charlie", "generating IKE_AUTH request 1 [ IDi N(INIT_CONTACT) IDr AUTH SA TSi TSr ]"),
    (0.010, "charlie", "parsed IKE_AUTH response 1 [ IDr AUTH SA TSi TSr ]"),
    (
        0.012,
        "charlie",
        "CHILD_SA mesh{1} established with SPIs 0a11816b_i d4f4f39e_o and TS fc01::1/128 === fc01::2/128",
    ),
]
RESPONDER = [
    (0.000, "(unnamed)", "parsed IKE_SA_INIT request 0 [ SA KE No N(NATD_S_IP) N(NATD_D_IP) ]"),
    (0.002, "(unnamed)", "generating IKE_SA_INIT response 0 [ SA KE No N(NATD_S_IP) N(NATD_D_IP) ]"),
    (0.006, "(unnamed)", "parsed IKE_AUTH request 1 [ IDi N(INIT_CONTACT) IDr AUTH SA TSi TSr ]"),
    (0.007, "alpha", "selected peer config 'alpha'"),
    (0.009, "alpha", "CHILD_SA mesh{1} established with SPIs d4f4f39e_i 0a11816b_o and TS fc01::2/128 === fc01::1/128"),
]


def told(lines: list[tuple[float, str, str]], log: IkeLog | None = None) -> list[Setup | Failure | Asking]:
    log = log or IkeLog()
    return [found for at, name, text in lines if (found := log.feed(at, name, "1", text))]


def test_a_request_is_reported_before_its_sender_is_authenticated() -> None:
    assert told([(0.0, "(unnamed)", f"{ALPHA} is initiating an IKE_SA")]) == [Asking(ALPHA)]
    assert told([(0.0, "(unnamed)", f"{ALPHA} is initiating an IKE_SA, or so it says")]) == []


@pytest.mark.parametrize(
    ("lines", "peer", "init", "auth"), [(INITIATOR, "charlie", 0.003, 0.008), (RESPONDER, "alpha", 0.006, 0.003)]
)
def test_both_ends_know_the_time_of_each_phase(
    lines: list[tuple[float, str, str]], peer: str, init: float, auth: float
) -> None:
    (setup,) = told(lines)
    assert isinstance(setup, Setup)
    assert (setup.peer, setup.child) == (peer, None)
    assert setup.ike_sa_init == pytest.approx(init)
    assert setup.ike_auth == pytest.approx(auth)


def test_repetitions_and_cookies_count_from_the_first_request() -> None:
    lines = [(-0.5, "charlie", "generating IKE_SA_INIT request 0 [ SA KE No ]"), *INITIATOR]
    (setup,) = told(lines)
    assert isinstance(setup, Setup)
    assert setup.ike_sa_init == pytest.approx(0.504)


def test_lines_that_arrive_together_give_no_time() -> None:
    (setup,) = told([(0.01, name, text) for _, name, text in INITIATOR])
    assert setup == Setup("charlie", None, None, None)


def test_a_further_child_sa_counts_once_and_a_rekeying_not_at_all() -> None:
    second = [
        (0.020, "charlie", "generating CREATE_CHILD_SA request 2 [ SA No TSi TSr ]"),
        (0.025, "charlie", "CHILD_SA mesh4{2} established with SPIs 1_i 2_o and TS 10.77.0.1/32 === 10.77.0.2/32"),
    ]
    rekeyed = [(at + 3600, name, text.replace("{2}", "{3}")) for at, name, text in second]
    setups = told([*INITIATOR, *second, *rekeyed])
    assert [setup.child for setup in setups if isinstance(setup, Setup)] == [None, pytest.approx(0.005)]


@pytest.mark.parametrize(
    ("name", "lines", "failure"),
    [
        (
            "charlie",
            ["received AUTHENTICATION_FAILED notify error"],
            Failure("charlie", "", Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)),
        ),
        (
            "charlie",
            ["received TS_UNACCEPTABLE notify, no CHILD_SA built"],
            Failure("charlie", "", Cause("TS_UNACCEPTABLE: sent by the peer", FailureKind.SELECTORS)),
        ),
        (
            "charlie",
            ["private key of type ED25519 not supported"],
            Failure("charlie", "", Cause("the peer's IKE daemon takes no Ed25519 signature", FailureKind.OTHER_METHOD)),
        ),
        (
            "charlie",
            ["retransmit 6 of request with message ID 0", "giving up after 6 retransmits"],
            Failure("charlie", "", Cause("timeout: no answer after 6 repetitions", FailureKind.NO_ANSWER)),
        ),
        (
            "(unnamed)",
            [f"no IKE config found for {CHARLIE}...{ALPHA}, sending NO_PROPOSAL_CHOSEN"],
            Failure("", ALPHA, Cause("no card of this node is trusted")),
        ),
        (
            "(unnamed)",
            [
                f"looking for peer configs matching {CHARLIE}[fc02::c]...{ALPHA}[fc02::a]",
                "no matching peer config found",
                "generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]",
            ],
            Failure("", "fc02::a", Cause("no card of this node is trusted")),
        ),
        (
            "alpha",
            [
                "signature validation failed, looking for another key",
                "generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]",
            ],
            Failure("alpha", "", Cause("the peer's key is not the one on its card", FailureKind.OTHER_KEY)),
        ),
        (
            "charlie",
            ["generating INFORMATIONAL request 2 [ N(AUTH_FAILED) ]"],
            Failure("charlie", "", Cause("the peer's key is not the one on its card", FailureKind.OTHER_KEY)),
        ),
    ],
)
def test_failures_name_their_cause_once(name: str, lines: list[str], failure: Failure) -> None:
    log = IkeLog()
    assert told([(0.0, name, text) for text in lines], log) == [failure]
    assert log.failure("charlie") == (failure.cause if failure.peer == "charlie" else None)


def test_a_new_attempt_forgets_the_failure_of_the_one_before() -> None:
    log = IkeLog()
    log.feed(0.0, "charlie", "1", "received AUTHENTICATION_FAILED notify error")
    log.begin("charlie")
    assert not log.failure("charlie")


def test_strangers_cannot_fill_the_memory() -> None:
    log = IkeLog()
    for number in range(3 * MAX_NEGOTIATIONS):
        log.feed(0.0, "(unnamed)", str(number), "parsed IKE_SA_INIT request 0 [ SA KE No ]")
    assert len(log._negotiations) == MAX_NEGOTIATIONS
    assert log.feed(0.0, "", "", "vici client 1 connected") is None


def test_a_connection_that_another_program_reloads_is_no_longer_ours() -> None:
    loads = Loads()
    loads.begin("boat")
    loads.feed("added vici connection: boat")
    assert not loads.others
    for text in ("replaced vici connection: boat", "added vici connection: van", "unloaded shared key with id 'x'"):
        loads.feed(text)
    assert loads.others == {"boat", "van"}
    loads.begin("boat")
    loads.feed("updated vici connection: boat")
    assert loads.others == {"van"}
    loads.begin("boat")
    loads.refused("boat")
    loads.feed("updated vici connection: boat")
    assert loads.others == {"boat", "van"}
    loads.forget()
    assert not loads.others
