"""The side of the agent that tells the engine what levels of authentication are chosen by (ADR 0091).

The threat is high while the operator says so, and for as long as a proof counts that two nodes have one key: ten
minutes from the last (sides/twins.py). Nothing that a stranger can cause raises it, or he could make this node close
SAs with peers that cannot follow. What cannot be read counts as the circumstance that raises the level.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from meshsec.adapters.files import second_secret_store, threat_store
from meshsec.core.channels.events import SurroundingsSet
from meshsec.core.channels.level import Surroundings
from meshsec.core.channels.situation import Situation
from meshsec.core.explain import levels_view
from meshsec.core.explain.findings import Check
from meshsec.core.positions.positions import Position
from meshsec.core.trust import second_secret
from meshsec.core.values.model import Card
from meshsec.files import FileError

POLL = 1.0
"""Seconds between two looks at the files, the place and the proofs of copied keys."""
POSITION_AGE = 60.0
"""Seconds for which a position of gpsd's says where this node is."""
THREAT = "threat"
"""The operator's word, beside the node's key."""
BY_OPERATOR = "the operator says so"

_log = logging.getLogger(__name__)


class Uses(NamedTuple):
    """What the side takes from others."""

    post: Callable[[SurroundingsSet], None]
    position: Callable[[float], Position | None]
    """Returns where this node is, if it was there within so many seconds."""
    is_doubled: Callable[[Card], bool]
    """Returns whether it was proved lately that two nodes have the key on a card."""


class LevelsSide:
    """Threat, place and the second secret."""

    def __init__(self, key: Path, known: Situation, uses: Uses) -> None:
        self._threat, self._secret = key.with_name(THREAT), key.with_name(second_secret_store.NAME)
        self._known, self._uses = known, uses
        self._said: tuple[object, ...] = ()
        """What the engine knows."""
        self._problems: Mapping[str, str] = {}
        """Why files cannot be read, with the command that fixes each."""

    async def load(self) -> SurroundingsSet:
        """Return the event for the engine, which must come before the peers."""
        around = await self._look()
        self._said = self._kind(around)
        return SurroundingsSet(around)

    async def run(self) -> None:
        """Follow the circumstances until cancelled, where the policy has levels."""
        while self._known.policy.levels:
            await self.follow()
            await asyncio.sleep(POLL)

    async def follow(self) -> None:
        """Look at the circumstances, and tell the engine if they differ."""
        around = await self._look()
        if (kind := self._kind(around)) != self._said:
            self._said = kind
            self._uses.post(SurroundingsSet(around))

    async def say(self, *, high: bool) -> None:
        """Take the operator's word about the threat. Raises FileError and then changes nothing."""
        await asyncio.to_thread(threat_store.save, self._threat, high=high)
        _log.info("threat: %s", "high" if high else "normal")
        await self.follow()

    @property
    def problem(self) -> str:
        """Why a file cannot be read; empty if each can."""
        return "; ".join(self._problems)

    def checks(self) -> list[Check]:
        """Return doctor's findings."""
        return levels_view.checks(self._known, self._problems)

    async def _look(self) -> Surroundings:
        if not self._known.policy.levels:
            return Surroundings()
        by_operator, mark, problems = await asyncio.to_thread(self._files)
        for problem in problems.keys() - self._problems.keys():
            _log.warning("levels of authentication: %s", problem)
        self._problems = problems
        return Surroundings(by_operator or self._copied(), self._uses.position(POSITION_AGE), mark)

    def _files(self) -> tuple[str, bytes, Mapping[str, str]]:
        """Return why the threat is high, the mark of the second secret, and what is wrong with the two files."""
        threat, mark, problems = "", b"", {}
        try:
            threat = BY_OPERATOR if threat_store.is_high(self._threat) else ""
        except FileError as error:
            threat = "what the operator says cannot be read"
            problems[str(error)] = "meshsec threat normal"
        try:
            secret = second_secret_store.find(self._secret)
            mark = second_secret.mark(secret) if secret else b""
        except FileError as error:
            problems[str(error)] = "meshsec secret set FILE"
        return threat, mark, problems

    def _copied(self) -> str:
        cards = [(channel.title, channel.card) for channel in self._known.channels()]
        names = [title for title, card in cards if card and self._uses.is_doubled(card)]
        names += ["this node"] if self._uses.is_doubled(self._known.node) else []
        return f"two nodes have the key of {', '.join(names)}" if names else ""

    def _kind(self, around: Surroundings) -> tuple[object, ...]:
        """Return what rules can tell apart, so that each metre of a moving node is no event."""
        areas = [area for rule in self._known.policy.level_rules for area in (*rule.inside, *rule.outside)]
        return around.threat, around.mark, tuple(around.is_inside(area) for area in areas)
