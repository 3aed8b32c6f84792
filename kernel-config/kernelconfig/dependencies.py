"""Why a symbol did not take: what its Kconfig entry depends on and is not there, or what selects it. Pure.

Reads the text of Kconfig files (Documentation/kbuild/kconfig-language.rst), one file at a time: a condition around the
`source` line in another file is not seen, and a macro $(...) or a comparison of sizes counts as fulfilled. When nothing
is found, nothing is reported.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kernelconfig.syntax import Configuration

_KEYWORD = re.compile(r"(config|menuconfig|choice|menu|if|endif|endmenu|endchoice|source|comment)\b\s*([^#]*)")
_PROPERTY = re.compile(r"\s+(depends on|select|help)\b\s*([^#]*)")
_TOKEN = re.compile(r'\s*(\$\(.*?\)|"[^"]*"|&&|\|\||!=|<=|>=|[!=()<>]|[\w.-]+)')
_LEVELS = {"n": 0, "m": 1, "y": 2}


@dataclass
class Entry:
    """One definition of a symbol, or a block around definitions (without symbol)."""

    symbol: str
    depends: list[str] = field(default_factory=list)
    """Expressions that must all hold, with those of the blocks around it in the same file."""
    selects: list[str] = field(default_factory=list)
    """Symbols that it forces; an `if` behind them is not read."""


def entries(text: str) -> list[Entry]:
    """Return the definitions of symbols in a Kconfig file."""
    found: list[Entry] = []
    blocks: list[Entry] = []
    current: Entry | None = None
    for line in text.replace("\\\n", " ").splitlines():
        if keyword := _KEYWORD.match(line):
            current = _enter(keyword[1], keyword[2].strip(), blocks)
            if current and current.symbol:
                found.append(current)
        elif current and (read := _PROPERTY.match(line)):
            current = _extend(current, read[1], read[2].strip())
    return found


def unmet(symbol: str, definitions: Iterable[Entry], configuration: Configuration) -> list[str]:
    """Return the conditions of a symbol that this configuration does not fulfil, as the Kconfig file has them."""
    conditions = [part for entry in definitions if entry.symbol == symbol for part in _parts(entry.depends)]
    return [part for part in dict.fromkeys(conditions) if _level(part, configuration) == 0]


def selectors(symbol: str, definitions: Iterable[Entry], configuration: Configuration) -> list[str]:
    """Return the symbols that are set and select this one."""
    found = {entry.symbol for entry in definitions if symbol in entry.selects}
    return sorted(name for name in found if configuration.value(name) != "n")


def _enter(keyword: str, rest: str, blocks: list[Entry]) -> Entry | None:
    """Enter or leave a block; gives the entry whose properties follow."""
    if keyword in {"if", "menu", "choice"}:
        blocks.append(Entry("", [rest] if keyword == "if" else []))
        return blocks[-1]
    if keyword in {"endif", "endmenu", "endchoice"} and blocks:
        blocks.pop()
    if keyword in {"config", "menuconfig"}:
        return Entry(rest, [condition for block in blocks for condition in block.depends])
    return None


def _extend(entry: Entry, keyword: str, rest: str) -> Entry | None:
    """Take in a property. Help is the last one of an entry, and its text may look like properties."""
    if keyword == "help":
        return None
    if keyword == "select":
        entry.selects.extend(rest.split()[:1])
    else:
        entry.depends.append(rest)
    return entry


def _parts(conditions: Iterable[str]) -> Iterator[str]:
    """Return the operands of && outside of parentheses."""
    for condition in conditions:
        depth, part = 0, ""
        for word in _TOKEN.findall(condition):
            depth += {"(": 1, ")": -1}.get(word, 0)
            if word == "&&" and depth == 0:
                yield _tidy(part)
                part = ""
            else:
                part += f" {word}"
        yield _tidy(part)


def _tidy(expression: str) -> str:
    return expression.strip().replace("( ", "(").replace(" )", ")").replace("! ", "!").replace(" = ", "=")


def _level(expression: str, configuration: Configuration) -> int:
    """0 (n), 1 (m) or 2 (y), as kconfig-language.rst defines it under "Menu dependencies"."""
    return _Evaluation(_TOKEN.findall(expression), configuration).disjunction()


class _Evaluation:
    """A descent through the grammar of expressions. What cannot be read counts as y: it is not reported as unmet."""

    def __init__(self, tokens: list[str], configuration: Configuration) -> None:
        self._tokens = tokens
        self._configuration = configuration

    def disjunction(self) -> int:
        level = self._conjunction()
        while self._take("||"):
            level = max(level, self._conjunction())
        return level

    def _conjunction(self) -> int:
        level = self._operand()
        while self._take("&&"):
            level = min(level, self._operand())
        return level

    def _operand(self) -> int:
        if self._take("!"):
            return 2 - self._operand()
        if self._take("("):
            level = self.disjunction()
            self._take(")")
            return level
        return self._comparison()

    def _comparison(self) -> int:
        left = self._next()
        for operator in ("=", "!="):
            if self._take(operator):
                return 2 * ((self._value(left) == self._value(self._next())) is (operator == "="))
        if self._tokens[:1] and self._tokens[0] in {"<", ">", "<=", ">="}:
            del self._tokens[:2]
            return 2
        return 2 if left.startswith("$") else _LEVELS.get(self._value(left), 0)

    def _value(self, token: str) -> str:
        if token in _LEVELS or token.startswith('"') or token.isdecimal():
            return token
        return self._configuration.value(token)

    def _take(self, token: str) -> bool:
        if self._tokens[:1] != [token]:
            return False
        del self._tokens[0]
        return True

    def _next(self) -> str:
        return self._tokens.pop(0) if self._tokens else "y"
