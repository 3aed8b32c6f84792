"""Which values sysctls get back when meshsec's files in sysctl.d go (sysctl.d(5)).

A value that is not what those files say was set by somebody else, and stays. What other files say comes back, or else
the kernel's default. Keys are paths below /proc/sys.

An interface takes over what `default` says and keeps it from its first IPv4 address on, which a mesh interface has from
meshsecd. So mesh interfaces get back what they would have taken over; of other interfaces nobody knows who set them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_DEFAULTS = {
    "net/ipv6/conf/all/forwarding": "0",
    "net/ipv4/ip_forward": "0",
    "net/ipv4/ping_group_range": "1 0",
    "net/ipv4/conf/*/send_redirects": "1",
    "net/ipv4/conf/*/accept_redirects": "1",
    "net/ipv6/conf/*/accept_redirects": "1",
    "net/ipv4/conf/*/rp_filter": "0",
    "kernel/sched_rr_timeslice_ms": "100",
    "kernel/sched_rt_period_us": "1000000",
    "kernel/sched_rt_runtime_us": "950000",
}
"""The kernel's defaults (its Documentation/networking/ip-sysctl.rst and scheduler/sched-rt-group.rst; sched(7))."""
FORWARDING = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")
"""They come first, because the kernel changes accept_redirects with the first one."""
_KERNEL = "the kernel's default"
_INHERITED = "/conf/default/"
_SWAPPED = str.maketrans("./", "/.")
_PATTERN = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Change:
    """A sysctl that gets its value back."""

    key: str
    before: str
    after: str
    source: str
    """Who says so: a file, or the kernel."""


Values = Mapping[str, str | None]
"""Values by key or pattern, in the order of the file. None: patterns do not concern the key."""


def assignments(text: str) -> Values:
    """Return what a file of sysctl.d says. Lines that systemd-sysctl ignores are left out."""
    found: dict[str, str | None] = {}
    for line in map(str.strip, text.splitlines()):
        name, is_value, value = line.partition("=")
        key = path_of(name.strip().removeprefix("-").strip())
        if line[:1] in ("", "#", ";") or not (is_value or name.startswith("-")):
            continue
        found.pop(key, None)
        found[key] = normal(value) if is_value else None
    return found


def path_of(key: str) -> str:
    """Return a key as a path below /proc/sys. The first separator says whether dots or slashes separate."""
    first = re.search(r"[./]", key)
    return key.translate(_SWAPPED) if first and first[0] == "." else key


def normal(value: str) -> str:
    """Return a value with single spaces between its numbers, where /proc/sys has tabulators."""
    return " ".join(value.split())


def keys(own: Iterable[str], interfaces: Collection[str]) -> frozenset[str]:
    """Return the keys and patterns that meshsec's files concern, with those of mesh interfaces."""
    found = {key for text in own for key in assignments(text)}
    return frozenset(found | {key.replace(_INHERITED, f"/conf/{name}/") for key in found for name in interfaces})


def changes(
    own: Iterable[str], others: Mapping[str, str], present: Mapping[str, str], interfaces: Collection[str] = ()
) -> tuple[Change, ...]:
    """Return what comes back.

    ``own`` are the texts of meshsec's files, ``others`` those of all others by name and in their order. ``present`` are
    the values of ``keys``, ``interfaces`` are the mesh interfaces.
    """
    ours = _merged(("", text) for text in own)
    theirs = _merged(others.items())
    found = (_change(_names(key, interfaces), value, ours, theirs) for key, value in present.items())
    return tuple(sorted(filter(None, found), key=lambda one: (one.key not in FORWARDING, one.key)))


_Merged = Mapping[str, tuple[str | None, str]]


def _merged(texts: Iterable[tuple[str, str]]) -> _Merged:
    merged: dict[str, tuple[str | None, str]] = {}
    for source, text in texts:
        for key, value in assignments(text).items():
            merged.pop(key, None)
            merged[key] = (value, source)
    return merged


def _names(key: str, interfaces: Collection[str]) -> tuple[str, ...]:
    """Return a key, and behind it the one from which a mesh interface takes over its value."""
    inherited = (key.replace(f"/conf/{name}/", _INHERITED) for name in interfaces)
    return (key, *(one for one in inherited if one != key))


def _change(names: Sequence[str], before: str, ours: _Merged, theirs: _Merged) -> Change | None:
    set_by_us = _first(names, ours)
    if set_by_us is None or set_by_us[0] != before:
        return None
    key = names[0]
    back = _first(names, theirs) or next(
        ((value, _KERNEL) for one, value in _DEFAULTS.items() if _fits(key, one)), None
    )
    if back is None or back[0] == before:
        return None
    return Change(key, before, *back)


def _first(names: Iterable[str], merged: _Merged) -> tuple[str, str] | None:
    return next(filter(None, (_value(one, merged) for one in names)), None)


def _value(key: str, merged: _Merged) -> tuple[str, str] | None:
    """Return the value that these files give a key, and which file does. A key by its name ranks above patterns."""
    last = merged.get(key) or next(iter(reversed([*_by_pattern(key, merged)])), None)
    return (last[0], last[1]) if last and last[0] is not None else None


def _by_pattern(key: str, merged: _Merged) -> Iterator[tuple[str | None, str]]:
    return (value for pattern, value in merged.items() if _PATTERN.search(pattern) and _fits(key, pattern))


def _fits(key: str, pattern: str) -> bool:
    """Return whether a key matches. No wildcard matches a slash (glob(7))."""
    parts, patterns = key.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
