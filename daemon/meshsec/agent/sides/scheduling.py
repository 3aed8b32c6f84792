"""Scheduling: give the daemons the profile's classes, and let the governor change charon's.

Theory of operation. The static classes are set when a process is known; a periodic rescan covers later threads. With a
profile that has a ladder, the governor learns of every negotiation from the engine's channels (``follow``, at the end
of each turn, before charon is asked for anything). It reads charon's CPU clock when the governor asks for it, and
carries out decisions at once in the event loop, because a raise that waits for another thread comes too late. All
changes are undone when meshsecd ends.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from meshsec.adapters.scheduler import Scheduler, pressure
from meshsec.adapters.scheduler.journal import JournalError
from meshsec.agent.sides.contention import ASKED, ContentionWatch, CrowdWatch, StreamWatch, poller
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.config.scheduling_settings import SchedulingSettings
from meshsec.core.explain.scheduling_view import Known
from meshsec.core.scheduling.governor import Governor
from meshsec.core.scheduling.governor_events import (
    Crowding,
    DaemonGone,
    DaemonUp,
    Event,
    LevelRefused,
    NegotiationBegan,
    NegotiationEnded,
    StreamReported,
)
from meshsec.core.scheduling.profiles import KERNEL_THREADS, Applied, Placement, SchedulingClass

PACE = 5.0
"""Seconds between two routine checks: new threads, changes by others, contention, the protected streams."""

CROWD_LOOKS = 5
"""How often in that time it is checked whether others keep charon's processors busy."""

CHARON, ROUTER, OURSELVES = "charon", "olsrv2d", "meshsecd"

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Followed:
    """A negotiation that was reported to the governor."""

    state: State
    waited: float | None
    """Seconds that charon's threads had waited for a CPU when it began."""
    began: float


@dataclass(frozen=True, slots=True)
class CharonSide:
    """What charon can be asked for."""

    queued: Callable[[], int | None]
    """Returns the jobs without a thread at charon's last report."""
    stir: Callable[[], None]
    """Gives charon's threads a little work, which shows how long they wait for a CPU."""
    ask: Callable[[], Awaitable[None]]
    """Does the same and waits for the end."""


class Scheduling:
    """The scheduling side of the agent; with the profile ``stock`` it does nothing."""

    def __init__(
        self,
        settings: SchedulingSettings,
        journal: Path,
        interfaces: Sequence[str],
        publish: Callable[[Mapping[str, object]], None],
        charon: CharonSide,
    ) -> None:
        """Prepare it. ``settings`` include the policy's deadline, ``journal`` records the state before changes, and
        ``publish`` informs those who watch.
        """
        self.profile = settings.profile
        self.governor = _governor(settings) if self.profile.governed else None
        self.applied: dict[str, Applied] = {}
        """How far the profile's classes were applied, by service."""
        self.problem = ""
        """Why nothing can be changed at all."""
        self._loop = asyncio.get_running_loop()
        self._scheduler = Scheduler(journal)
        self._interfaces = interfaces
        self._publish = publish
        self._charon = charon
        self._pid = 0
        self._watch: ContentionWatch | None = None
        self._crowd: CrowdWatch | None = None
        self._poller: int | None = None
        """charon's thread that waits for its sockets; None while it is not known."""
        self._streams = {name: StreamWatch(name) for name in settings.protect}
        self._followed: dict[str, _Followed] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def known(self) -> Known:
        """Return what the view shows beside the governor itself."""
        source = self._watch.source if self._watch else ""
        return Known(self.profile, self._pid, tuple(self.applied.values()), source, self.problem, self._poller)

    def start(self) -> None:
        """Undo what a predecessor left and set the classes of running services."""
        self._guarded(self._restore)
        if self._is_stock:
            return
        self._place(OURSELVES, os.getpid())
        for kind in KERNEL_THREADS:
            placement = self.profile.placements.get(kind)
            if placement:
                self._note(self._guarded(partial(self._scheduler.place_kernel, kind, self._interfaces, placement)))

    def close(self) -> None:
        """Undo all changes."""
        if self._timer:
            self._timer.cancel()
        self._guarded(self._restore)

    @property
    def _is_stock(self) -> bool:
        return not self.profile.placements and not self.profile.governed

    async def run(self) -> None:
        """Check everything periodically; return at once if there is nothing to check."""
        while not self._is_stock:
            for _ in range(CROWD_LOOKS):
                await asyncio.sleep(PACE / CROWD_LOOKS)
                if self._crowd:
                    self.tell(Crowding(self._crowd.poll(self._loop.time())))
                if self._poller is None and self.known.ranks_poller:
                    await self._find_poller(self._pid)
            for applied in self._guarded(self._scheduler.rescan) or ():
                self._note(applied)
            if self.governor:
                self._advance(look=True, queued=self._charon.queued())
                for name, watch in self._streams.items():
                    delay = watch.poll()
                    if delay is not None:
                        self.tell(StreamReported(name, delay=delay))

    async def _find_poller(self, pid: int) -> None:
        """Find charon's thread that polls the sockets, so that it gets no real-time class.

        While another thread takes what arrived, this one polls without rest. With a real-time class it would keep the
        processor from that very thread for a whole slice.
        """
        before = pressure.runs(pid)
        if before is None:
            return
        for _ in range(ASKED):
            await self._charon.ask()
        after = pressure.runs(pid)
        if pid != self._pid or after is None:
            return
        self._poller = poller(before, after)
        if self._poller is not None:
            self._give(self.governor.level if self.governor else 0)

    # --- what the agent reports ---

    def charon_up(self, pid: int) -> None:
        """Note that charon answers. ``pid`` is 0 if its process cannot be seen from here."""
        if self._is_stock or pid == self._pid or pid <= 1:
            return
        self._pid, self._poller = pid, None
        self._place(CHARON, pid)
        self._followed.clear()
        if self.governor:
            self._watch = ContentionWatch(pid, self._loop.time())
            self._crowd = CrowdWatch(pid, self._loop.time())
            self.tell(DaemonUp(len(pressure.processors(pid))))

    def router_up(self, pid: int) -> None:
        """Note that the routing daemon answers. ``pid`` is 0 if it is not known, as for olsrd2."""
        if not self._is_stock and pid > 1:
            self._place(ROUTER, pid)

    def charon_gone(self) -> None:
        """Note that charon does not answer. Privilege does not help one that hangs."""
        self._pid, self._poller, self._watch, self._crowd = 0, None, None, None
        self._followed.clear()
        self.applied.pop(CHARON, None)
        if self.governor:
            self.tell(DaemonGone())

    def refresh(self) -> None:
        """Update the governor's account to this moment, for an answer."""
        self._advance(look=False)

    def follow(self, channels: Iterable[Channel]) -> None:
        """Report to the governor how the channels differ from its last report."""
        if not self.governor or not self._watch:
            return
        now, known = self._loop.time(), {one.name: one for one in channels}
        demand = {name: one for name, one in known.items() if _wants_charon(one, now)}
        fresh = [one for name, one in demand.items() if not self._is_known(name, one.state)]
        gone = [name for name in self._followed if name not in demand]
        if fresh or gone:
            self._advance(look=True)
            for name in gone:
                self.governor.handle(self._ended(name, known.get(name)))
            for one in fresh:
                self._followed[one.name] = _Followed(one.state, self._watch.waited, now)
                self.governor.handle(NegotiationBegan(one.name))
            self._carry_out()

    def expect(self, peer: str) -> None:
        """Expect a negotiation that the peer may begin now; it is forgotten after ``attention`` if it does not
        begin.
        """
        if self._pid:
            self.tell(NegotiationBegan(peer))

    def tell(self, event: Event) -> None:
        """Pass an event to the governor and carry out its decision."""
        if self.governor:
            self._advance(look=False)
            self.governor.handle(event)
            self._carry_out()

    # --- the governor's side ---

    def _is_known(self, name: str, state: State) -> bool:
        """Return whether the governor knows a negotiation. An expected one is reported again when it runs."""
        known = self._followed.get(name)
        return known is not None and (known.state is state or state is State.WAITING)

    def _ended(self, name: str, channel: Channel | None) -> NegotiationEnded:
        followed = self._followed.pop(name)
        if channel is None or channel.state is not State.PROTECTED:
            return NegotiationEnded(name, protected=False)
        waited = None
        if followed.waited is not None and self._watch and self._watch.waited is not None:
            waited = min(self._watch.waited - followed.waited, self._loop.time() - followed.began)
        return NegotiationEnded(name, True, _own_time(channel), waited)

    def _advance(self, *, look: bool, queued: int | None = None) -> None:
        if not self.governor:
            return
        now = self._loop.time()
        contention = self._watch.poll(now, queued) if look and self._watch else None
        self.governor.advance(now, pressure.cpu_seconds(self._pid) if self._pid else None, contention)
        self._carry_out()

    def _on_timer(self) -> None:
        self._timer = None
        if not self.governor:
            return
        self._advance(look=bool(self.governor.negotiating) or self.governor.probing)
        if self.governor.probing:
            self._charon.stir()

    def _carry_out(self) -> None:
        """Carry out decisions until there are none: after a refusal the governor decides again, one level lower."""
        if not self.governor:
            return
        while decisions := self.governor.poll_decisions():
            level = decisions[-1].level
            applied = self._give(level)
            for decision in decisions:
                text = f"{self._class_text(decision.before)} -> {self._class_text(decision.level)}"
                _log.info("charon: %s: %s", text, decision.reason)
                self._tell_watchers(self._class_text(decision.level), decision.reason)
            if level and (problem := self._shortfall(applied)):
                self.governor.handle(LevelRefused(level, problem))
        self._arm()

    def _shortfall(self, applied: Applied | None) -> str:
        """Return why charon does not have what was decided; empty if it has."""
        if applied is None:
            return self.problem
        if applied.in_force is not None and applied.in_force.rank >= applied.wanted.rank:
            return ""
        return applied.problem or f"{applied.wanted} is not in force"

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        due = self.governor.poll_timeout() if self.governor else None
        self._timer = None if due is None else self._loop.call_at(due, self._on_timer)

    def _give(self, level: int) -> Applied | None:
        if not self._pid:
            return None
        if not level:
            return self._place(CHARON, self._pid)
        cpus = self.profile.placements.get(CHARON, Placement()).cpus
        raised = Placement(self.profile.ladder[level - 1], cpus=cpus, behind=self._behind)
        return self._note(self._guarded(lambda: self._scheduler.place(CHARON, self._pid, raised)))

    def _class_text(self, level: int) -> str:
        return str(self.class_of(level) or "as it was started")

    def class_of(self, level: int) -> SchedulingClass | None:
        """Return the class of a governor's level; None for a base that the profile does not set."""
        return self.profile.ladder[level - 1] if level else self.profile.class_of(CHARON)

    def _tell_watchers(self, state: str, reason: str) -> None:
        self._publish({"kind": "scheduling", "peer": "", "service": CHARON, "state": state, "reason": reason})

    # --- the adapter's side ---

    def _place(self, service: str, pid: int) -> Applied | None:
        """Set the static class of the profile, or restore a service that the profile does not name."""
        placement = self.profile.placements.get(service)
        if placement is None:
            self._guarded(lambda: self._restore(service))
            self.applied.pop(service, None)
            return None
        if service == CHARON:
            placement = replace(placement, behind=self._behind)
        return self._note(self._guarded(lambda: self._scheduler.place(service, pid, placement)))

    @property
    def _behind(self) -> frozenset[int]:
        """Return charon's threads that rank below the others when it has a real-time class."""
        return frozenset() if self._poller is None else frozenset({self._poller})

    def _restore(self, service: str | None = None) -> None:
        for problem in self._scheduler.restore(service):
            _log.warning("scheduling: %s", problem)

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


def _governor(settings: SchedulingSettings) -> Governor:
    profile = settings.profile
    start = profile.first_realtime_level if settings.governor.head_start else 0
    return Governor(settings.governor, len(profile.ladder), start)


def _wants_charon(channel: Channel, now: float) -> bool:
    """Return whether a negotiation runs or can begin any moment: there is a route, and no failure delays an attempt."""
    if channel.state is State.NEGOTIATING:
        return True
    return channel.state is State.WAITING and channel.route is not None and channel.attempt.backoff.due <= now


def _own_time(channel: Channel) -> float | None:
    """Return how long our own set-up took; for one of the peer's, its beginning is not known here."""
    sa = channel.ike_sa()
    if sa is None or not sa.initiator or channel.attempt.began_at is None or channel.protected_at is None:
        return None
    return channel.protected_at - channel.attempt.began_at
