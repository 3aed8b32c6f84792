"""Rules that only the process that made them can remove, in a real kernel."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from meshsec.adapters.kernel.held_rules import HeldRules, HeldRulesError
from meshsec.core.channels.nft_rules import HELD_TABLES, render, render_held
from meshsec.core.values.model import EspBackend, RulesSpec, UnknownNodes
from namespaces import needs_root

pytestmark = needs_root

SPEC = RulesSpec(
    backend=EspBackend.LIBIPSEC,
    own=frozenset(),
    protected=frozenset(),
    locators=frozenset(),
    mesh_prefixes=(),
    unknown_nodes=UnknownNodes.DROP,
)


HELD = partial(render_held, SPEC)
FIRST, SECOND = HELD_TABLES


def nonsense(table: str) -> str:
    return f"add table inet {table}\nnonsense\n"


@pytest.fixture
def held(inside: str) -> Iterator[HeldRules]:
    """Give held rules that are in force in a namespace of their own."""
    rules = HeldRules(HELD_TABLES, {})
    rules.apply(HELD)
    yield rules
    rules.close()


def listed() -> str:
    return subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


def other(*command: str) -> int:
    """Run nft as another program would, and return its exit status."""
    return subprocess.run(["nft", *command], capture_output=True, check=False).returncode


def test_another_program_can_neither_flush_nor_delete_nor_replace_them(held: HeldRules) -> None:
    assert other("flush", "ruleset") == 0
    assert other("delete", "table", "inet", FIRST) != 0
    assert other("flush", "table", "inet", FIRST) != 0
    assert "hook output" in listed()


def test_rules_without_an_owner_are_flushed(held: HeldRules) -> None:
    """Negative case: another program can flush rules that no process owns."""
    held.close()
    subprocess.run(["nft", "-f", "-"], input=render(SPEC), text=True, check=True)
    assert other("flush", "ruleset") == 0
    assert not listed()


def test_their_owner_can_replace_them_and_they_go_when_it_ends(held: HeldRules) -> None:
    held.apply(partial(render_held, replace(SPEC, backend=EspBackend.KERNEL)))
    assert "ipsec" in listed()
    held.close()
    assert not listed()


def test_rules_that_the_kernel_refuses_are_named_and_nothing_is_held_any_more(held: HeldRules) -> None:
    with pytest.raises(HeldRulesError, match="syntax error"):
        held.apply(nonsense)
    assert not listed()
    held.apply(HELD)
    assert SECOND in listed(), "somebody may hold the first still"


def test_the_rules_stay_with_an_open_socket_until_a_successor_has_its_own(held: HeldRules) -> None:
    kept = {FIRST: os.dup(held.sockets[FIRST])}
    held.close()
    assert other("flush", "ruleset") == 0
    assert FIRST in listed(), "their maker is gone"
    successor = HeldRules(HELD_TABLES, kept)
    with pytest.raises(HeldRulesError):
        successor.apply(nonsense)
    assert FIRST in listed(), "one that fails takes nothing away"
    assert successor.sockets == kept
    successor.apply(HELD)
    assert f"table inet {SECOND} " in listed()
    assert f"table inet {FIRST} " not in listed()
    assert set(successor.sockets) == {SECOND}
    successor.close()
    assert not listed()
