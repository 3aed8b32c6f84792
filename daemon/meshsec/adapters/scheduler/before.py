"""The state before our changes: written to the journal before each change, and restored from it."""

import logging
import os
from pathlib import Path

from meshsec.adapters.scheduler import groups, journal, threads
from meshsec.adapters.scheduler.journal import JournalError, Original, Record, Value
from meshsec.adapters.scheduler.threads import Thread, ThreadGoneError, ThreadRefusedError

_log = logging.getLogger(__name__)


class Before:
    """What one journal records. Two instances must not share it."""

    def __init__(self, path: Path) -> None:
        """Read the journal ``path``, which a crashed predecessor may have left."""
        self._path = path
        self._record = Record()
        self._unsaved = False
        """Whether writing the journal failed. Then nothing may be changed until it is written."""
        try:
            self._record = journal.load(path)
        except JournalError as error:
            _log.warning("%s; classes that a predecessor set stay as they are", error)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be restored."""
        return not self._record

    def services(self) -> set[str]:
        """Return the services of which something was changed."""
        threads_ = {was.service for was in self._record.threads.values()}
        return threads_ | {was.service for was in self._record.values.values()}

    def of(self, thread: Thread) -> Original | None:
        """Return what a thread had; None if it was not written down."""
        return self._record.threads.get(thread)

    def write_down(self, service: str, pid: int, found: set[Thread]) -> None:
        """Record threads that were not changed yet. Raises JournalError."""
        fresh = [thread for thread in found if thread not in self._record.threads]
        if not fresh and not self._unsaved:
            return
        leader = self._original_of_leader(pid)
        for thread in sorted(fresh, key=lambda one: one.tid != pid):
            try:
                now = threads.read(thread)
            except (ThreadGoneError, ThreadRefusedError):
                continue
            # A thread that a raised thread started has the default class; without the raise it would have its process's
            # class.
            attributes = leader.attributes if leader and now.is_untouched else now
            self._record.threads[thread] = Original(service, pid, attributes)
        self.save()

    def _original_of_leader(self, pid: int) -> Original | None:
        return next((was for thread, was in self._record.threads.items() if pid and thread.tid == pid), None)

    def add_processors(self, thread: Thread, cpus: set[int]) -> None:
        """Remember the processors that a thread had first. ``save`` writes them."""
        was = self._record.threads[thread]
        if not was.cpus:
            self._record.threads[thread] = Original(was.service, was.pid, was.attributes, tuple(sorted(cpus)))

    def write_down_value(self, path: Path, value: Value) -> None:
        """Record the content that a group's file had first. Raises JournalError."""
        if self._unsaved or str(path) not in self._record.values:
            self._record.values.setdefault(str(path), value)
            self.save()

    def restore(self, service: str) -> list[str]:
        """Restore one service and return what failed; that stays recorded. ``save`` writes what is left."""
        return [*self._restore_threads(service), *self._restore_values(service)]

    def _restore_threads(self, service: str) -> list[str]:
        problems = []
        self._adopt_the_unrecorded(service)
        for thread, was in [*self._record.threads.items()]:
            if was.service != service:
                continue
            try:
                if threads.thread(thread.tid) == thread:  # the number may be reused
                    if was.cpus:
                        os.sched_setaffinity(thread.tid, was.cpus)
                    if threads.read(thread) != was.attributes:
                        threads.write(thread, was.attributes)
            except (ThreadGoneError, ProcessLookupError):
                pass
            except (ThreadRefusedError, OSError) as error:
                problems.append(f"{service}: thread {thread.tid} cannot be set back: {error}")
                continue
            del self._record.threads[thread]
        return problems

    def _adopt_the_unrecorded(self, service: str) -> None:
        """Restore threads that started after the last rescan: they have no privileges, but perhaps changed
        processors.
        """
        processes = {was.pid for was in self._record.threads.values() if was.service == service and was.pid}
        for pid in processes:
            leader = next((one for one in self._record.threads if one.tid == pid), None)
            if leader and threads.thread(pid) == leader:
                self.write_down(service, pid, threads.threads_of(pid))

    def _restore_values(self, service: str) -> list[str]:
        problems = []
        for path, was in [*self._record.values.items()]:
            if was.service != service:
                continue
            try:
                if threads.thread(was.owner.tid) == was.owner and groups.text_of(Path(path)) != was.text:
                    groups.write_back(Path(path), was.text)
            except FileNotFoundError:
                pass  # the group has gone with its service
            except OSError as error:
                problems.append(f"{service}: {path} cannot be set back: {error.strerror}")
                continue
            del self._record.values[path]
        return problems

    def forget_the_dead(self) -> None:
        """Forget threads and services that have ended. Raises JournalError."""
        gone = [thread for thread in self._record.threads if threads.thread(thread.tid) != thread]
        stale = [path for path, was in self._record.values.items() if threads.thread(was.owner.tid) != was.owner]
        for thread in gone:
            del self._record.threads[thread]
        for path in stale:
            del self._record.values[path]
        if gone or stale:
            self.save()

    def save(self) -> None:
        """Write the journal. Raises JournalError."""
        self._unsaved = True
        journal.save(self._path, self._record)
        self._unsaved = False
