"""The difference between two JSON documents as a JSON Merge Patch (RFC 7396), which browsers apply."""

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that makes ``after`` of ``before``; {} when nothing has changed.

    A member that is null means the same as one that is missing (RFC 7396, section 1). A reader that takes them for the
    same loses nothing.
    """
    patch: dict[str, Any] = dict.fromkeys(name for name in before if before[name] is not None and name not in after)
    for name, value in after.items():
        old = before.get(name)
        if old == value:
            continue
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            patch[name] = difference(old, value)
        else:
            patch[name] = value
    return patch
