"""Judges other firewalls of the machine, such as ufw, firewalld or rules of its owner, which may close the mesh out."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from meshsec.core.explain.findings import Check, Level

NAME = "other firewalls"
_OWN = "meshsec"
"""Prefix of the names of meshsec's own tables."""
_FAMILIES = ("inet", "ip6")
"""Routing, IKE and ESP between nodes are IPv6."""
_HOOKS = ("forward", "input")
_REJECTING = "firewalld"
"""A table that closes by a last rule, and not by its chains' policy."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A table of somebody else's that drops what no rule of it accepts."""

    family: str
    name: str
    hooks: tuple[str, ...]
    """Where: ``forward``, ``input``."""


def closed(listed: Iterable[Mapping[str, Any]]) -> list[Closed]:
    """Return the closed tables among what ``nft --json list chains`` lists (libnftables-json(5))."""
    found: dict[tuple[str, str], set[str]] = {}
    for chain in (one["chain"] for one in listed if "chain" in one):
        if chain["family"] in _FAMILIES and chain.get("hook") in _HOOKS and _drops(chain):
            found.setdefault((chain["family"], chain["table"]), set()).add(chain["hook"])
    return [Closed(family, name, tuple(sorted(hooks))) for (family, name), hooks in sorted(found.items())]


def _drops(chain: Mapping[str, Any]) -> bool:
    if chain["table"].startswith(_OWN):
        return False
    return chain.get("policy") == "drop" or (chain["table"] == _REJECTING and chain.get("type") == "filter")


def judged(tables: Mapping[Closed, str], interfaces: Collection[str], *, hears: bool) -> list[Check]:
    """Judge closed tables, each with its text.

    A rule that names a mesh interface shows that somebody thought of the mesh. ``hears``: whether this node has a
    neighbour, so that its input cannot be closed to the router.
    """
    return [
        Check(NAME, Level.WARN, _found(table, missing, hooks), _fix(missing[0]))
        for table, text in tables.items()
        if (missing := [name for name in interfaces if not _names(text, name)])
        if (hooks := [hook for hook in table.hooks if hook == "forward" or not hears])
    ]


def _names(text: str, interface: str) -> bool:
    quoted = re.escape(f'"{interface}"')
    return re.search(rf"\b[io]if(name)? [^\n]*{quoted}|\belements = {{[^}}]*{quoted}", text) is not None


def _found(table: Closed, missing: Iterable[str], hooks: Iterable[str]) -> str:
    return (
        f"the table {table.family} {table.name} drops at {' and '.join(hooks)} what it does not accept, and no rule of "
        f"it names {', '.join(missing)}"
    )


def _fix(interface: str) -> str:
    return f"let the mesh pass; meshsec's own rules keep user data in the clear out. {'; '.join(_ways(interface))}"


def _ways(interface: str) -> Iterator[str]:
    yield f"ufw: `ufw allow in on {interface}`, `ufw route allow in on {interface} out on {interface}`"
    yield f"firewalld: `firewall-cmd --permanent --zone=trusted --add-interface={interface}`, `firewall-cmd --reload`"
    yield (
        f"nftables: rules that accept iifname {interface} at input (at least UDP 269, 500, 4500 and 17183, TCP 17181, "
        "ESP, ICMPv6), and at forward, so that this node relays"
    )
