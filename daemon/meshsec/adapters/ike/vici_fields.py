"""Read single values of charon's messages. A missing one raises IkeError if it has no default."""

from collections.abc import Mapping
from typing import Any

from meshsec.core.ike.port import IkeError


def subsection(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a section; empty if it is absent."""
    value = message.get(key, {})
    if not isinstance(value, Mapping):
        raise IkeError(f"charon's {key!r} is no section")
    return value


def text(message: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """Return a text, or the default; without one, a missing text is an error."""
    value = message.get(key, default)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    raise IkeError(f"charon's answer lacks {key!r}")


def texts(message: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts; empty if it is absent."""
    values = message.get(key, [])
    return tuple(value.decode("utf-8", "replace") for value in values if isinstance(value, bytes))


def number(message: Mapping[str, Any], key: str) -> int:
    """Return a number; 0 if it is absent."""
    return int(text(message, key, "0"))


def yes(value: bool) -> str:
    """Return charon's word for a truth value."""
    return "yes" if value else "no"
