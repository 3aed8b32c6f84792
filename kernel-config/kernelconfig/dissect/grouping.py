"""Which subsystem of the kernel each needed symbol belongs to, and which options give it. Pure; the rules are data."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache

from kernelconfig.dissect.module import Module

KERNEL = "vmlinux"
"""The provider that is the kernel itself."""
UNKNOWN = "unknown"
"""The provider of a symbol that neither the kernel nor one of its modules exports."""
UNRESOLVED = ""
"""The provider of a symbol when the kernel is not at hand."""
OTHER = "other"
"""The subsystem of symbols that no rule fits."""


@dataclass(frozen=True)
class Subsystem:
    """One rule."""

    name: str
    what: str
    providers: tuple[str, ...]
    """Patterns of modules that are the subsystem."""
    symbols: tuple[str, ...]
    """Patterns of symbols that the kernel itself provides."""
    options: tuple[str, ...]
    """Options of the kernel's configuration, without CONFIG_."""


@dataclass(frozen=True)
class Rules:
    """All rules, in their order."""

    subsystems: tuple[Subsystem, ...]
    modules: Mapping[str, tuple[str, ...]]
    """The options that build a module."""

    def subsystem(self, symbol: str, provider: str) -> str:
        """Return the name of the subsystem that a symbol belongs to."""
        if provider not in (KERNEL, UNRESOLVED, UNKNOWN):
            return next(
                (rule.name for rule in self.subsystems if _fits(provider, rule.providers)), f"module {provider}"
            )
        return next((rule.name for rule in self.subsystems if _fits(symbol, rule.symbols)), OTHER)

    def order(self, name: str) -> int:
        """Return where a subsystem is among the rules; others are last."""
        names = [rule.name for rule in self.subsystems]
        return names.index(name) if name in names else len(names) + (name == OTHER)


@dataclass(frozen=True)
class Needed:
    """A symbol that a module needs."""

    subsystem: str
    symbol: str
    provider: str
    references: int
    """How often the module's code and data refer to it."""


def parse(text: str) -> Rules:
    """Return the rules of subsystems.toml."""
    content = tomllib.loads(text)
    subsystems = tuple(
        Subsystem(
            rule["name"], rule["what"], *(tuple(rule.get(key, ())) for key in ("providers", "symbols", "options"))
        )
        for rule in content["subsystem"]
    )
    return Rules(subsystems, {name: tuple(options) for name, options in content["modules"].items()})


def needed(module: Module, providers: Mapping[str, str], rules: Rules) -> tuple[Needed, ...]:
    """Return what a module needs, in the rules' order. ``providers`` has the provider of each symbol that is known."""
    found = (
        Needed(rules.subsystem(symbol, provider), symbol, provider, references)
        for symbol, references in module.undefined.items()
        for provider in [providers.get(symbol, UNRESOLVED)]
    )
    return tuple(sorted(found, key=lambda need: (rules.order(need.subsystem), need.subsystem, need.symbol)))


def counts(needs: Iterable[Needed]) -> dict[str, int]:
    """Return the number of symbols of each subsystem, in the order of the needs."""
    found: dict[str, int] = {}
    for need in needs:
        found[need.subsystem] = found.get(need.subsystem, 0) + 1
    return found


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and _compiled(patterns).match(name) is not None


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for all patterns of a rule."""
    return re.compile("|".join(map(translate, patterns)))
