"""Lines of a kernel configuration, as kconfig reads and writes them (Documentation/kbuild/kconfig.rst). Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ASSIGNED = re.compile(r'CONFIG_(\w+)=(y|m|n|-?\d+|0x[0-9a-fA-F]+|"(?:[^"\\]|\\.)*")')
_UNSET = re.compile(r"# CONFIG_(\w+) is not set")
_KERNEL = re.compile(r"# Linux/(\S+) (\S+) Kernel Configuration")


class ConfigSyntaxError(Exception):
    """A line that is none of a configuration. The message names file, line, what was found and what is allowed."""


@dataclass(frozen=True)
class Configuration:
    """A kernel's configuration: the values of the symbols that are set, and what its header says."""

    values: Mapping[str, str]
    kernel: str
    """Such as "6.12.117 x86"; empty where the file does not say."""

    def value(self, symbol: str) -> str:
        """Return the symbol's value; "n" when it is not set or unknown to this kernel."""
        return self.values.get(symbol, "n")


def assignment(line: str) -> tuple[str, str] | None:
    """Symbol (without CONFIG_) and value of a line, "n" when it says "is not set"; None for any other line."""
    if found := _ASSIGNED.fullmatch(line):
        return found[1], found[2]
    if found := _UNSET.fullmatch(line):
        return found[1], "n"
    return None


def written(symbol: str, value: str) -> str:
    """Return the line that ``assignment`` reads."""
    return f"# CONFIG_{symbol} is not set" if value == "n" else f"CONFIG_{symbol}={value}"


def fault(name: str, number: int, line: str, allowed: str) -> ConfigSyntaxError:
    """Return an error about one line, which is shortened and escaped where needed."""
    return ConfigSyntaxError(f"{name}:{number}: {line[:60]!r} is not allowed here; allowed is {allowed}")


def parse(text: str, name: str) -> Configuration:
    """Return a whole configuration. As in kconfig the last assignment of a symbol counts. Raises ConfigSyntaxError."""
    values: dict[str, str] = {}
    kernel = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := assignment(line):
            values[found[0]] = found[1]
        elif header := _KERNEL.fullmatch(line):
            kernel = f"{header[2]} {header[1]}"
        elif line and not line.startswith("#"):
            raise fault(name, number, line, 'CONFIG_NAME=y|m|number|"text", a comment (#) or an empty line')
    if not values:
        raise ConfigSyntaxError(f"{name}: no line assigns a CONFIG_ symbol; this is not a kernel's configuration")
    return Configuration(values, kernel)
