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
from dataclasses import dataclass
from pathlib import Path

from meshsec.adapters.scheduler import pressure
from meshsec.agent.sides.classes import CHARON, OURSELVES, Classes
from meshsec.agent.sides.contention import ASKED, ContentionWatch, CrowdWatch, StreamWatch, poller
from meshsec.agent.sides.followed import Followed
from meshsec.core.channels.channel import Channel
from meshsec.core.config.scheduling_settings import SchedulingSettings
from meshsec.core.explain.scheduling_view import Known, class_text
from meshsec.core.scheduling.governor import Governor
from meshsec.core.scheduling.governor_events import (
    Crowding,
    DaemonGone,
    DaemonUp,
    Event,
    LevelRefused,
    NegotiationBegan,
    StreamReported,
)
from meshsec.core.scheduling.profiles import ROUTER, Applied

PACE = 5.0
"""Seconds between two routine checks: new threads, changes by others, contention, the protected streams."""

CROWD_LOOKS = 5
"""How often in that time it is checked whether others keep charon's processors busy."""

_log = logging.getLogger(__name__)


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
        self.classes = Classes(self.profile, journal)
        self._loop = asyncio.get_running_loop()
        self._interfaces = interfaces
        self._publish = publish
        self._charon = charon
        self._pid = 0
        self._watch: ContentionWatch | None = None
        self._crowd: CrowdWatch | None = None
        self._poller: int | None = None
        """charon's thread that waits for its sockets; None while it is not known."""
        self._streams = {name: StreamWatch(name) for name in settings.protect}
        self._followed = Followed()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def known(self) -> Known:
        """Return what the view shows beside the governor itself."""
        source, classes = self._watch.source if self._watch else "", self.classes
        return Known(self.profile, self._pid, tuple(classes.applied.values()), source, classes.problem, self._poller)

    def start(self) -> None:
        """Undo what a predecessor left and set the classes of running services."""
        self.classes.restore()
        if self._is_stock:
            return
        self.classes.place(OURSELVES, os.getpid())
        self.classes.place_kernel(self._interfaces)

    def close(self) -> None:
        """Undo all changes."""
        if self._timer:
            self._timer.cancel()
        self.classes.restore()

    @property
    def _is_stock(self) -> bool:
        return not self.profile.placements and not self.profile.governed

    async def run(self) -> None:
        """Check everything periodically; return at once if there is nothing to check."""
        while not self._is_stock:
            for _ in range(CROWD_LOOKS):
                await asyncio.sleep(PACE / CROWD_LOOKS)
                if self._crowd:
                    self.handle(Crowding(self._crowd.poll(self._loop.time())))
                if self._poller is None and self.known.ranks_poller:
                    await self._find_poller(self._pid)
            self.classes.rescan()
            if self.governor:
                self._advance(look=True, queued=self._charon.queued())
                for name, watch in self._streams.items():
                    delay = watch.poll()
                    if delay is not None:
                        self.handle(StreamReported(name, delay=delay))

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
        self._give(0)
        self._followed.clear()
        if self.governor:
            self._watch = ContentionWatch(pid, self._loop.time())
            self._crowd = CrowdWatch(pid, self._loop.time())
            self.handle(DaemonUp(len(pressure.processors(pid))))

    def router_up(self, pid: int) -> None:
        """Note that the routing daemon answers. ``pid`` is 0 if it is not known, as for olsrd2."""
        if not self._is_stock and pid > 1:
            self.classes.place(ROUTER, pid)

    def charon_gone(self) -> None:
        """Note that charon does not answer. Privilege does not help one that hangs."""
        self._pid, self._poller, self._watch, self._crowd = 0, None, None, None
        self._followed.clear()
        self.classes.applied.pop(CHARON, None)
        if self.governor:
            self.handle(DaemonGone())

    def refresh(self) -> None:
        """Update the governor's account to this moment, for an answer."""
        self._advance(look=False)

    def follow(self, channels: Iterable[Channel]) -> None:
        """Report to the governor how the channels differ from its last report."""
        if not self.governor or not self._watch:
            return
        changes = self._followed.compare(channels, self._loop.time())
        if changes:
            self._advance(look=True)
            for event in self._followed.report(changes, self._watch.waited, self._loop.time()):
                self.governor.handle(event)
            self._carry_out()

    def expect(self, peer: str) -> None:
        """Expect a negotiation that the peer may begin now; it is forgotten after ``attention`` if it does not
        begin.
        """
        if self._pid:
            self.handle(NegotiationBegan(peer))

    def handle(self, event: Event) -> None:
        """Pass an event to the governor and carry out its decision."""
        if self.governor:
            self._advance(look=False)
            self.governor.handle(event)
            self._carry_out()

    # --- the governor's side ---

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
                after = class_text(self.profile, decision.level)
                text = f"{class_text(self.profile, decision.before)} -> {after}"
                _log.info("charon: %s: %s", text, decision.reason)
                self._tell_watchers(after, decision.reason)
            if level and (problem := self.classes.shortfall(applied)):
                self.governor.handle(LevelRefused(level, problem))
        self._arm()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        due = self.governor.poll_timeout() if self.governor else None
        self._timer = None if due is None else self._loop.call_at(due, self._on_timer)

    def _give(self, level: int) -> Applied | None:
        """Give charon a level, if it is seen. Its poller ranks below the other threads."""
        behind = frozenset() if self._poller is None else frozenset({self._poller})
        return self.classes.give(level, self._pid, behind) if self._pid else None

    def _tell_watchers(self, state: str, reason: str) -> None:
        self._publish({"kind": "scheduling", "peer": "", "service": CHARON, "state": state, "reason": reason})


def _governor(settings: SchedulingSettings) -> Governor:
    profile = settings.profile
    start = profile.first_realtime_level if settings.governor.head_start else 0
    return Governor(settings.governor, len(profile.ladder), start)
