"""Which schema the JSON output of each command has, as docs/reference/cli.md says, and whether a real output has it."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import click
import jsonschema

from meshsec.cli import main

ROOT = Path(__file__).parents[3]
DIRECTORY = ROOT / "docs/reference/schema"
_ROW = re.compile(r"^\| (`.*) \| (`meshsec-.*`).* \|$", re.MULTILINE)
_WORD = re.compile(r"`([^`]+)`")
LINES = "watch"
"""The command that prints documents in lines, which do not name their schema."""


@cache
def schemas() -> dict[str, frozenset[str]]:
    """Return the schemas of each command's documents by the command's name."""
    rows = _ROW.findall((ROOT / "docs/reference/cli.md").read_text(encoding="utf-8"))
    return {name: frozenset(_WORD.findall(ours)) for names, ours in rows for name in _WORD.findall(names)}


@cache
def commands() -> frozenset[str]:
    """Return the commands that have --json."""
    return frozenset(_with_json(main, ()))


def _with_json(command: click.Command, words: tuple[str, ...]) -> set[str]:
    if isinstance(command, click.Group):
        names = command.list_commands(context := click.Context(command))
        found = ((name, command.get_command(context, name)) for name in names)
        return {one for name, inner in found if inner for one in _with_json(inner, (*words, name))}
    return {" ".join(words)} if any("--json" in parameter.opts for parameter in command.params) else set()


def check(arguments: Sequence[str], text: str) -> None:
    """Validate what a command printed, if it was asked for JSON and printed some. Raises ValidationError."""
    if "--json" not in arguments or not text.startswith("{"):
        return
    words = [one for one in arguments if not one.startswith("-")]
    name = next(name for name in sorted(commands(), key=len, reverse=True) if _begins(words, name.split()))
    for document in map(json.loads, text.splitlines() if name == LINES else [text]):
        (schema,) = schemas()[name] if name == LINES else [document.get("schema")]
        assert schema in schemas()[name], f"`{name}` has {schema}, and docs/reference/cli.md says {schemas()[name]}"
        _validator(schema).validate(document)


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((DIRECTORY / f"{schema}.json").read_text(encoding="utf-8")))


def _begins(words: Sequence[str], name: Sequence[str]) -> bool:
    return list(words[: len(name)]) == list(name)
