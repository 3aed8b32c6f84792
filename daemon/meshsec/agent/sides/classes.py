"""The scheduling classes of the profile, and how far the services have them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from meshsec.adapters.scheduler import Scheduler
from meshsec.adapters.scheduler.journal import JournalError
from meshsec.core.scheduling.profiles import KERNEL_THREADS, Applied, Placement, Profile

CHARON, OURSELVES = "charon", "meshsecd"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Classes:
    """Sets the classes by the scheduler's adapter; ``journal`` records the state before changes."""

    def __init__(self, profile: Profile, journal: Path) -> None:
        self._profile = profile
        self._scheduler = Scheduler(journal)
        self._finders: dict[str, Callable[[], int]] = {}
        self.applied: dict[str, Applied] = {}
        """How far the profile's classes were applied, by service."""
        self.problem = ""
        """Why nothing can be changed at all."""

    def place(self, service: str, pid: int, behind: frozenset[int] = frozenset()) -> Applied | None:
        """Set the static class of the profile, or restore a service that the profile does not name.

        The threads ``behind`` rank below the others.
        """
        placement = self._profile.placement(service)
        if placement is None:
            self.restore(service)
            self.applied.pop(service, None)
            return None
        placement = replace(placement, behind=behind)
        return self._note(self._guarded(lambda: self._scheduler.place(service, pid, placement)))

    def place_kernel(self, interfaces: Sequence[str]) -> None:
        """Raise the kernel threads that the profile names and that serve the interfaces."""
        for kind in KERNEL_THREADS:
            placement = self._profile.placement(kind)
            if placement:
                self._note(self._guarded(partial(self._scheduler.place_kernel, kind, interfaces, placement)))

    def give(self, level: int, pid: int, behind: frozenset[int]) -> Applied | None:
        """Give charon a level of the governor; 0 is its static class."""
        if not level:
            return self.place(CHARON, pid, behind)
        cpus = self._profile.placements.get(CHARON, Placement()).cpus
        raised = Placement(self._profile.ladder[level - 1], cpus=cpus, behind=behind)
        return self._note(self._guarded(lambda: self._scheduler.place(CHARON, pid, raised)))

    def follow(self, service: str, find: Callable[[], int]) -> None:
        """Place the process of a service that reports to nobody at each rescan; ``find`` returns its PID, or 0."""
        self._finders[service] = find

    def rescan(self) -> None:
        """Apply the classes to new processes and threads, and to those that somebody else changed."""
        for service, find in self._finders.items():
            pid = find() if self._profile.placement(service) else 0
            if pid > 1:
                self.place(service, pid)
        for applied in self._guarded(self._scheduler.rescan) or ():
            self._note(applied)

    def restore(self, service: str | None = None) -> None:
        """Undo the changes of one service or of all."""
        self._guarded(lambda: self._restore(service))

    def _restore(self, service: str | None) -> None:
        for problem in self._scheduler.restore(service):
            _log.warning("scheduling: %s", problem)

    def shortfall(self, applied: Applied | None) -> str:
        """Return why charon does not have what was decided; empty if it has."""
        if applied is None:
            return self.problem
        if applied.in_force is not None and applied.in_force.rank >= applied.wanted.rank:
            return ""
        return applied.problem or f"{applied.wanted} is not in force"

    def _note(self, applied: Applied | None) -> Applied | None:
        """Log each new problem once."""
        if applied:
            before = self.applied.get(applied.service)
            if applied.problem and (before is None or before.problem != applied.problem):
                _log.warning("scheduling of %s: %s", applied.service, applied.problem)
            self.applied[applied.service] = applied
        return applied

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """Do the work only with a journal: what could not be undone after a crash must not be done."""
        try:
            found = work()
        except (JournalError, ValueError) as error:
            if str(error) != self.problem:
                _log.warning("scheduling: %s", error)
            self.problem = str(error)
            return None
        self.problem = ""
        return found
