"""After a restart a node still knows from its disk which peers sign (ADR 0094)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.node.routers import TextInterface

REFUSED = 10
"""Unsigned messages in a peer's name: some HELLO intervals."""


def _forged(node: Node) -> int:
    """Return how many messages the node's router has refused as forged."""
    text = TextInterface(node.namespace, node.run_directory / "query.sock").ask("/signatures")
    return int(json.loads(text)["forged"])


def _text(record: Path) -> str:
    return record.read_text(encoding="utf-8") if record.exists() else ""


@contextmanager
def _restarted_beside_an_unsigned_peer(forgets: bool) -> Iterator[tuple[Node, Node]]:
    """Let a see that b signs, start a's meshsecd and router again, and have b's name spoken for unsigned by then.

    With ``forgets``, a's record is removed meanwhile.
    """
    with Lab("remembered", line(names(2)), Options(signatures="prefer")) as lab:
        lab.set_up().trust_all().start()
        a, b = lab["a"], lab["b"]
        record = a.var / "signers.json"
        a.wait_route(b)
        wait_until("it is on the disk that b signs", lambda: f'"{b.announced}"' in _text(record), (), 60)
        for node in (a, b):
            for kind in ("meshsecd", "router"):
                daemon = node.daemons.get(kind)
                assert daemon is not None
                daemon.kill()
        for daemon in b.daemons.all():
            daemon.kill()
        b.become(Options(signatures="off"))
        if forgets:
            record.unlink()
        lab.start("meshsecd", "router", nodes=[a, b])
        yield a, b


def test_who_signs_is_not_believed_unsigned_after_a_restart() -> None:
    with _restarted_beside_an_unsigned_peer(forgets=False) as (a, b):
        a.wait_for("b's unsigned messages are refused", lambda: _forged(a) > REFUSED, 60)
        assert b.announced not in a.kernel.interfaces()


def test_without_the_record_it_would_be_believed() -> None:
    """The negative case: what the record is for."""
    with _restarted_beside_an_unsigned_peer(forgets=True) as (a, b):
        a.wait_route(b)
        assert _forged(a) == 0
