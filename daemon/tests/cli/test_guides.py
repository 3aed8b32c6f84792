"""The guides say what is there: each command with its options, and each node's configuration as it is put together."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from meshsec.adapters.files import config_file
from meshsec.cli.app import main

GUIDES = sorted((Path(__file__).parents[3] / "docs/guide").glob("*.md"))
WALKED = {
    "community-network.md": ("school", "farm", "library", "bakery"),
    "rescue-team.md": ("truck", "pack", "boat"),
}
"""The guides that say for each node what is in its configuration."""

_CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:[a-z]+(?:, [a-z]+)*[#$] +)?(meshsec [a-z].*)$", re.MULTILINE)
_ADDED = re.compile(r"^([a-z, ]+)# cat >> /etc/meshsec/meshsec.toml <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str = "") -> list[str]:
    """Return the code blocks of a language; without one those of a terminal."""
    return [content for found, content in _CODE.findall(text) if found == language]


def commands(text: str) -> Iterator[str]:
    """Yield the lines that call meshsec."""
    for block in blocks(text):
        yield from _COMMAND.findall(block)


def wrong(line: str) -> str:
    """Return what of a command line is not there; empty if all is."""
    words = shlex.split(re.split(r" [|>]|&&|\$\(| #|\)", line)[0], comments=True)[1:]
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            return f"{command.name} has no command {name}"
        command = found
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    gone = [word for word in words if word.startswith("--") and word.partition("=")[0] not in {*known, "--help"}]
    return f"{command.name} has no option {', '.join(gone)}" if gone else ""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_command_that_a_guide_names_is_there(guide: Path) -> None:
    assert [(line, fault) for line in commands(guide.read_text(encoding="utf-8")) if (fault := wrong(line))] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_list_that_is_printed_is_also_taken(guide: Path) -> None:
    """`fleet revoke` puts nothing into force without --stolen: a node, or Ansible on one, takes what it prints."""
    for block in blocks(guide.read_text(encoding="utf-8")):
        revoking = re.findall(r"meshsec fleet revoke .*", block)
        is_taken = "meshsec fleet take" in block or "playbooks/trust.yml" in block
        assert is_taken or all("--stolen" in line for line in revoking), block


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert [*commands("```\nridge# meshsec gateway up\n```\n")] == ["meshsec gateway up"]
    assert wrong("meshsec gateway up eth1") == "gateway has no command up"
    assert wrong("meshsec peer add a CARD --network | tee x") == "add has no option --network"
    assert wrong("meshsec peer add a 'CARD OF A' --networks > /tmp/x") == ""


@pytest.mark.parametrize(("guide", "node"), [(guide, node) for guide, nodes in WALKED.items() for node in nodes])
def test_the_configuration_of_each_node_is_accepted(guide: str, node: str, tmp_path: Path) -> None:
    """It is put together as a reader does: what `init` writes, then what the guide adds, then its tables for all."""
    text = next(one for one in GUIDES if one.name == guide).read_text(encoding="utf-8")
    path = tmp_path / "meshsec.toml"
    config_file.create(path, node, ("wlan0",), None)
    added = [content for where, content in _ADDED.findall(text) if node in where.split(", ") or where == "all"]
    path.write_text("".join([path.read_text(), *added, *blocks(text, "toml")]), encoding="utf-8")
    assert config_file.load(path).radios is not None


@pytest.mark.parametrize("block", range(3))
def test_the_tables_of_an_access_node_are_accepted(block: int, tmp_path: Path) -> None:
    """Each access point of the guide, beside the networks of the first block."""
    text = next(one for one in GUIDES if one.name == "access.md").read_text(encoding="utf-8")
    first, *others = blocks(text, "toml")
    more = "".join(line for line in ["", *others][block].splitlines(keepends=True) if line != "[access]\n")
    path = tmp_path / "meshsec.toml"
    config_file.create(path, "hut", ("wlan0",), None)
    path.write_text(path.read_text() + first + (more if "[routing]" not in more else ""), encoding="utf-8")
    access = config_file.load(path).access
    assert access.networks
    assert (access.radio is None) is (block == 0)
