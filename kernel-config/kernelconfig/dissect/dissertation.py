"""The dissertation's counts of b43 beside those of a module at hand. Pure; its values are data."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernelconfig.dissect.anatomy import Anatomy
from kernelconfig.dissect.grouping import counts
from kernelconfig.dissect.module import Code

_NAMED = ("mac80211", "cfg80211", "ssb", "bcma", "dma", "skbuff", "leds", "printing")
"""Subsystems that the dissertation's Figure 6 counts apart from the rest."""


@dataclass(frozen=True)
class Row:
    """One value of the dissertation, and ours."""

    place: str
    """The caption's number, or the section."""
    what: str
    value: int | str
    ours: int | None
    """None when it cannot be counted in a module's file, or was not."""
    why: str
    """Why they differ."""


def parse(text: str, anatomy: Anatomy, code: Code | None) -> tuple[str, tuple[Row, ...]]:
    """Return title and rows of agosto-padilla-2016.toml, with our counts."""
    content = tomllib.loads(text)
    measures = _Measures(anatomy, code, content["units"])
    rows = tuple(
        Row(row["place"], row["what"], row["value"], measures.get(row.get("measure", "")), row.get("why", ""))
        for row in content["row"]
    )
    return content["title"], rows


class _Measures:
    """What is counted, by the names that the data has for it."""

    def __init__(self, anatomy: Anatomy, code: Code | None, units: Mapping[str, list[str]]) -> None:
        self._anatomy = anatomy
        self._code = code
        self._units = units
        self._counts = counts(anatomy.needs)

    def get(self, measure: str) -> int | None:
        if not measure:
            return None
        name, _, argument = measure.partition(":")
        families: dict[str, Callable[[str], int]] = {
            "data": self._data,
            "subsystems": self._subsystems,
            "percent": self._percent,
        }
        return families[name](argument) if name in families else self._plain()[name]

    def _plain(self) -> dict[str, int | None]:
        module, code, run = self._anatomy.module, self._code, self._anatomy.run
        return {
            "functions": len(module.functions),
            "instructions": code.instructions if code else None,
            "calls": code.calls if code else None,
            "ran": len(run.ran) if run else None,
            "parameters": len(module.parameters),
            "entries": module.table.entries,
            "globals": module.table.globals,
            "global_functions": module.table.global_functions,
            "exported": len(module.exported),
            "external": module.table.globals + len(module.undefined),
            "undefined": len(module.undefined),
            "rest": len(module.undefined) - self._subsystems(" ".join(_NAMED)),
        }

    def _data(self, section: str) -> int:
        return self._anatomy.module.table.global_data.get(section, 0)

    def _subsystems(self, names: str) -> int:
        return sum(self._counts.get(name, 0) for name in names.split())

    def _percent(self, unit: str) -> int:
        functions = self._anatomy.module.functions
        fitting = sum(any(fnmatchcase(one.name, pattern) for pattern in self._units[unit]) for one in functions)
        return round(100 * fitting / len(functions)) if functions else 0
