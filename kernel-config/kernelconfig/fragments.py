"""Fragments: what meshsec wants of each symbol, how much it matters, for which feature and why. Pure.

An entry is a comment in this form, directly followed by one assignment; an empty line parts other comments from it:

    # required kernel-esp: charon hands SAs to the kernel through this;
    #   a reason may go on in lines that are indented by two more spaces.
    CONFIG_XFRM_USER=m

How a kernel of our own is packaged and what is left out of it is in files of free form: settings, no wants.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kernelconfig.syntax import ConfigSyntaxError, assignment, fault

FEATURES = {
    "deadlines": "SAs on time while the node is busy",
    "diagnosis": "finding out what went wrong",
    "exploits": "a fault in the kernel is hard to use",
    "fail-closed": "no packet in the clear, whichever daemon is dead",
    "fallback-esp": "ESP in user space and the overlay",
    "kernel-esp": "ESP in the kernel, in transport mode",
    "lab": "vehicles simulated in a guest or in namespaces",
    "mesh-radio": "802.11s interfaces",
    "networks": "networks behind nodes, protected",
    "node-address": "the fc.. address",
    "random": "good keys at the first boot",
    "routing": "OLSRv2",
    "secrets": "keys stay in the vehicle",
    "unattended": "a node that fell gets up without help",
    "vehicle-image": "read-only root and protected state",
}
"""What an entry may be for."""

_FORM = '"# required|recommended|risky FEATURE: reason", its continuation "#   ...", then one assignment'


class Severity(StrEnum):
    """How much it matters that a symbol is not as wanted."""

    REQUIRED = "required"
    """The feature does not work."""
    RISKY = "risky"
    """It works, with a danger that the reason names."""
    RECOMMENDED = "recommended"
    """It works less well, or cannot be examined."""


_HEAD = re.compile(rf"# ({'|'.join(Severity)}) ([\w-]+): (\S.*)")
_MORE = re.compile(r"#   (\S.*)")


@dataclass(frozen=True)
class Setting:
    """One assignment of a file that is merged."""

    symbol: str
    """Without CONFIG_."""
    value: str
    """y, n, a number or a quoted text: exactly this. m: as a module or built in."""
    fragment: str
    line: int

    def is_met_by(self, value: str) -> bool:
        """Return whether a kernel with this value of the symbol has what is wanted."""
        return value in {"y", "m"} if self.value == "m" else value == self.value


@dataclass(frozen=True)
class Want(Setting):
    """One entry of a fragment."""

    severity: Severity
    feature: str
    reason: str


AnySetting = TypeVar("AnySetting", bound=Setting)


def parse(text: str, name: str) -> tuple[Want, ...]:
    """Return the entries of a fragment, in its order. Raises ConfigSyntaxError."""
    wants: list[Want] = []
    comment: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := assignment(line):
            wants.append(_want(found, comment, name, number, line))
            comment = []
        elif line.startswith("#"):
            comment.append(line)
        elif line or _is_entry(comment):
            raise fault(name, number, line, _FORM)
        else:
            comment = []
    if not wants or comment:
        raise ConfigSyntaxError(f"{name}: ends without an assignment; allowed is {_FORM}")
    return tuple(wants)


def parse_settings(text: str, name: str) -> tuple[Setting, ...]:
    """Return the assignments of a file of free form, in its order. Raises ConfigSyntaxError."""
    settings: list[Setting] = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := assignment(line):
            settings.append(Setting(*found, name, number))
        elif line and not line.startswith("# "):
            raise fault(name, number, line, "an assignment, a comment (#) or an empty line")
    return tuple(settings)


def union(fragments: Iterable[tuple[AnySetting, ...]]) -> tuple[AnySetting, ...]:
    """Return the entries of several fragments. A symbol that has two is an error: raises ConfigSyntaxError."""
    entries: dict[str, AnySetting] = {}
    for entry in (entry for fragment in fragments for entry in fragment):
        first = entries.setdefault(entry.symbol, entry)
        if first is not entry:
            where = f"{first.fragment}:{first.line}"
            raise ConfigSyntaxError(f"{entry.fragment}:{entry.line}: CONFIG_{entry.symbol} is set already at {where}")
    return tuple(entries.values())


def _is_entry(comment: list[str]) -> bool:
    return bool(comment) and _HEAD.fullmatch(comment[0]) is not None


def _want(found: tuple[str, str], comment: list[str], name: str, number: int, line: str) -> Want:
    head = _HEAD.fullmatch(comment[0]) if comment else None
    more = [_MORE.fullmatch(part) for part in comment[1:]]
    if head is None or not all(more):
        raise fault(name, number, line, _FORM)
    if head[2] not in FEATURES:
        raise fault(name, number - len(comment), head[2], f"a feature: {', '.join(FEATURES)}")
    reason = " ".join([head[3], *(part[1] for part in more if part)])
    return Want(*found, name, number, Severity(head[1]), head[2], reason)
