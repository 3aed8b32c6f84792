"""The side of the agent that serves `meshsec bench throughput`: data planes by turns, and one flow in the clear.

Theory of operation. A session belongs to the connection of a command at the control socket and ends with it. So the
authority of this node's operator is behind it, and the peer's commands reach nothing here. A session uses one plane at
a time. For ``plain`` the rules accept the flow first, and the marks follow last (``nft_bench``); the end takes the
marks first. Whatever goes wrong between them leaves the flow closed (ADR 0084).
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv6Address
from typing import Any, Final

from meshsec.adapters.kernel.held_rules import HeldRules, HeldRulesError
from meshsec.agent.sides.modes import ModeChoice
from meshsec.core.channels import nft_bench
from meshsec.core.channels.desired import endpoint
from meshsec.core.channels.events import Event, OpeningSet
from meshsec.core.channels.lifecycle import State
from meshsec.core.channels.situation import Situation
from meshsec.core.config.overlay_settings import NOT_ENABLED
from meshsec.core.explain.findings import Check, Level
from meshsec.core.values.bench import CLEAR_PORT, Opening
from meshsec.core.values.model import Card, DataPlane

LONGEST: Final = 3600
"""Seconds that an opening may last at most; the steps of a benchmark ask for less."""
_RULES_SECONDS = 10.0

_log = logging.getLogger(__name__)


class BenchError(Exception):
    """A benchmark is refused; the text says why, and what helps."""


@dataclass(frozen=True, slots=True)
class Uses:
    """What the side needs of the agent."""

    post: Callable[[Event], None]
    rules_in_force: Callable[[float], Awaitable[bool]]
    beside_rules: Callable[[Callable[[], None]], Awaitable[None]]
    spawn: Callable[[Coroutine[None, None, None]], object]
    modes: ModeChoice


@dataclass
class Session:
    """A benchmark that runs with one peer."""

    title: str
    card: Card
    serves: bool
    token: str = field(default_factory=partial(secrets.token_hex, 16))
    plane: DataPlane | None = None
    opening: Opening | None = None
    closes_at: float = 0.0
    """Time of the loop at which the opening ends."""


class BenchSide:
    """At most one session at a time."""

    def __init__(self, known: Situation, uses: Uses) -> None:
        self._known, self._uses = known, uses
        self._loop = asyncio.get_running_loop()
        self._held = HeldRules([nft_bench.TABLE], {})
        self._changing = asyncio.Lock()
        self._session: Session | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, title: str, *, serves: bool) -> Session:
        """Begin a session with a peer that is protected now. Raises BenchError."""
        channel = self._known.shown_as(title)
        if channel is None or channel.card is None:
            raise BenchError(f"{title} is not a peer: `meshsec peer list` shows them")
        if channel.state is not State.PROTECTED and channel.handover.carried_since is None:
            raise BenchError(f"{title} is {channel.state}, not protected: `meshsec explain {title}` says why")
        if self._session is not None:
            raise BenchError(f"a benchmark with {self._session.title} runs already; end that `meshsec bench` first")
        session = self._session = Session(title, channel.card, serves)
        try:
            async with self._changing:
                await self._hold(session, 0)
        except BenchError:
            self._session = None
            raise
        return session

    async def use(self, token: str, plane: DataPlane | None, seconds: int) -> Session:
        """Measure this plane now; ``plain`` opens the flow for as many seconds at most, and None measures nothing.

        Raises BenchError.
        """
        async with self._changing:
            session = self._session
            if session is None or not secrets.compare_digest(token, session.token):
                raise BenchError("no such benchmark runs: begin again with `bench_begin`")
            await self._close(session)
            session.plane = plane
            if plane is DataPlane.PLAIN:
                await self._open(session, seconds)
            else:
                self._take(session, plane)
        return session

    def own_endpoint(self) -> IPv6Address:
        """Return this node's address that its router announces."""
        return endpoint(self._known.node, self._known.backend)

    def peer_endpoint(self, session: Session) -> IPv6Address:
        """Return the peer's."""
        return endpoint(session.card, self._known.backend)

    def end_soon(self, session: Session) -> None:
        """End a session whose command is gone."""
        if self._session is session:
            self._uses.spawn(self._end(session))

    def close(self) -> None:
        """Close the flow at the end of meshsecd: the kernel removes the marks with their socket."""
        self._session = None
        self._held.close()

    async def _end(self, session: Session) -> None:
        async with self._changing:
            if self._session is not session:
                return
            try:
                await self._close(session)
                await self._uses.beside_rules(self._held.close)
            finally:
                self._session = None
                self._uses.modes.measure(session.card.address, None)

    def _take(self, session: Session, plane: DataPlane | None) -> None:
        if plane is DataPlane.OVERLAY and not self._known.overlay.enabled:
            raise BenchError(f"{NOT_ENABLED} in meshsec.toml of {self._known.node.name}, and `meshsec up` there")
        self._uses.modes.measure(session.card.address, plane)

    async def _open(self, session: Session, seconds: int) -> None:
        opening = Opening(self.own_endpoint(), self.peer_endpoint(session), session.serves)
        self._uses.post(OpeningSet(opening))
        if not await self._uses.rules_in_force(_RULES_SECONDS) or not self._is_in_force(opening):
            self._uses.post(OpeningSet(None))
            raise BenchError("the rules that would let the flow pass are not in force: `meshsec doctor` says why")
        session.opening, session.closes_at = opening, self._loop.time() + seconds
        try:
            await self._hold(session, seconds)
        except BenchError:
            await self._close(session)
            raise
        self._timer = self._loop.call_at(session.closes_at, self._expire, session)
        _log.warning(
            "port %d between %s and %s (%s) is open in the clear for a benchmark, for %d s at most",
            CLEAR_PORT, opening.own, opening.peer, session.title, seconds,
        )  # fmt: skip

    def _is_in_force(self, opening: Opening) -> bool:
        rules = self._known.rules.in_force
        return rules is not None and rules.opening == opening

    def _expire(self, session: Session) -> None:
        self._uses.spawn(self._close_late(session))

    async def _close_late(self, session: Session) -> None:
        async with self._changing:
            if session.opening is not None and session.closes_at <= self._loop.time():
                await self._close(session)

    async def _close(self, session: Session) -> None:
        """Close the flow, if it is open: the marks at once, and then the rules."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if session.opening is None:
            return
        session.opening = None
        try:
            await self._hold(session, 0)
        except BenchError:
            await self._uses.beside_rules(self._held.close)
        self._uses.post(OpeningSet(None))
        _log.info("port %d with %s is closed again", CLEAR_PORT, session.title)

    async def _hold(self, session: Session, seconds: int) -> None:
        """Replace the table with the marks. Raises BenchError."""
        peers = frozenset({session.card.address, self.peer_endpoint(session)})
        text = nft_bench.render(peers, session.opening, seconds, serves=session.serves)
        try:
            await self._uses.beside_rules(partial(self._held.apply, lambda _name: text))
        except HeldRulesError as error:
            raise BenchError(
                f"this kernel cannot have the rules of a benchmark, which end with meshsecd (Linux 5.12): {error}"
            ) from error

    # --- what people are shown ---

    def view(self) -> Mapping[str, Any] | None:
        """Return the running benchmark for ``status``; None: there is none."""
        session = self._session
        if session is None:
            return None
        opening = session.opening
        return {
            "peer": session.title,
            "serves": session.serves,
            "plane": None if session.plane is None else str(session.plane),
            "open": None
            if opening is None
            else {
                "port": CLEAR_PORT,
                "own": str(opening.own),
                "address": str(opening.peer),
                "for": max(0.0, session.closes_at - self._loop.time()),
            },
        }

    def checks(self) -> list[Check]:
        """Return doctor's check while a benchmark runs."""
        session = self._session
        if session is None:
            return []
        opening = session.opening
        if opening is None:
            return [Check("benchmark", Level.OK, f"one runs with {session.title}; nothing is open in the clear")]
        left = max(0.0, session.closes_at - self._loop.time())
        found = (
            f"TCP and UDP port {CLEAR_PORT} between {opening.own} and {opening.peer} ({session.title}) is open in the "
            f"clear, for {left:.0f} s more at most"
        )
        return [Check("benchmark", Level.WARN, found, "end `meshsec bench`, on either node, to close it at once")]
