"""The change of a node's key, step by step: its next key beside the present one, then the end of the present one."""

import json
from functools import partial

from tests.lab.node.node import Node
from tests.scenarios.expectations import restart_for_keys, states


def begin(node: Node, others: tuple[Node, ...]) -> str:
    """Use the next key beside the present one and wait until all are protected by both. Return its address."""
    card: dict[str, str] = json.loads(node.meshsec("key", "next", "--json").stdout)
    restart_for_keys(node)
    for other in others:
        other.meshsec("peer", "next", node.name, card["card"])
    wait_both(node, others)
    return card["address"]


def wait_both(node: Node, others: tuple[Node, ...]) -> None:
    """Wait until the node and all others are protected by both of its keys."""
    for other in others:
        for key in ("", "~"):
            _await_protected(other, node.name + key)
        for key in ("", "^"):
            _await_protected(node, other.name + key)


def end(node: Node, others: tuple[Node, ...]) -> None:
    """End the old key at the node and at all others; SAs of the new key are kept."""
    standing = {sa.unique_id for sa in node.charon.sas() if sa.peer.endswith("^")}
    node.meshsec("key", "end")
    restart_for_keys(node)
    for other in others:
        other.meshsec("peer", "end", node.name)
    ends = (*((other, node) for other in others), *((node, other) for other in others))
    for here, there in ends:
        here.wait_for("one key", partial(_all_protected, here, len(others)), 90)
        _await_protected(here, there.name)
    node.wait_for("no SA but the former ones", lambda: {sa.unique_id for sa in node.charon.sas()} <= standing, 60)


def _all_protected(node: Node, count: int) -> bool:
    return list(states(node).values()) == ["protected"] * count


def _await_protected(node: Node, peer: str) -> None:
    node.wait_for(f"{peer} protected", lambda: states(node).get(peer) == "protected", 90)
