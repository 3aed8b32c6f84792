"""Under load a deadline of the policy changes the choice of the suite, and back without load; a floor is kept."""

import os
import time
from collections.abc import Iterator

import pytest

from meshsec.adapters.files import config_file
from tests.lab.faults import load
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue

STRONG = {"name": "strong", "ike": "aes256gcm16-prfsha256-modp2048", "esp": "aes256gcm16-modp2048"}
WEAK = {"name": "weak", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"}
BELOW = {"name": "below", "ike": "aes128gcm16-prfsha256-ecp256", "esp": "aes128gcm16-ecp256"}
SUITES = [STRONG, WEAK, BELOW]
EAGER = {"backoff_first": 0.1, "initiate_rate": 100}
"""Pacing that lets one set-up follow another."""
SAME_END = {"takeover_delay": 60}
"""Keeps the other end from initiating, because the initiator's choice is observed."""
DEADLINE_MS = 500
"""Between what the strong suite takes here (some tens of milliseconds) and what the load makes of it (over 800)."""
PATIENCE = 240.0

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the load needs a processor of its own")


@pytest.fixture(autouse=True)
def _pacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the nodes read the constants of pacing from their policy."""
    monkeypatch.setenv(config_file.LAB_PACING, config_file.IN_LAB)


@pytest.fixture
def pair() -> Iterator[Lab]:
    policy: dict[str, PolicyValue] = {
        **EAGER,
        **SAME_END,
        "deadline_ms": DEADLINE_MS,
        "suites": SUITES,
        "floor": "weak",
    }
    with Lab("deadline", line(names(2)), Options(policy=policy)) as lab:
        yield lab.set_up().trust_all().start()


@pytest.mark.timeout(900)
def test_under_load_the_faster_suite_is_chosen_and_without_it_the_stronger_one_again(pair: Lab) -> None:
    initiator, responder = _ends(pair)
    core = max(os.sched_getaffinity(0))
    assert _negotiated(initiator, responder) == "MODP_2048"
    _renew_until_chosen(initiator, responder, "strong")
    for node in (initiator, responder):
        load.pin(node.daemons.charon, {core})
    with load.at_negotiations(core, initiator.namespace):
        _renew_until_chosen(initiator, responder, "weak")
        assert f"the deadline is {DEADLINE_MS} ms" in initiator.control.ask("status")["suites"]["why"]
        _renew(initiator, responder)
        assert _negotiated(initiator, responder) == "CURVE_25519"
    _renew_until_chosen(initiator, responder, "strong")
    _renew(initiator, responder)
    assert _negotiated(initiator, responder) == "MODP_2048"


def test_a_peer_that_has_only_what_is_below_the_floor_gets_no_sa() -> None:
    with Lab("floor", line(names(2)), Options(policy={**EAGER, "suites": SUITES, "floor": "weak"})) as lab:
        lab.set_up({"b": Options(policy={**EAGER, "suites": [BELOW]})}).trust_all().start()
        a, b = lab["a"], lab["b"]
        for node, peer in ((a, b), (b, a)):
            node.wait_for(f"a refusal by {peer.name}", lambda n=node, p=peer: _refused(n, p), 120)  # type: ignore[misc]
            assert not [sa for sa in node.charon.sas_with(peer.name) if sa.state == "ESTABLISHED"]


def _refused(node: Node, peer: Node) -> bool:
    failure = node.control.peer(peer.name).get("last_failure")
    return failure is not None and "NO_PROPOSAL_CHOSEN" in failure["reason"]


def _ends(lab: Lab) -> tuple[Node, Node]:
    a, b = lab["a"], lab["b"]
    a_initiates = a.wait_state(b, "protected")["initiator"]
    b.wait_state(a, "protected")
    return (a, b) if a_initiates else (b, a)


def _renew_until_chosen(node: Node, peer: Node, suite: str) -> None:
    """Repeat set-ups until the suite is chosen, because each choice follows from the set-ups before."""
    end = time.monotonic() + PATIENCE
    while node.control.ask("status")["suites"]["chosen"] != suite:
        assert time.monotonic() < end, node.control.ask("status")["suites"]
        _renew(node, peer)


def _renew(node: Node, peer: Node) -> None:
    attempts = node.control.ask("renegotiate", peer=peer.name)["attempts"]

    def established() -> bool:
        status = node.control.peer(peer.name)
        return status.get("state") == "protected" and bool(status["attempts"] > attempts)

    node.wait_for("a new SA", established, 60)
    peer.wait_state(node, "protected", 60)


def _negotiated(node: Node, peer: Node) -> str:
    """Return the key exchange method of the IKE_SA."""
    return str(node.control.peer(peer.name)["ike_algorithms"][1])
