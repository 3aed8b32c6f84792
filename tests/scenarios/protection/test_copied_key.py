"""Two nodes have one key, and their peer says so (ADR 0079). tests/attacks has what must not make it say so."""

import json
import shutil

from meshsec.core.explain.copied_keys import FIX
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue

WITHIN = 60.0
LEVELS: list[dict[str, str | int]] = [{"name": "alarmed", "ike_rekey_time": 3600}, {"name": "card"}]
ALARMED: list[dict[str, str | int]] = [{"level": "alarmed", "threat": True}]
AT_THREAT: dict[str, PolicyValue] = {"levels": LEVELS, "level_rules": ALARMED}
"""A copied key raises the threat, and with it the level of authentication (ADR 0091)."""


def copied(node: Node) -> dict[str, str]:
    """Return what doctor says of copied keys on a node, with the fix of each."""
    view = json.loads(node.meshsec("doctor", "--json", check=False).stdout)
    return {one["found"]: one["mend"] for one in view["checks"] if one["name"] == "copied key"}


def problems(node: Node, words: str) -> list[str]:
    """Return the problems with these words that a node's status names."""
    return [one for one in node.control.ask("status")["problems"] if words in one]


def test_a_peer_of_two_nodes_with_one_key_says_so() -> None:
    """The disk of a is copied to d, which is further away from b, and to e beside b. First a starts again."""
    with Lab("copied-key", [*line(names(4)), ("b", "e")]) as lab:
        lab.set_up({"b": Options(policy=AT_THREAT)})
        a, b, d, e = lab["a"], lab["b"], lab["d"], lab["e"]
        for copy in (d, e):
            shutil.copytree(a.var, copy.var, dirs_exist_ok=True)
            copy.become(copy.options)
            assert copy.address == a.address
        for one, other in ((a, b), (b, a), (d, b), (e, b)):
            one.install_card(other)
        lab.start(nodes=[lab[name] for name in "abc"])
        b.wait_protected(a)
        for daemon in (a.daemons.agent, a.daemons.charon):
            daemon.kill()
            daemon.start()
            daemon.wait_ready()
        b.wait_protected(a)
        assert not problems(b, "key"), "a node that starts again"
        lab.start(nodes=[d])
        b.wait_for("status names the peer", lambda: problems(b, "two nodes have the key of a"), WITHIN)
        a.wait_for("so does a itself", lambda: problems(a, "another node has this node's key"), WITHIN)
        b.wait_for("the threat is high", lambda: "the key of a" in (b.control.ask("threat")["why"] or ""), WITHIN)
        assert b.control.peer("a")["level"]["chosen"] == "alarmed"
        assert set(copied(b).values()) == set(copied(a).values()) == {FIX}
        lab.start(nodes=[e])
        e.wait_for("e, whom b does not take for a neighbour, too", lambda: problems(e, "a copy of this node's"), WITHIN)
        assert not problems(lab["c"], "key")
