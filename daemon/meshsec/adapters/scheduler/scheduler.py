"""Set the scheduling classes of services' threads, keep them, and restore the exact state from before.

Every change is written to the journal first, with the state before it. ``rescan`` gives new threads the class of their
service. Threads and processes that a raised thread starts begin without privileges (reset-on-fork).
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from meshsec.adapters.scheduler import groups, host, interrupts, threads
from meshsec.adapters.scheduler.before import Before
from meshsec.adapters.scheduler.journal import Value
from meshsec.adapters.scheduler.threads import Attributes, Thread, ThreadGoneError, ThreadRefusedError
from meshsec.core.scheduling.profiles import (
    BEST_WITHOUT_REALTIME,
    KERNEL_THREADS,
    NO_SUCH_THREAD,
    SERVICES,
    SIGNER,
    Applied,
    Limits,
    Placement,
    SchedulingClass,
    within,
)

_PLACED = (*SERVICES, SIGNER)
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
        self._before = Before(path)
        self._wishes: dict[str, _Wish] = {}
        self._limits = host.limits()

    @property
    def is_restored(self) -> bool:
        """Whether nothing is left to be restored."""
        return self._before.is_empty

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
        if service not in _PLACED:
            raise ValueError(f"service {service!r} is not allowed; allowed: {', '.join(_PLACED)}")
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
        self._before.forget_the_dead()
        found = [self._enforce(wish) for wish in self._wishes.values()]
        self._wishes = {service: wish for service, wish in self._wishes.items() if not wish.is_gone}
        return found

    def restore(self, service: str | None = None) -> list[str]:
        """Restore the state of one service or of all, and return what failed; empty if all was restored.

        What failed stays in the journal. Raises JournalError.
        """
        concerned = {service} if service else {*self._wishes, *self._before.services()}
        problems = []
        for one in sorted(concerned):
            self._wishes.pop(one, None)
            problems += self._before.restore(one)
        self._before.save()
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
            self._before.write_down(wish.service, wish.pid, found)
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
        original = self._before.of(thread)
        if original is None:
            raise ThreadGoneError(f"thread {thread.tid}")
        asked = Attributes.of(wanted, original.attributes)
        if threads.read(thread).effective != asked.effective:
            threads.write(thread, asked)

    def _place(self, wish: _Wish, wanted: SchedulingClass) -> tuple[str, list[str]]:
        """Set groups and processors. Return why the group's weight could not follow, and what else failed."""
        if not wish.pid or wish.is_gone:
            return "", []
        membership = groups.membership(wish.pid)
        changes, problem = membership.changes(wanted, wish.placement.weight)
        problems = [problem, *(self._change(wish, change) for change in changes)]
        return "; ".join(filter(None, problems)), self._place_on(wish, membership)

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
            before = groups.text_of(change.path)
            if wish.main is None or before == change.text:
                return ""
            self._before.write_down_value(change.path, Value(wish.service, before, wish.main))
            change.path.write_text(change.text, encoding="ascii")
        except BlockingIOError:
            return ""  # the kernel accepts ten autogroup changes in a second: the next rescan makes this one
        except OSError as error:
            return f"{change.path}: {error.strerror}"
        return ""

    def _pin(self, wish: _Wish, cpus: tuple[int, ...]) -> list[str]:
        """Set the processors thread by thread, because the service has no group of its own."""
        found = wish.find(())
        self._before.write_down(wish.service, wish.pid, found)
        changed: set[Thread] = set()
        for thread in found:
            try:
                now = os.sched_getaffinity(thread.tid)
            except OSError:
                continue
            if self._before.of(thread) and now != set(cpus):
                changed.add(thread)
                self._before.add_processors(thread, now)
        if not changed:
            return []
        self._before.save()
        return self._set_processors(changed, cpus)

    def _set_processors(self, changed: set[Thread], cpus: tuple[int, ...]) -> list[str]:
        problems = []
        for thread in changed:
            try:
                os.sched_setaffinity(thread.tid, cpus)
            except ProcessLookupError:
                continue
            except OSError as error:
                problems.append(f"processors {','.join(map(str, cpus))} are refused: {error.strerror}")
        return problems[:1]


def _has_at_least(thread: Thread, wanted: SchedulingClass) -> bool:
    """Return whether a thread has this class or a higher one, or a policy that we never change."""
    try:
        present = threads.read(thread).scheduling
    except (ThreadGoneError, ThreadRefusedError):
        return False
    return present is None or present.rank >= wanted.rank
