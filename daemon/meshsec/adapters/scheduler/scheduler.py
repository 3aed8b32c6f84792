"""Set the scheduling classes of services' threads, keep them, and restore the exact state from before.

Every change is written to the journal first, with the state before it. ``rescan`` gives new threads the class of their
service. Threads and processes that a raised thread starts begin without privileges (reset-on-fork).
"""

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from meshsec.adapters.scheduler import groups, host, interrupts, journal, threads
from meshsec.adapters.scheduler.journal import JournalError, Original, Record, Value
from meshsec.adapters.scheduler.threads import Attributes, Thread, ThreadGoneError, ThreadRefusedError
from meshsec.core.scheduling.profiles import (
    BEST_WITHOUT_REALTIME,
    KERNEL_THREADS,
    NO_SUCH_THREAD,
    SERVICES,
    Applied,
    Limits,
    Placement,
    SchedulingClass,
    within,
)

_log = logging.getLogger(__name__)

_PASSES = 5
"""How often threads are listed again because new ones appeared; the next rescan finds the rest."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """The wanted scheduling of one service."""

    service: str
    pid: int
    """PID of the service; 0 for kernel threads."""
    placement: Placement
    find: Callable[[Iterable[Thread]], set[Thread]]
    """Returns the service's threads, given those that were found a moment ago."""
    main: Thread | None = None
    """The process itself, because its PID may be reused; None for kernel threads, which are never lowered."""

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, so that nothing is left to set."""
        return bool(self.pid) and (self.main is None or threads.thread(self.pid) != self.main)


@dataclass(slots=True)
class _Outcome:
    """The result, thread by thread."""

    done: set[Thread] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


class Scheduler:
    """The only code that changes classes. Two instances must not share one journal."""

    def __init__(self, path: Path) -> None:
        """Open the journal ``path``. ``restore`` undoes what it records of a crashed predecessor."""
        self._path = path
        self._record = Record()
        self._unsaved = False
        """Whether writing the journal failed. Then nothing may be changed until it is written."""
        self._wishes: dict[str, _Wish] = {}
        self._limits = host.limits()
        try:
            self._record = journal.load(path)
        except JournalError as error:
            _log.warning("%s; classes that a predecessor set stay as they are", error)

    @property
    def is_restored(self) -> bool:
        """Whether nothing is left to be restored."""
        return not self._record

    @property
    def limits(self) -> Limits:
        """Return the limits of real-time classes here, as of the last ``rescan``."""
        return self._limits

    def apply(self, service: str, pid: int, wanted: SchedulingClass) -> Applied:
        """Give all threads of a process the class, or the best one that this host allows.

        ``rescan`` gives it to later threads too. Raises ValueError for a service or process that must not be changed,
        and JournalError if the state before cannot be recorded; then nothing is changed.
        """
        return self.place(service, pid, Placement(wanted))

    def place(self, service: str, pid: int, placement: Placement) -> Applied:
        """Do the same as ``apply``, with a weight and with processors."""
        if service not in SERVICES:
            raise ValueError(f"service {service!r} is not allowed; allowed: {', '.join(SERVICES)}")
        if pid <= 1:
            raise ValueError(f"process {pid} is not allowed; allowed: a service's, above 1")
        main = threads.thread(pid)

        def find(known: Iterable[Thread]) -> set[Thread]:
            return threads.threads_of(pid, known) if main and threads.thread(pid) == main else set()

        return self._wish(_Wish(service, pid, placement, find, main))

    def place_kernel(self, kind: str, interfaces: Iterable[str], placement: Placement) -> Applied:
        """Raise the kernel threads of a kind that serve the interfaces; none is lowered. Raises ValueError,
        JournalError.
        """
        if kind not in KERNEL_THREADS:
            raise ValueError(f"kernel threads {kind!r} are not allowed; allowed: {', '.join(KERNEL_THREADS)}")
        names = tuple(interfaces)
        return self._wish(_Wish(kind, 0, placement, lambda _: interrupts.find(kind, names)))

    def rescan(self) -> list[Applied]:
        """Find new threads and those that somebody else changed, and forget ended processes. Raises JournalError."""
        self._limits = host.limits()
        self._forget_the_dead()
        found = [self._enforce(wish) for wish in self._wishes.values()]
        self._wishes = {service: wish for service, wish in self._wishes.items() if not wish.is_gone}
        return found

    def restore(self, service: str | None = None) -> list[str]:
        """Restore the state of one service or of all, and return what failed; empty if all was restored.

        What failed stays in the journal. Raises JournalError.
        """
        concerned = {service} if service else {*self._wishes, *self._services_recorded()}
        problems = []
        for one in sorted(concerned):
            self._wishes.pop(one, None)
            problems += self._restore_threads(one)
            problems += self._restore_values(one)
        self._save()
        return problems

    def _wish(self, wish: _Wish) -> Applied:
        before = self._wishes.get(wish.service)
        if before and before.pid != wish.pid:
            self.restore(wish.service)
        self._wishes[wish.service] = wish
        return self._enforce(wish)

    def _enforce(self, wish: _Wish) -> Applied:
        wanted = wish.placement.scheduling
        allowed, reason = within(wanted, self._limits) if wish.pid else (wanted, "")
        if wish.pid and allowed.is_realtime and not host.throttled():  # switched off since the last rescan
            allowed, reason = within(wanted, Limits(throttled=False))
        outcome = self._give(wish, allowed)
        if outcome.problems and allowed.is_realtime and wish.pid:
            reason = outcome.problems[0]
            allowed = BEST_WITHOUT_REALTIME
            outcome = self._give(wish, allowed)
        group, further = self._place(wish, allowed)
        problems = [reason, *outcome.problems, *further]
        problems = list(dict.fromkeys(filter(None, problems)))
        if not outcome.done and not problems:
            problems = [NO_SUCH_THREAD if not wish.pid else f"process {wish.pid} is gone"]
        in_force = allowed if outcome.done else None
        behind = wish.placement.behind if allowed.one_behind != allowed else ()
        return Applied(
            service=wish.service,
            pid=wish.pid,
            wanted=wanted,
            in_force=in_force,
            threads=len(outcome.done),
            problem="; ".join(problems),
            group=group,
            behind=tuple(sorted(thread.tid for thread in outcome.done if thread.tid in behind)),
        )

    def _give(self, wish: _Wish, wanted: SchedulingClass) -> _Outcome:
        """Set the class until no new thread appears. After the first refusal no other thread is tried."""
        outcome = _Outcome()
        for _ in range(_PASSES):
            found = wish.find(outcome.done) - outcome.done
            if not wish.pid:
                outcome.done |= {thread for thread in found if _has_at_least(thread, wanted)}
                found -= outcome.done
            self._write_down(wish, found)
            fresh = False
            for thread in found:
                try:
                    self._set(thread, wanted.one_behind if thread.tid in wish.placement.behind else wanted)
                except ThreadGoneError:
                    continue
                except ThreadRefusedError as error:
                    outcome.problems.append(f"{wanted} is refused: {error}")
                    return outcome
                outcome.done.add(thread)
                fresh = True
            if not fresh:
                break
        return outcome

    def _set(self, thread: Thread, wanted: SchedulingClass) -> None:
        original = self._record.threads.get(thread)
        if original is None:
            raise ThreadGoneError(f"thread {thread.tid}")
        asked = Attributes.of(wanted, original.attributes)
        if threads.read(thread).effective != asked.effective:
            threads.write(thread, asked)

    def _write_down(self, wish: _Wish, found: set[Thread]) -> None:
        """Record threads that were not changed yet. Raises JournalError."""
        fresh = [thread for thread in found if thread not in self._record.threads]
        if not fresh and not self._unsaved:
            return
        leader = self._original_of_leader(wish.pid)
        for thread in sorted(fresh, key=lambda one: one.tid != wish.pid):
            try:
                now = threads.read(thread)
            except (ThreadGoneError, ThreadRefusedError):
                continue
            # A thread that a raised thread started has the default class; without the raise it would have its process's
            # class.
            attributes = leader.attributes if leader and now.is_untouched else now
            self._record.threads[thread] = Original(wish.service, wish.pid, attributes)
        self._save()

    def _original_of_leader(self, pid: int) -> Original | None:
        return next((was for thread, was in self._record.threads.items() if pid and thread.tid == pid), None)

    def _place(self, wish: _Wish, wanted: SchedulingClass) -> tuple[str, list[str]]:
        """Set groups and processors. Return why the group's weight could not follow, and what else failed."""
        if not wish.pid or wish.is_gone:
            return "", []
        membership = groups.membership(wish.pid)
        changes, problem = membership.changes(wanted, wish.placement.weight)
        told = [problem, *(self._change(wish, change) for change in changes)]
        return "; ".join(filter(None, told)), self._place_on(wish, membership)

    def _place_on(self, wish: _Wish, membership: groups.Membership) -> list[str]:
        """Set the processors in its own group or thread by thread; return what failed."""
        cpus = wish.placement.cpus
        if not cpus:
            return []
        own = membership.cpuset_change(cpus)
        return [self._change(wish, own)] if own else self._pin(wish, cpus)

    def _change(self, wish: _Wish, change: groups.Change) -> str:
        """Write a group's file; return why it failed, or empty."""
        try:
            before = groups.stands(change.path)
            if wish.main is None or before == change.text:
                return ""
            if self._unsaved or str(change.path) not in self._record.values:
                self._record.values.setdefault(str(change.path), Value(wish.service, before, wish.main))
                self._save()
            change.path.write_text(change.text, encoding="ascii")
        except BlockingIOError:
            return ""  # the kernel accepts ten autogroup changes in a second: the next rescan makes this one
        except OSError as error:
            return f"{change.path}: {error.strerror}"
        return ""

    def _pin(self, wish: _Wish, cpus: tuple[int, ...]) -> list[str]:
        """Set the processors thread by thread, because the service has no group of its own."""
        found = wish.find(())
        self._write_down(wish, found)
        changed: dict[Thread, set[int]] = {}
        for thread in found:
            was = self._record.threads.get(thread)
            try:
                now = os.sched_getaffinity(thread.tid)
            except OSError:
                continue
            if was and now != set(cpus):
                changed[thread] = now
                if not was.cpus:
                    original = Original(was.service, was.pid, was.attributes, tuple(sorted(now)))
                    self._record.threads[thread] = original
        if not changed:
            return []
        self._save()
        return self._set_processors(dict.fromkeys(changed, cpus))

    def _set_processors(self, wanted: dict[Thread, tuple[int, ...]]) -> list[str]:
        problems = []
        for thread, cpus in wanted.items():
            try:
                os.sched_setaffinity(thread.tid, cpus)
            except ProcessLookupError:
                continue
            except OSError as error:
                problems.append(f"processors {','.join(map(str, cpus))} are refused: {error.strerror}")
        return problems[:1]

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
                self._write_down(_Wish(service, pid, Placement(), lambda _: set()), threads.threads_of(pid))

    def _restore_values(self, service: str) -> list[str]:
        problems = []
        for path, was in [*self._record.values.items()]:
            if was.service != service:
                continue
            try:
                if threads.thread(was.owner.tid) == was.owner and groups.stands(Path(path)) != was.text:
                    groups.write_back(Path(path), was.text)
            except FileNotFoundError:
                pass  # the group has gone with its service
            except OSError as error:
                problems.append(f"{service}: {path} cannot be set back: {error.strerror}")
                continue
            del self._record.values[path]
        return problems

    def _save(self) -> None:
        """Write the journal. Raises JournalError."""
        self._unsaved = True
        journal.save(self._path, self._record)
        self._unsaved = False

    def _forget_the_dead(self) -> None:
        gone = [thread for thread in self._record.threads if threads.thread(thread.tid) != thread]
        stale = [path for path, was in self._record.values.items() if threads.thread(was.owner.tid) != was.owner]
        for thread in gone:
            del self._record.threads[thread]
        for path in stale:
            del self._record.values[path]
        if gone or stale:
            self._save()

    def _services_recorded(self) -> set[str]:
        threads_ = {was.service for was in self._record.threads.values()}
        return threads_ | {was.service for was in self._record.values.values()}


def _has_at_least(thread: Thread, wanted: SchedulingClass) -> bool:
    """Return whether a thread has this class or a higher one, or a policy that we never change."""
    try:
        standing = threads.read(thread).scheduling
    except (ThreadGoneError, ThreadRefusedError):
        return False
    return standing is None or standing.rank >= wanted.rank
