"""JSON outputs only grow: a field that programs read today stays in later versions with the same number."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NOW = ROOT / "docs/reference/schema"
(RELEASE,) = (path for path in (ROOT / "tests/vectors/schema").iterdir() if path.is_dir())
KEPT = sorted(RELEASE.glob("*.json"))
BY_NAME = ("properties", "$defs", "patternProperties")
BY_PLACE = ("oneOf", "anyOf", "allOf", "prefixItems")
WITHIN = ("items", "additionalProperties")


def lost(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield what ``old`` promises and ``new`` does not."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield f"{where}: was {old}, is {new}"
        return
    yield from (f"{where}: {name} is no longer required" for name in _set(old, "required") - _set(new, "required"))
    yield from (f"{where}: the value {value} is gone" for value in _set(old, "enum") - _set(new, "enum"))
    if "type" in old and ("type" not in new or not _set(new, "type") <= _set(old, "type")):
        yield f"{where}: the type was {old['type']}, is {new.get('type')}"
    for word in ("const", "$ref", "format"):
        if old.get(word, new.get(word)) != new.get(word):
            yield f"{where}: {word} was {old[word]}, is {new.get(word)}"
    yield from _lost_below(old, new, where)


def _lost_below(old: dict[str, Any], new: dict[str, Any], where: str) -> Iterator[str]:
    for word in BY_NAME:
        for name, value in old.get(word, {}).items():
            if name in new.get(word, {}):
                yield from lost(value, new[word][name], f"{where}/{name}")
            else:
                yield f"{where}: {name} is gone"
    for word in BY_PLACE:
        for index, value in enumerate(old.get(word, [])):
            others = new.get(word, [])
            yield from lost(value, others[index] if index < len(others) else {}, f"{where}/{word}.{index}")
    for word in WITHIN:
        if isinstance(old.get(word), dict):
            yield from lost(old[word], new.get(word), f"{where}/{word}")


def _set(schema: dict[str, Any], word: str) -> set[str]:
    value = schema.get(word, [])
    return {json.dumps(one) for one in (value if isinstance(value, list) else [value])}


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.stem)
def test_a_schema_has_only_grown_since_the_last_release(kept: Path) -> None:
    now = NOW / kept.name
    assert now.exists(), "it may go only with a change of the version's first number"
    missing = list(lost(json.loads(kept.read_text()), json.loads(now.read_text())))
    assert not missing, f"{kept.name} needs a new number: tests/vectors/schema/README.md"


def test_every_numbered_output_is_kept() -> None:
    assert len(KEPT) > 15


OLD: dict[str, Any] = {
    "type": "object",
    "format": "ipv6",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "mode": {"enum": ["a", "b"]}, "all": {"items": {"type": "integer"}}},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"required": []}, '"name" is no longer required'),
        ({"properties": {**OLD["properties"], "name": {"type": ["string", "null"]}}}, "/name: the type was string"),
        ({"properties": {**OLD["properties"], "mode": {"enum": ["a", "c"]}}}, 'the value "b" is gone'),
        ({"properties": {"name": {"type": "string"}}}, "mode is gone"),
        ({"type": ["object", "array"]}, ": the type was object"),
        ({"format": "ipv4"}, "format was ipv6, is ipv4"),
        ({"properties": {**OLD["properties"], "all": {"items": {"type": "number"}}}}, "/all/items: the type"),
    ],
)
def test_a_removed_promise_is_noticed(change: dict[str, Any], message: str) -> None:
    assert any(message in one for one in lost(OLD, {**OLD, **change}))


def test_growth_is_allowed() -> None:
    properties = {**OLD["properties"], "more": {"type": "null"}, "mode": {"enum": ["a", "b", "c"]}}
    assert not list(lost(OLD, {**OLD, "required": ["name", "more"], "properties": properties}))
