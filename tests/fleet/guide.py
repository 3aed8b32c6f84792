"""Walks a guide as its reader does: types each command where its prompt says, and compares what comes out.

In a console block a line ``NAME# COMMAND`` is typed at that node as root (``all``: at each, ``a, b``: at both), a line
``NAME$ COMMAND`` elsewhere. Lines up to the next prompt are what must be printed: blanks count as one, ``...`` is
anything, and the order is free. Only what a reader must put in differs: the mesh interface, cards, and apt's question.
"""

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import NotInTimeError, wait_until
from tests.lab.machines.fleet import Fleet

_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^([a-z]+(?:, [a-z]+)*)([#$]) (.*)$")
_HEADING = re.compile(r"^## (?:\d+\. )?(.*)$", re.MULTILINE)
_CARD = re.compile(r"'CARD OF ([A-Z]+)'")
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
        command = [prompt[3]]
        if prompt[3].endswith("<<'END'"):
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


@dataclass
class Walk:
    """A fleet whose nodes have the names of a guide, and the computer of its operator."""

    fleet: Fleet
    names: Mapping[str, str]
    """The guide's names, and those of the fleet's nodes."""
    office: Path
    """The home of the operator."""
    replaced: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Words of a guide that are others here, by node."""
    faults: list[str] = field(default_factory=list)
    """What a command did not print."""

    def walk(self, guide: str, skipped: Sequence[str], before: Mapping[str, Callable[[], None]]) -> None:
        """Type all commands of docs/guide/GUIDE. ``before`` does what people do before commands that begin so."""
        began = time.monotonic()
        for step in steps((REPOSITORY / "docs/guide" / guide).read_text(encoding="utf-8"), skipped):
            for prefix, happens in before.items():
                if f"{step.where[0]}# {step.command}".startswith(prefix):
                    happens()
            for name in self.names if step.where == ("all",) else step.where:
                print(f"{name}: {step.command}")
                self._type(name, step)
        print(f"{guide}: {time.monotonic() - began:.0f} s")
        assert not self.faults, "\n".join(self.faults)

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
                wait_until(f"{name}: {step.command}", as_the_guide_says, [], PATIENCE)
        else:
            as_the_guide_says()
        print(shown)
        if lacking := missing(step.expected, shown):
            self.faults.append(f"{name}: {step.command}: no {lacking} in\n{shown}")

    def say(self, name: str, command: str) -> str:
        """Run a command at a node or in the office, and return what it prints. Exit status 3 is a warning."""
        command = _CARD.sub(lambda found: self._card(found[1].lower()), command)
        if name not in self.names:
            return self._office(command)
        for word, own in self.replaced.get(name, {}).items():
            command = command.replace(word, own)
        command = command.replace("apt install", "apt-get -q -y install").replace("apt update", "apt-get -q update")
        typed = f"export DEBIAN_FRONTEND=noninteractive\n{command}"
        done = self.fleet.ssh(self.names[name], typed, check=False)
        assert done.returncode in (0, 3), f"{name}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _card(self, name: str) -> str:
        found = re.search(r"^card +(\S+)$", self.say(name, "meshsec key show --networks"), re.MULTILINE)
        assert found is not None
        return found[1]

    def _office(self, command: str) -> str:
        if command.startswith("scp "):
            *files, target = shlex.split(command)[1:]
            node = self.fleet.nodes[self.names[target.removeprefix("root@").removesuffix(":")]]
            for file in files:
                path = self.office / file.removeprefix("~/")
                node.write(f"/root/{path.name}", path.read_text(encoding="ascii"))
            return ""
        programs = f"{REPOSITORY}/.venv/bin:/usr/bin:/bin"
        script = f"cd {self.office}; export HOME={self.office} PATH={programs}; {command}"
        return shell.run(["sh", "-ec", script]).stdout


def _is_reading(command: str) -> bool:
    reading = ("status", "gateway status", "clients", "explain", "peer list", "doctor")
    return any(command == f"meshsec {one}" or command.startswith(f"meshsec {one} ") for one in reading)
