"""Walks a guide as its reader does: types each command where its prompt says, and compares what comes out.

In a console block a line ``NAME# COMMAND`` is typed at that node as root (``all``: at each, ``a, b``: at both), and
``you$ COMMAND`` on the reader's own computer. Lines up to the next prompt are what must be printed: blanks count as
one, ``...`` is anything, and the order is free. Only what a reader must put in differs: the mesh interface, cards,
words, and apt's question. ``WORDS OF NAME`` is for each other node once.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import NotInTimeError, wait_until
from tests.lab.machines.fleet import Fleet

_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^([a-z]+(?:, [a-z]+)*)(?:#|(?<=you)\$) (.*)$")
_HEADING = re.compile(r"^## (?:\d+\. )?(.*)$", re.MULTILINE)
_CARD = re.compile(r"'CARD OF ([A-Z]+)'")
_WORDS = re.compile(r"WORDS OF ([A-Z]+)")
_FLEET = "meshsec-fleet1:..."
"""Stands in a guide for the card of the fleet that it has made."""
PATIENCE = 90.0
"""Seconds for what a command shows to become what the guide shows: routes and channels take some."""


@dataclass(frozen=True)
class Step:
    """One command of a guide."""

    where: tuple[str, ...]
    command: str
    expected: tuple[str, ...]


def steps(text: str, skipped: Sequence[str] = ()) -> Iterator[Step]:
    """Yield the commands of a guide in order, without those below the headings ``skipped``."""
    for heading, section in _sections(text):
        if heading not in skipped:
            for block in _BLOCK.findall(section):
                yield from _steps(block.splitlines())


def _sections(text: str) -> Iterator[tuple[str, str]]:
    found = [*_HEADING.finditer(text)]
    for one, after in zip(found, [*(each.start() for each in found[1:]), len(text)], strict=True):
        yield one[1], text[one.end() : after]


def _steps(lines: Sequence[str]) -> Iterator[Step]:
    at = 0
    while at < len(lines):
        prompt = _PROMPT.match(lines[at])
        at += 1
        if prompt is None:  # a drawing
            continue
        command = [prompt[2]]
        if prompt[2].endswith("<<'END'"):
            end = lines.index("END", at)
            command += lines[at : end + 1]
            at = end + 1
        expected = []
        while at < len(lines) and not _PROMPT.match(lines[at]):
            expected.append(lines[at])
            at += 1
        yield Step(tuple(prompt[1].split(", ")), "\n".join(command), tuple(expected))


def missing(expected: Sequence[str], output: str) -> list[str]:
    """Return the expected lines that are not in the output."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    patterns = {line: ".*".join(map(re.escape, " ".join(line.split()).split("..."))) for line in expected}
    return [line for line, form in patterns.items() if not any(re.fullmatch(form, found) for found in printed)]


@dataclass(frozen=True)
class Typed:
    """A line that was typed."""

    command: str
    """As the guide prints it."""
    node: str
    characters: int
    """Of the command as it is typed there, with cards and words."""
    seconds: float
    """Until it has ended, and has printed what the guide shows."""


@dataclass
class Walk:
    """A fleet whose nodes have the names of a guide."""

    fleet: Fleet
    names: Mapping[str, str]
    """The guide's names, and those of the fleet's nodes."""
    replaced: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Words of a guide that are others here, by node."""
    faults: list[str] = field(default_factory=list)
    """What a command did not print."""
    fleet_card: str = _FLEET
    """The card of the fleet that was made last."""
    patience: float = PATIENCE
    """Seconds for what a command shows to become what the guide shows."""
    at_home: Callable[[str], None] = print
    """Types a command on the reader's own computer."""
    typed: list[Typed] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)
    """What a command of the guide has printed last."""

    def walk(self, guide: str, skipped: Sequence[str], before: Mapping[str, Callable[[], None]]) -> None:
        """Type all commands of docs/guide/GUIDE. ``before`` does what people do before commands that begin so."""
        began = time.monotonic()
        for step in steps((REPOSITORY / "docs/guide" / guide).read_text(encoding="utf-8"), skipped):
            for prefix, happens in before.items():
                if f"{step.where[0]}# {step.command}".startswith(prefix):
                    happens()
            for name, one in self._each(step):
                print(f"{name}: {one.command}")
                self._type_in_time(name, one, step.command)
        print(f"{guide}: {time.monotonic() - began:.0f} s")
        assert not self.faults, "\n".join(self.faults)

    def _each(self, step: Step) -> Iterator[tuple[str, Step]]:
        """Yield where a command is typed, and what: with the node's name, and once for each whose words it needs."""
        for where in self.names if step.where == ("all",) else step.where:
            others = [one for one in self.names if one != where]
            for name in others if "OF NAME" in step.command else (where,):
                command = step.command.replace("OF NAME", f"OF {name.upper()}").replace("NAME", name)
                replaced = self.replaced.get(where, {})
                expected = (_replaced(line.replace("NAME", name), replaced) for line in step.expected)
                yield where, Step((where,), command, tuple(expected))

    def _type_in_time(self, name: str, step: Step, printed: str) -> None:
        if name == "you":
            self.at_home(step.command)
            self.typed.append(Typed(printed, name, len(step.command), 0.0))
            return
        characters = len(self._put_in(name, step.command))
        began = time.monotonic()
        self._type(name, step)
        self.typed.append(Typed(printed, name, characters, time.monotonic() - began))

    def _type(self, name: str, step: Step) -> None:
        if not step.expected:
            self.say(name, step.command)
            return
        shown = ""

        def as_the_guide_says() -> bool:
            nonlocal shown
            shown = self.say(name, step.command)
            return not missing(step.expected, shown)

        if _is_reading(step.command):
            with suppress(NotInTimeError):
                wait_until(f"{name}: {step.command}", as_the_guide_says, [], self.patience)
        else:
            as_the_guide_says()
        print(shown)
        self.shown[step.command] = shown
        if lacking := missing(step.expected, shown):
            self.faults.append(f"{name}: {step.command}: no {lacking} in\n{shown}")

    def say(self, name: str, command: str) -> str:
        """Run a command at a node, and return what it prints. Exit status 3 is a warning."""
        command = (
            self._put_in(name, command)
            .replace("apt install", "apt-get -q -y install")
            .replace("apt update", "apt-get -q update")
        )
        typed = f"export DEBIAN_FRONTEND=noninteractive\n{command}"
        done = self.fleet.ssh(self.names[name], typed, check=False)
        assert done.returncode in (0, 3), f"{name}: {command}: {done.stdout}{done.stderr}"
        if made := re.search(r"^fleet +(\S+)$", done.stdout, re.MULTILINE):
            self.fleet_card = made[1]
        return done.stdout

    def _put_in(self, name: str, command: str) -> str:
        """Return a command with what a reader puts in."""
        command = _CARD.sub(lambda found: self._own("card", found[1].lower()), command)
        command = _WORDS.sub(lambda found: self._own("words", found[1].lower()), command)
        return _replaced(command.replace(_FLEET, self.fleet_card), self.replaced.get(name, {}))

    def _own(self, what: str, name: str) -> str:
        """Return what a node says of itself: its card or its six words."""
        found = re.search(rf"^{what} +(.+)$", self.say(name, "meshsec key show --networks"), re.MULTILINE)
        assert found is not None
        return found[1]


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, own in words.items():
        text = text.replace(word, own)
    return text


def _is_reading(command: str) -> bool:
    reading = ("status", "gateway status", "clients", "explain", "peer list", "fleet requests", "doctor")
    return any(command == f"meshsec {one}" or command.startswith(f"meshsec {one} ") for one in reading)
