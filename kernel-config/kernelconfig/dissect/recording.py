"""Which functions of modules ran while a command ran, as `kernelconfig ran` writes it down. Pure."""

import json
from dataclasses import asdict, dataclass

VERSION = 1


class RecordingError(Exception):
    """A text is no recording. The message says what was found and what is allowed."""


@dataclass(frozen=True)
class Run:
    """What one module did while the command ran."""

    module: str
    traceable: tuple[str, ...]
    """Functions that the tracer can see: those that the compiler inlined or marked ``notrace`` are not there."""
    ran: tuple[str, ...]


@dataclass(frozen=True)
class Recording:
    """What all modules did."""

    kernel: str
    """Release of the kernel that ran."""
    command: tuple[str, ...]
    status: int
    """The command's exit status."""
    lost: int
    """Events that the buffer had no room for. With some lost, a function that is not listed may have run."""
    runs: tuple[Run, ...]

    def of(self, module: str) -> Run | None:
        """Return what one module did; None when it was not followed."""
        return next((run for run in self.runs if run.module == module), None)


def as_json(recording: Recording) -> str:
    """Return the text that ``parse`` reads."""
    return json.dumps({"version": VERSION, **asdict(recording)}, indent=1) + "\n"


def parse(text: str) -> Recording:
    """Return a recording. Raises RecordingError."""
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            raise RecordingError(f"has version {content['version']!r}, allowed is {VERSION}")
        runs = tuple(Run(str(run["module"]), _names(run["traceable"]), _names(run["ran"])) for run in content["runs"])
        command, status, lost = _names(content["command"]), int(content["status"]), int(content["lost"])
        return Recording(str(content["kernel"]), command, status, lost, runs)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordingError(
            f"is no recording ({error!r}); allowed is what this writes: python -m kernelconfig ran MODULE -- COMMAND"
        ) from error


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{str(value)[:40]!r} is no list of names")
    return tuple(value)
