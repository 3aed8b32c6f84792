"""What the kernel's configuration must have for a driver, compared with what this project's files set. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelconfig.dissect.grouping import Needed, Rules
from kernelconfig.fragments import Setting
from kernelconfig.syntax import Configuration

ON, OFF, LEFT = "on", "off", "left"
"""What the project's files do with an option: set it, leave it out, or leave Debian's value."""


@dataclass(frozen=True)
class Project:
    """What options are compared with."""

    rules: Rules
    settings: Mapping[str, Setting]
    """What this project's files set, by symbol."""
    configuration: Configuration | None
    """The configuration that is to run the driver, if one was named."""


@dataclass(frozen=True)
class Option:
    """One option that a driver needs."""

    symbol: str
    """Without CONFIG_."""
    needed_for: tuple[str, ...]
    """The modules and subsystems that need it."""
    state: str
    """``on``, ``off`` or ``left``."""
    where: str
    """File and line that set it; empty when it is left."""
    found: str
    """Its value in the configuration that was named; empty when none was."""
    is_direct: bool
    """Whether the driver itself needs it. Else a module below needs it as it is built here, and may be built without.
    """

    @property
    def is_missing(self) -> bool:
        """Return whether the driver lacks it: in the named configuration, or else in our own kernel."""
        return self.is_direct and (self.found == "n" if self.found else self.state == OFF)


def compare(module: str, below: Iterable[str], needs: Iterable[Needed], project: Project) -> tuple[Option, ...]:
    """Return the options that a driver needs: of itself, of the modules below it, and of subsystems."""
    rules = project.rules
    direct = {module} | {name for need in needs for name in (need.provider, need.subsystem)}
    users = [(name, rules.modules.get(name, ())) for name in dict.fromkeys([module, *below])]
    users += [(rule.name, rule.options) for rule in rules.subsystems if rule.name in direct]
    wanted: dict[str, dict[str, None]] = {}
    for user, symbols in users:
        for symbol in symbols:
            wanted.setdefault(symbol, {})[user] = None
    return tuple(
        _option(symbol, tuple(names), project, is_direct=not direct.isdisjoint(names))
        for symbol, names in wanted.items()
    )


def _option(symbol: str, users: tuple[str, ...], project: Project, *, is_direct: bool) -> Option:
    setting = project.settings.get(symbol)
    found = project.configuration.value(symbol) if project.configuration else ""
    if setting is None:
        return Option(symbol, users, LEFT, "", found, is_direct)
    state = OFF if setting.value == "n" else ON
    return Option(symbol, users, state, f"{setting.fragment}:{setting.line}", found, is_direct)
