"""A listener who asks in a peer's name with overheard cookies, or a flood in any name, does not keep a pair apart."""

from tests.attacks.asking import Asker, limit, prepare, renegotiate, two_peers
from tests.lab.lab import Lab

RATE = 20
"""First messages a second in each direction, which kept a pair apart before."""


def test_a_listener_cannot_use_up_the_places_of_a_peer() -> None:
    with two_peers("places") as lab:
        prepare(lab)
        asker = Asker(lab, RATE)
        with asker.running():
            lab.start()
            a, c = lab["a"], lab["c"]
            a.wait_protected(c)
            a.wait_for("all places that there were are taken", lambda: asker.admitted > 60, 60)
            assert asker.cookies
            took = renegotiate(lab, 60)
        assert took < 30, f"{took:.1f} s, {asker.cookies} cookies, {asker.admitted} admitted"


def test_with_few_places_for_each_address_the_same_listener_keeps_the_pair_apart() -> None:
    """The negative case: charon's former limits, five places for each address, kept for 15 s."""
    with two_peers("few-places") as lab:
        prepare(lab)
        for name in ("a", "c"):
            limit(lab[name], block_threshold=5, half_open_timeout=15)
        asker = Asker(lab, RATE)
        with asker.running(only_listening=True):
            lab.start()
            a, c = lab["a"], lab["c"]
            a.wait_protected(c)
            asker.ask()
            a.wait_for("all places are taken", lambda: asker.admitted >= 10, 60)
            a.charon.terminate(c.name, force=True)
            failed = a.wait_for("an attempt fails for want of an answer", lambda: _unanswered(lab), 60)
        assert failed
        a.wait_protected(c, 90)


def _unanswered(lab: Lab) -> bool:
    a, c = lab["a"], lab["c"]
    found = [
        (one.control.peer(other.name).get("last_failure") or {}).get("reason", "") for one, other in ((a, c), (c, a))
    ]
    return any("timeout" in reason for reason in found)
