"""What follows from the declared tables: JSON schemas, lists of keys for the reference page, and files of defaults."""

import json
import re
import textwrap
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.config.gateway_settings import GatewaySettings
from meshsec.core.config.island_settings import IslandLink
from meshsec.core.config.link_settings import LinkTable
from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.page_settings import PageSettings
from meshsec.core.config.position_settings import PositionSettings
from meshsec.core.config.radio_settings import RadioSettings
from meshsec.core.config.routing_settings import RoutingSettings
from meshsec.core.config.scheduling_settings import SchedulingTable
from meshsec.core.config.service_settings import ServiceTable
from meshsec.core.config.settings import Document, IkeSettings, NodeSettings, Paths
from meshsec.core.config.time_settings import TimeSettings
from meshsec.core.config.zeroize_settings import ZeroizeSettings
from meshsec.core.policy.policy import Profile
from meshsec.core.scheduling.governor_settings import GovernorTable
from meshsec.core.values.definition import Inherits, Key, Once, PathRule, Rule, keys

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_BOUNDS = {"ge": "minimum", "le": "maximum"}
_LENGTHS = {"min_length": "minItems", "max_length": "maxItems"}
_WIDTH = 118
"""Columns of a comment in a file of defaults."""
_PAGE_WIDTH = 100
"""Columns of the reference page."""
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_MANY = 100
"""Columns of a list that is written in one line."""

PROFILE_HEADER = """\
# The default policy profile. Chosen in meshsec.toml by `[policy] profile = "default"`; any other key of that table
# takes the place of the one here. Times are seconds unless the name says otherwise. Written by `make
# reference`: change daemon/meshsec/core/policy/policy.py instead. Schema: policies/policy.schema.json.
"""


DOCUMENT_HEADER = """\
# Every key of meshsec.toml with its default, table by table. A key that has no default, and a table that a node
# need not have, is behind `#`. Take over only what differs: a key that is left out follows the default of the version
# that is installed. [policy] has its keys in policies/default.toml. Written by `make reference`.
"""
_LISTS = frozenset({"link", "service"})
"""Tables of which there may be several."""
_OPTIONAL = frozenset({"radio", "time", "routing.interface.NAME", "link", "service"})
"""Tables without which a node has what they are about not at all, or as [routing] says."""


def document_schema() -> dict[str, object]:
    """Return the JSON schema of ``meshsec.toml``."""
    found = _document("meshsec.toml", Document)
    profile = {"profile": {"type": "string", "description": "the name of a policy profile, which is a file NAME.toml"}}
    overrides = {"type": "object", "additionalProperties": False, "properties": {**profile, **_properties(Profile)}}
    found["properties"]["policy"] = overrides
    return found


def profile_schema() -> dict[str, object]:
    """Return the JSON schema of a policy profile."""
    return _document("meshsec policy profile", Profile)


def entries(kind: type[msgspec.Struct]) -> str:
    """Return a table's keys as a Markdown list."""
    return "".join(_entry(key) for key in keys(kind) if not key.is_table and not key.is_a(dict))


def _entry(key: Key) -> str:
    default = "Required." if key.required and not key.words("default") else f"Default: {_default(key)}."
    words = f"`{key.name}`: {key.meta('description')}{_bounds(key)}. {default}"
    lines = textwrap.wrap(words, _PAGE_WIDTH - 2, break_on_hyphens=False, break_long_words=False)
    return "- " + "\n  ".join(lines) + "\n"


def profile_defaults() -> str:
    """Return ``policies/default.toml``."""
    entries = (f"{_comment(key.meta('description'))}{key.name} = {_toml(key.default)}\n" for key in keys(Profile))
    return "\n".join([PROFILE_HEADER, *entries])


def document_defaults() -> str:
    """Return ``docs/reference/meshsec-defaults.toml``."""
    return "\n".join([DOCUMENT_HEADER, *(_defaults_of(name, kind) for name, kind in _TABLES.items())])


def _defaults_of(name: str, kind: type[msgspec.Struct]) -> str:
    """Return one table of the file of defaults."""
    optional = name in _OPTIONAL
    entries = [
        f"{_comment(_meaning(key))}{_assigned(key, optional=optional)}\n"
        for key in keys(kind)
        if not key.is_table and not key.is_a(dict)
    ]
    header = f"[[{name}]]" if name in _LISTS else f"[{name}]"
    return "\n".join([f"{'# ' if optional else ''}{header}", *entries])


def _assigned(key: Key, *, optional: bool) -> str:
    """Return the line that sets a key, behind ``#`` where the file must not set it."""
    if key.default is None:
        return f"# {key.name} ="
    live = not optional and not key.words("default")
    return f"{'' if live else '# '}{key.name} = {_toml(key.default)}"


def _meaning(key: Key) -> str:
    """Return what a key means and what is allowed, with the default's words where it has some; without links."""
    words = _LINK.sub(r"\1", str(key.meta("description"))) + _bounds(key)
    return words + (f" (default: {key.words('default')})" if key.words("default") else "")


def _comment(words: str) -> str:
    """Return words as lines of comment."""
    lines = textwrap.wrap(words, _WIDTH, break_on_hyphens=False, break_long_words=False)
    return "".join(f"# {line}\n" for line in lines)


def _document(title: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$schema": _DRAFT, "title": title, **_table(kind)}


def _table(kind: type[msgspec.Struct], *, inherits: bool = False) -> dict[str, Any]:
    required = [key.name for key in keys(kind) if key.info.required and not inherits]
    found: dict[str, Any] = {"type": "object", "additionalProperties": False}
    return {**found, **({"required": required} if required else {}), "properties": _properties(kind)}


def _properties(kind: type[msgspec.Struct]) -> dict[str, object]:
    return {key.name: {**_value(key), **_described(key)} for key in keys(kind)}


def _described(key: Key) -> dict[str, object]:
    description = key.meta("description")
    return {"description": description} if description else {}


def _value(key: Key) -> Mapping[str, object]:
    if rule := key.note(Rule):
        found: Mapping[str, object] = rule.schema
    elif key.is_table:
        found = _table(key.kind)
    elif key.is_a(dict):
        inner = _table(key.item().kind, inherits=key.note(Inherits) is not None)
        found = {"type": "object", "additionalProperties": inner}
    elif key.is_a(tuple):
        unique = {"uniqueItems": True} if key.note(Once) else {}
        found = {"type": "array", "items": _value(key.item()), **_limits(key, _LENGTHS), **unique}
    elif issubclass(key.kind, StrEnum):
        found = {"enum": [str(one) for one in key.kind]}
    else:
        least = {"minLength": 1} if key.kind is str or key.note(PathRule) else {}
        found = {"type": _TYPES[key.kind], **_limits(key, _BOUNDS), **least}
    return found


def _limits(key: Key, names: Mapping[str, str]) -> dict[str, object]:
    return {name: key.meta(meta) for meta, name in names.items() if key.meta(meta) is not None}


def _bounds(key: Key) -> str:
    """Return what is allowed, where the description does not say it."""
    if key.note(Rule) or key.note(PathRule) or not isinstance(key.kind, type):
        return ""
    if issubclass(key.kind, StrEnum):
        return ": " + ", ".join(f'`"{one}"`' for one in key.kind)
    if key.kind in (int, float):
        unit = f" {key.words('unit')}" if key.words("unit") else ""
        return f": {_toml(key.meta('ge'))} to {_toml(key.meta('le'))}{unit}"
    return ""


def _default(key: Key) -> str:
    if words := key.words("default"):
        return words
    return f"`{_toml(key.default)}`" if key.default not in ((), None) else "none"


def _toml(value: object) -> str:
    """Return a default in TOML: JSON's form but for long lists."""
    if isinstance(value, tuple):
        words = [_toml(one) for one in value]
        line = f"[{', '.join(words)}]"
        return line if len(line) <= _MANY else "".join(["[\n", *(f"    {word},\n" for word in words), "]"])
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value if isinstance(value, bool | int) else str(value))


_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "node": NodeSettings,
    "routing": RoutingSettings,
    "routing.interface.NAME": LinkTable,
    "ike": IkeSettings,
    "overlay": OverlaySettings,
    "gateway": GatewaySettings,
    "access": AccessSettings,
    "page": PageSettings,
    "link": IslandLink,
    "service": ServiceTable,
    "position": PositionSettings,
    "zeroize": ZeroizeSettings,
    "scheduling": SchedulingTable,
    "scheduling.governor": GovernorTable,
    "radio": RadioSettings,
    "time": TimeSettings,
    "paths": Paths,
}
"""The tables of the reference page, by their marks ``<!-- keys of NAME -->`` and ``<!-- end -->``."""


def filled(page: str) -> str:
    """Return the reference page with the keys of each table between its marks."""

    def keys_of(mark: re.Match[str]) -> str:
        return f"{mark[1]}\n{entries(_TABLES[mark[2]])}{mark[3]}"

    return re.sub(r"(<!-- keys of (\S+) -->)\n.*?(<!-- end -->)", keys_of, page, flags=re.DOTALL)
