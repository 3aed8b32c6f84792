"""A stranger who answers each first message of IKE before the peer does cannot keep two peers from an SA.

In these labs the true answer takes 30 ms longer, so that the forger is always first. He suppresses nothing.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.attacks.asking import Asker
from tests.lab.forge import ike
from tests.lab.forge.ike import Listener, LongWay, Message, Reach
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import spis

FULL = 6
"""Number of half-open IKE_SAs of both ends together from which each asks the other for a cookie."""
Forgery = Callable[[Message], Message]

FORGERIES: dict[str, Forgery] = {
    "refusal": lambda heard: ike.reply(heard, [ike.notify(ike.NO_PROPOSAL_CHOSEN)]),
    "cookie": lambda heard: ike.reply(heard, [ike.notify(ike.COOKIE, os.urandom(24))]),
    "other-group": lambda heard: ike.reply(heard, [ike.notify(ike.INVALID_KE_PAYLOAD, b"\0\x15")]),
    "redirect": lambda heard: ike.reply(heard, [ike.notify(ike.REDIRECT, b"\x02\x10" + bytes(16))]),
    "empty": lambda heard: ike.reply(heard, []),
    "nonsense": ike.nonsense,
    "acceptance": ike.acceptance,
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    """Start a and c, which trust each other; b is the relay whose place the stranger takes."""
    with Lab("answers", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust("a", "c").start()
        lab["a"].wait_protected(lab["c"])
        with Reach(lab, "b", ("a", "c")) as reach, LongWay(lab["b"].namespace, reach.ends, reach.send):
            yield lab


@contextmanager
def forging(lab: Lab, forgery: Forgery) -> Iterator[list[Message]]:
    """Answer every first message on b's links at once. Yield the answers sent."""
    sent: list[Message] = []
    with Reach(lab, "b", ("a", "c")) as reach:

        def answer(heard: Message) -> None:
            if heard.is_opening:
                sent.append(forgery(heard))
                reach.send(sent[-1])

        with Listener(reach.ends, answer, only_inbound=True):
            yield sent


def _negotiate(lab: Lab, seconds: float) -> None:
    """Have the pair lose its SA, and wait for another one."""
    a, c = lab["a"], lab["c"]
    c.wait_protected(a)
    before = spis(a, c)
    a.charon.terminate(c.name, force=True)
    a.wait_for("other SPIs", lambda: (spis(a, c) or before) != before, seconds)
    a.wait_protected(c, seconds)


@pytest.mark.parametrize("kind", FORGERIES)
def test_forged_answers_do_not_keep_a_pair_apart(pair: Lab, kind: str) -> None:
    with forging(pair, FORGERIES[kind]) as sent:
        _negotiate(pair, 60)
    assert sent, "nobody was deceived: there was nothing to answer"


def test_a_refusal_is_not_believed_where_a_forger_has_the_peer_ask_for_cookies(pair: Lab) -> None:
    """He fills the half-open places of each end in the other's name, so that no first answer is an acceptance."""
    with Asker(pair, 20).running() as asker:
        _negotiate(pair, 60)
        pair["a"].wait_for("half-open IKE_SAs", lambda: asker.admitted > FULL, 30)
        before = asker.cookies
        with forging(pair, FORGERIES["refusal"]) as sent:
            _negotiate(pair, 30)
    assert sent
    assert asker.cookies > before, "nobody was asked for a cookie"


def test_without_the_guard_a_forged_refusal_ends_the_attempt(pair: Lab) -> None:
    """The negative case: the same forger is believed where charon hears him, and not where the guard is in force."""
    assert not _gets_an_sa(pair, "nft delete table inet meshsec_ike")
    assert _gets_an_sa(pair, "true")


def _has_none(node: Node, peer: Node) -> bool:
    return not node.charon.sas_with(peer.name)


def _gets_an_sa(lab: Lab, prepare: str) -> bool:
    """Have a's charon make one attempt without meshsecd while forged refusals answer. Return whether it gets an SA."""
    a, c = lab["a"], lab["c"]
    a.wait_protected(c, 90)
    a.daemons.agent.kill()
    c.daemons.agent.kill()
    a.run(*prepare.split())
    c.wait_for(
        "attempts that meshsecd began are over", lambda: all(sa.installed for sa in c.charon.sas_with(a.name)), 60
    )
    a.charon.terminate(c.name, force=True)
    for node, peer in ((a, c), (c, a)):
        node.wait_for("no SA", partial(_has_none, node, peer), 60)
    with forging(lab, FORGERIES["refusal"]) as sent:
        a.charon.initiate(c.name, "mesh")
    assert sent
    found = any(sa.installed for sa in a.charon.sas_with(c.name))
    lab.heal()
    a.wait_protected(c, 90)
    return found


def test_word_in_the_clear_after_the_first_exchange_is_not_heard(pair: Lab) -> None:
    """A refusal of IKE_AUTH or a request in the clear does not reach charon, in spite of right SPIs and numbers."""

    def disturb(heard: Message) -> list[Message]:
        if heard.exchange == ike.IKE_SA_INIT or heard.flags & ike.RESPONSE:
            return []
        return [
            ike.reply(heard, [ike.notify(ike.AUTHENTICATION_FAILED)]),
            heard.with_payloads([ike.notify(ike.INVALID_SYNTAX)]),
            heard.with_payloads([]),
        ]

    with Reach(pair, "b", ("a", "c")) as reach:
        sent: list[Message] = []

        def answer(heard: Message) -> None:
            for message in disturb(heard):
                sent.append(message)
                reach.send(message)

        with Listener(reach.ends, answer, only_inbound=True):
            _negotiate(pair, 60)
            before = spis(pair["a"], pair["c"])
            pair["a"].charon.rekey("c", "mesh")
            pair["a"].wait_for("rekeyed", lambda: spis(pair["a"], pair["c"]) != before, 60)
    assert sent
    dropped = sum(_dropped(pair[name], "unprotected") for name in ("a", "c"))
    assert dropped >= len(sent) / 2, f"{dropped} of {len(sent)} were dropped"


def _dropped(node: Node, reason: str) -> int:
    shown = node.run("nft", "list", "counter", "inet", "meshsec_ike", reason).stdout
    return int(shown.split("packets ")[1].split()[0])
