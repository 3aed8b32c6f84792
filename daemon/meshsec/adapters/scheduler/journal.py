"""Record the state before the first change, so that it can be restored, also by a successor after a crash."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from meshsec import files
from meshsec.adapters.scheduler.threads import Attributes, Thread

_LIMIT = 1 << 20
"""Limit in bytes: some thousand threads."""
_MODE = 0o600
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class JournalError(Exception):
    """A journal that cannot be read or written. The message names it and says why."""


@dataclass(frozen=True, slots=True)
class Original:
    """A thread before the change."""

    service: str
    pid: int
    """The process of the thread."""
    attributes: Attributes
    cpus: tuple[int, ...] = ()
    """The processors that it could use; empty if they were not changed."""


@dataclass(frozen=True, slots=True)
class Value:
    """A file before the change."""

    service: str
    text: str
    owner: Thread
    """The process that the file is about. When it has ended, nothing is restored."""


@dataclass(slots=True)
class Record:
    """All changed threads and files, as they were before."""

    threads: dict[Thread, Original] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    """Files of control groups and autogroups, by path."""

    def __bool__(self) -> bool:
        return bool(self.threads or self.values)


def load(path: Path) -> Record:
    """Return a predecessor's record; empty if there is none or it is from an earlier boot. Raises JournalError."""
    try:
        if not files.exists(path):
            return Record()
        document = json.loads(files.read(path, _LIMIT))
        if document["boot"] != _boot():
            return Record()
        return _decoded(document)
    except files.FileError as error:
        raise JournalError(str(error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path}: is no journal of scheduling classes: {error!r}") from None


def save(path: Path, record: Record) -> None:
    """Write the journal, or remove it if there are no entries. Raises JournalError."""
    try:
        if record:
            files.write(path, json.dumps(_encoded(record)).encode(), _MODE)
        elif files.exists(path):
            files.remove(path)
    except files.FileError as error:
        raise JournalError(str(error)) from None


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _encoded(record: Record) -> Mapping[str, Any]:
    threads = [
        {**asdict(thread), "service": was.service, "pid": was.pid, "cpus": was.cpus, **asdict(was.attributes)}
        for thread, was in record.threads.items()
    ]
    values = [
        {"path": path, "service": was.service, "text": was.text, **asdict(was.owner)}
        for path, was in record.values.items()
    ]
    return {"boot": _boot(), "threads": threads, "values": values}


def _decoded(document: Mapping[str, Any]) -> Record:
    record = Record()
    for entry in document["threads"]:
        numbers = {name: int(entry[name]) for name in Attributes.__dataclass_fields__}
        cpus = tuple(int(cpu) for cpu in entry["cpus"])
        original = Original(str(entry["service"]), int(entry["pid"]), Attributes(**numbers), cpus)
        record.threads[_thread(entry)] = original
    for entry in document["values"]:
        record.values[str(entry["path"])] = Value(str(entry["service"]), str(entry["text"]), _thread(entry))
    return record


def _thread(entry: Mapping[str, Any]) -> Thread:
    return Thread(int(entry["tid"]), int(entry["start"]))
