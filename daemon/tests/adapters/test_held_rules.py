"""Rules that nobody but their maker can remove, against the real library and kernel."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from meshsec.adapters.held_rules import HeldRules, HeldRulesError
from meshsec.adapters.nftables import HELD_TABLE, render, render_held
from meshsec.core.model import EspGround, RulesSpec, UnknownNodes
from namespaces import needs_root

pytestmark = needs_root

SPEC = RulesSpec(
    ground=EspGround.LIBIPSEC,
    own=frozenset(),
    protected=frozenset(),
    locators=frozenset(),
    mesh_prefixes=(),
    unknown_nodes=UnknownNodes.DROP,
)


@pytest.fixture
def held(inside: str) -> Iterator[HeldRules]:
    """Rules in a namespace of their own."""
    rules = HeldRules()
    rules.apply(render_held(SPEC))
    yield rules
    rules.close()


def listed() -> str:
    return subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


def other(*command: str) -> int:
    """What another program tries; its status."""
    return subprocess.run(["nft", *command], capture_output=True, check=False).returncode


def test_another_program_can_neither_flush_nor_delete_nor_replace_them(held: HeldRules) -> None:
    assert other("flush", "ruleset") == 0
    assert other("delete", "table", "inet", HELD_TABLE) != 0
    assert other("flush", "table", "inet", HELD_TABLE) != 0
    assert "hook output" in listed()


def test_rules_without_an_owner_are_flushed(held: HeldRules) -> None:
    """The negative case."""
    held.close()
    subprocess.run(["nft", "-f", "-"], input=render(SPEC), text=True, check=True)
    assert other("flush", "ruleset") == 0
    assert not listed()


def test_their_maker_replaces_them_and_they_go_with_it(held: HeldRules) -> None:
    held.apply(render_held(replace(SPEC, ground=EspGround.KERNEL)))
    assert "ipsec" in listed()
    held.close()
    assert not listed()


def test_what_cannot_be_is_told_and_nothing_is_held_any_more(held: HeldRules) -> None:
    with pytest.raises(HeldRulesError, match="nonsense"):
        held.apply("add table inet nonsense\nnonsense\n")
    assert not listed()
    held.apply(render_held(SPEC))
    assert HELD_TABLE in listed()
