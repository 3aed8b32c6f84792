"""A model of olsrd2's configuration with the traps of version 0.15.1. It fails a test that steps into one."""

import asyncio
import json
import re
from collections.abc import Iterable
from copy import deepcopy

_SET = re.compile(r"config set (olsrv2(?:_lan)?)(?:\[(\S+)\])?\.(\w+)=(\S+)")
_GET = re.compile(r"config (get|query) (olsrv2(?:_lan)?)(?:\[(\S+)\])?\.(\w*)")
_DEFAULT_ACL = ["-fe80::/10", "-::1", "default_accept"]
_DEFAULTS = {"metric": "2", "distance": "1"}
_RANGES = {"metric": range(1, 16_776_961), "distance": range(1, 256)}

Lans = dict[str, dict[str, str]]


class Program:
    """What was set (``lans``, ``acl``), and what was committed."""

    def __init__(self, lans: Lans | None = None, acl: Iterable[str] = ()) -> None:
        self.lans = deepcopy(lans or {})
        self.acl = [*acl]
        self.uptime = 100.0
        self.committed = deepcopy(self.lans)
        self.commits = 0
        self.changed = asyncio.Event()
        """Something was committed."""
        self.complaint = ""

    def run(self, lines: Iterable[str]) -> str:
        """Return the answers to the commands of one session."""
        return "".join(self.execute(line) for line in lines if line != "quit")

    def execute(self, line: str) -> str:
        """Return the answer to one command."""
        assert not line.startswith("config rollback"), "no commit succeeds any more"
        if line == "config commit":
            return self._commit()
        if found := _SET.fullmatch(line):
            return self._set(*found.groups()) + "\n"
        if found := _GET.fullmatch(line):
            return self._get(*found.groups()) + "\n"
        if line.startswith("config remove olsrv2_lan"):
            self.lans.clear()  # all, whichever was named
            return "\n"
        assert line in {"olsrv2info json lan", "systeminfo json time"}, line
        return json.dumps(self._shown() if "lan" in line else {"time": [{"time_internal": str(self.uptime)}]}) + "\n"

    def announced(self) -> dict[str, tuple[int, int]]:
        """Return metric and distance of what is announced, by prefix."""
        return {one["prefix"]: (int(one["metric"]), int(one["distance"])) for one in self._complete()}

    def _complete(self) -> Iterable[dict[str, str]]:
        return [{**_DEFAULTS, **one} for one in self.committed.values()]

    def _shown(self) -> dict[str, list[dict[str, object]]]:
        return {
            "lan": [
                {"lan": prefix, "domain_metric_out_raw": metric, "domain_distance": distance}
                for prefix, (metric, distance) in self.announced().items()
            ]
        }

    def _commit(self) -> str:
        for one in self.lans.values():
            assert "prefix" in one, "a section without its prefix is refused"
            assert all(int(one[key]) in allowed for key, allowed in _RANGES.items() if key in one), "it would end"
        self.committed, self.commits = deepcopy(self.lans), self.commits + 1
        self.changed.set()
        return self.complaint + "\n"

    def _set(self, kind: str, name: str | None, key: str, value: str) -> str:
        if kind == "olsrv2":
            assert key == "routable_acl"
            self.acl.append(value)
        else:
            assert name
            self.lans.setdefault(name, {})[key] = value
        return ""

    def _get(self, how: str, kind: str, name: str | None, key: str) -> str:
        if kind == "olsrv2":
            found = self.acl or (_DEFAULT_ACL if how == "query" else [])
            return _shown_key("olsrv2.routable_acl", found)
        if name is None:
            lines = ["Named sections in section type: olsrv2_lan", *self.lans, ""]
            return "\n".join(lines) if self.lans else "Cannot find data for section type: olsrv2_lan."
        value = self.lans.get(name, {}).get(key)
        return _shown_key(f"olsrv2_lan[{name}].{key}", [value] if value else [])


def _shown_key(path: str, values: list[str]) -> str:
    if not values:
        return f"Cannot find data for entry: '{path}'.\nCommand returned an error"
    return "\n".join([f"Key '{path}' has value:", *values, ""])
