"""Read olsrd2's answers, which are not trusted: JSON documents without separators, and text between them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PROMPTS = re.compile(r"^(> )+", re.MULTILINE)


class AnswerError(Exception):
    """The answer lacks what was asked for."""


def entries_under(key: str, text: str, command: str) -> list[Mapping[str, Any]]:
    """Return the list under ``key`` in the first JSON document of an answer that has it. Raises ``AnswerError``."""
    for document in _documents(text):
        if isinstance(document, dict) and isinstance(document.get(key), list):
            return list(entries(document[key]))
    raise AnswerError(f"no {key!r} in the answer to {command!r} ({len(text)} characters)")


def entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; anything else is left out."""
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, dict))


def without_prompts(text: str) -> str:
    """Return the answers of a session. olsrd2 writes a prompt whenever it has read all that it received so far."""
    return _PROMPTS.sub("", text)


def _documents(text: str) -> Iterator[Any]:
    """Return the JSON documents of a text without separators, up to the first invalid one."""
    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        try:
            document, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        yield document
