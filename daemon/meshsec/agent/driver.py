"""Drive the engine: events in, actions out, timers between them.

Theory of operation. ``post`` passes an event to the engine at once and requests a turn at the end of this round of the
loop, so that a burst of events leads to one decision. A turn starts a task for each action that the engine wants.
Actions run side by side, because the engine gives an action only when its preconditions hold. Each ends with one
``ActionDone``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from meshsec.core.channels.actions import Action
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.events import ActionDone, Event
from meshsec.core.values.failures import Cause

CarryOut = Callable[[Action], Awaitable[Cause | None]]
"""Carries out one action and returns the cause of its failure, or None."""

Spawn = Callable[[Coroutine[None, None, None]], object]
"""Starts a task. Its unexpected failure ends the daemon, so that a bug of ours does not stay hidden."""

_log = logging.getLogger(__name__)


class Driver:
    """The engine in the event loop."""

    def __init__(self, engine: Engine, carry_out: CarryOut, on_turn: Callable[[], None], spawn: Spawn) -> None:
        """Prepare the driver; ``on_turn`` is called after each turn, when the engine may have decided again."""
        self.engine = engine
        self._carry_out = carry_out
        self._on_turn = on_turn
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._turn_asked = False
        self._turned = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now(self) -> float:
        """Return monotonic seconds: the loop's clock, which all parts use."""
        return self._loop.time()

    def post(self, event: Event) -> None:
        """Pass an event to the engine."""
        self.engine.handle(self.now, event)
        if not self._turn_asked:
            self._turn_asked = True
            self._loop.call_soon(self._turn)

    async def rules_in_force(self, seconds: float) -> bool:
        """Wait until the wanted fail-closed rules are in the kernel; return False if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while not self.engine.known.rules.met():
                    self._turned.clear()
                    await self._turned.wait()
        except TimeoutError:
            return False
        return True

    def learn(self, event: Event) -> None:
        """Pass an event to the engine before it can decide anything: no turn follows."""
        self.engine.handle(self.now, event)

    def close(self) -> None:
        """Start nothing more; outside systems stay as they are."""
        if self._timer:
            self._timer.cancel()
        self._turn_asked = True

    def _turn(self) -> None:
        self._turn_asked = False
        due = self.engine.poll_timeout()
        if due is not None and due <= self.now:
            self.engine.handle_timeout(self.now)
        for action in self.engine.poll_actions():
            self._spawn(self._run(action))
        self._arm()
        self._on_turn()
        self._turned.set()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        due = self.engine.poll_timeout()
        self._timer = None if due is None else self._loop.call_at(due, self._turn)

    async def _run(self, action: Action) -> None:
        cause = await self._carry_out(action)
        if cause is not None:
            _log.warning("%s: %s", action.label, cause.words)
        else:
            _log.info("%s: done%s", action.label, f", since {action.why}" if action.why else "")
        self.post(ActionDone(action, cause))
