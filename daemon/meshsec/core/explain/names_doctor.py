"""What doctor says of the names of nodes (ADR 0071): whether the C library finds them, and finds no others."""

import re
from collections.abc import Iterable, Sequence

from meshsec.core.explain.findings import Check, Facts, Level

UNIT = "meshsec-names.service"
_SHOWN = 4
"""Names that are named; the others are counted."""
_HOSTS_LINE = re.compile(r"^\s*hosts:([^#\n]*)", re.MULTILINE)
_READERS = ("files", "resolve")
"""Sources of nsswitch.conf that look into /etc/hosts: the C library's own, and systemd-resolved."""


def written(facts: Facts) -> list[Check]:
    """Report that meshsecd cannot say which names there are."""
    if not facts.names_problem:
        return []
    return [Check("names", Level.WARN, facts.names_problem, "make room in /run, or see the log of meshsecd")]


def applied(wanted: Sequence[str], present: Sequence[str], fix: str) -> list[Check]:
    """Compare the lines that meshsecd wants in /etc/hosts with those that are there."""
    missing = _names(set(wanted) - set(present))
    stale = _names(set(present) - set(wanted))
    problems = [f"not in /etc/hosts: {missing}"] * bool(missing) + [f"still in /etc/hosts: {stale}"] * bool(stale)
    if problems:
        return [Check("names", Level.WARN, "; ".join(problems), fix)]
    return [Check("names", Level.OK, "/etc/hosts has those of this node and its peers")]


def switched(nsswitch: str) -> list[Check]:
    """Report an nsswitch.conf(5) with which /etc/hosts is not read, or only after the DNS was asked."""
    found = _HOSTS_LINE.search(nsswitch)
    sources = re.sub(r"\[[^]]*\]", " ", found[1]).split() if found else []
    first = min((sources.index(one) for one in _READERS if one in sources), default=len(sources))
    if not sources or ("dns" not in sources[:first] and first < len(sources)):
        return []
    what = "does not name 'files'" if first == len(sources) else "has 'dns' before 'files', so others can give names"
    fix = "write 'files' before 'dns' in the line `hosts:` of /etc/nsswitch.conf"
    return [Check("name service", Level.WARN, f"/etc/nsswitch.conf: the line `hosts:` {what}", fix)]


def overruled(wanted: Iterable[str], others: str) -> list[Check]:
    """Report lines of the administrator's for names that are meshsec's."""
    ours = {line.split()[1] for line in wanted}
    theirs = {word for line in others.splitlines() for word in line.partition("#")[0].split()[1:]}
    if not (both := sorted(ours & theirs)):
        return []
    found = f"/etc/hosts has lines of its own for {', '.join(both)}, besides those of meshsec"
    return [Check("names", Level.WARN, found, "remove them: these names are those of trusted nodes")]


def _names(lines: Iterable[str]) -> str:
    names = sorted({line.split()[1] for line in lines})
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
