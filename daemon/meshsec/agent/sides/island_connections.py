"""What links over the internet ask of the IKE daemon: connections, and negotiations that this end begins."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from meshsec.adapters.kernel.islands import Uplink
from meshsec.agent.sides.ike_actions import IkeActions
from meshsec.core.channels import islands
from meshsec.core.channels.actions import Initiate, LoadConnection, Terminate, UnloadConnection
from meshsec.core.channels.desired import initiates
from meshsec.core.channels.islands import Ends
from meshsec.core.channels.situation import Situation
from meshsec.core.islands import paths, state
from meshsec.core.values.islands import InternetLink, Joint
from meshsec.core.values.model import Card, ConnectionSpec, IkeSa

TIMEOUT = 12.0
"""Seconds after which an attempt has failed; charon gives up then."""
PAUSES = (1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts of one path; the last one stays."""
COURTESY = 3.0
"""Seconds that the end with the higher fingerprint waits, where both could begin."""

_log = logging.getLogger(__name__)


class Uses(NamedTuple):
    """What the side uses of the agent."""

    actions: IkeActions
    spawn: Callable[[Coroutine[None, None, None]], object]


@dataclass(slots=True)
class Attempts:
    """How the negotiations of one path went that this end began."""

    failures: int = 0
    due: float = 0.0
    running: bool = False
    problem: str = ""


class IslandConnections:
    """The connections of all links, one for each uplink, and their SAs."""

    def __init__(self, links: Sequence[InternetLink], node: Card, known: Situation, uses: Uses) -> None:
        self._links, self._node, self._known, self._uses = links, node, known, uses
        self.sas: dict[str, tuple[IkeSa, ...]] = {}
        """The IKE_SAs by connection."""
        self.wanted: Mapping[str, ConnectionSpec] = {}
        """The connections that the IKE daemon ought to have."""
        self.is_met = False
        """An IKE daemon has said what SAs it has."""
        self.changed = asyncio.Event()
        """Set when there is something to look at again."""
        self._loaded: dict[str, ConnectionSpec] = {}
        self._foreign: set[str] = set()
        """Connections that an earlier run left in the IKE daemon."""
        self._attempts: dict[tuple[str, int], Attempts] = {}

    def met(self, connections: Iterable[str], sas: Mapping[str, tuple[IkeSa, ...]]) -> None:
        """Take what an IKE daemon has that was just met."""
        self.is_met = True
        self._loaded.clear()
        self._foreign = set(connections)
        self.sas = dict(sas)
        self.changed.set()

    def seen(self, name: str, sas: tuple[IkeSa, ...]) -> None:
        """Take the present SAs of one connection."""
        self.sas[name] = sas
        self.changed.set()

    def due(self) -> float:
        """Return the seconds until the next attempt; infinite without one."""
        now = asyncio.get_running_loop().time()
        return min((one.due - now for one in self._attempts.values() if one.problem and one.due > now), default=1e9)

    def waiting(self, now: float) -> Iterable[tuple[str, str, float]]:
        """Yield the paths that are to be tried: the peer, the uplink, and in how many seconds."""
        for link in self._links:
            present = state.carriers(link, self.sas)
            for path, uplink in enumerate(link.uplinks if link.address else ()):
                attempts = self._attempts_of(link.peer, path)
                if path not in present and not attempts.running:
                    yield link.peer, uplink, max(attempts.due - now, 0.0)

    def problem(self, peer: str, path: int) -> str:
        """Return why the last attempt of a path has failed; empty if it has not."""
        return self._attempts_of(peer, path).problem

    def card(self, peer: str) -> Card | None:
        """Return the present card of a peer; None for one that is not trusted."""
        channel = self._known.shown_as(peer)
        return channel.card if channel is not None else None

    async def settle(self, joints: Sequence[Joint], uplinks: Mapping[str, Uplink]) -> None:
        """Have the IKE daemon know the connections that there can be, and begin what this end begins."""
        if self._known.ike_down is not None or not self._known.key_loaded:
            return
        await self._configure(joints, uplinks)
        await self._prune()
        self._begin(joints, uplinks)

    async def _configure(self, joints: Sequence[Joint], uplinks: Mapping[str, Uplink]) -> None:
        """Have the IKE daemon know exactly the connections that there can be."""
        self.wanted = wanted = {spec.name: spec for spec in self._specs(joints, uplinks)}
        for name in sorted((self._loaded.keys() | self._foreign) - wanted.keys()):
            await self._uses.actions.carry_out(UnloadConnection(name))
            self._loaded.pop(name, None)
            self._foreign.discard(name)
        for name, spec in wanted.items():
            if self._loaded.get(name) != spec:
                await self._load(spec)

    def _specs(self, joints: Sequence[Joint], uplinks: Mapping[str, Uplink]) -> Iterable[ConnectionSpec]:
        backend, policy = self._known.backend, self._known.policy
        for link in self._links:
            own = [joint for joint in joints if joint.link == link.peer]
            peer = self.card(link.peer)
            if not own or peer is None or islands.cannot(self._node, peer, link.peer):
                continue
            ends = Ends(link, self._node, peer, own)
            for index, name in enumerate(link.uplinks):
                if addresses := uplinks[name].addresses:
                    yield islands.connection_spec(ends, index, addresses, backend, policy)

    async def _load(self, spec: ConnectionSpec) -> None:
        """Load a connection. SAs from addresses that this node has no longer are closed."""
        before = self._loaded.get(spec.name)
        cause = await self._uses.actions.carry_out(LoadConnection(spec))
        if cause is not None:
            self._attempts_of(*paths.parts(spec.name)).problem = cause.words
            return
        self._loaded[spec.name] = spec
        self._foreign.discard(spec.name)
        if before is not None and before.outside != spec.outside:
            for sa in self.sas.get(spec.name, ()):
                await self._uses.actions.carry_out(Terminate(sa.unique_id, spec.name, "the uplink's address changed"))

    async def _prune(self) -> None:
        for link in self._links:
            for sa in state.superseded(link, self.sas):
                await self._uses.actions.carry_out(Terminate(sa.unique_id, sa.peer, "its path has a younger SA"))
            for sa in state.excess(link, self.sas, asyncio.get_running_loop().time()):
                await self._uses.actions.carry_out(Terminate(sa.unique_id, sa.peer, "the link needs no such SA"))

    def _begin(self, joints: Sequence[Joint], uplinks: Mapping[str, Uplink]) -> None:
        """Begin the negotiation of each path that this end begins and that has no SA."""
        now = asyncio.get_running_loop().time()
        linked = {joint.link for joint in joints}
        for link in self._links:
            present = state.carriers(link, self.sas)
            for path, uplink in enumerate(link.uplinks if link.address and link.peer in linked else ()):
                attempts = self._attempts_of(link.peer, path)
                name = paths.connection(link.peer, path)
                if path in present:
                    attempts.failures, attempts.problem, attempts.due = 0, "", now + self._courtesy(link.peer)
                elif uplinks[uplink].carrier and name in self._loaded and not attempts.running and attempts.due <= now:
                    attempts.running = True
                    self._uses.spawn(self._negotiate(name, path, attempts))

    def _courtesy(self, peer: str) -> float:
        card = self.card(peer)
        return 0.0 if card is None or initiates(self._node, card) else COURTESY

    async def _negotiate(self, name: str, path: int, attempts: Attempts) -> None:
        try:
            cause = await self._uses.actions.carry_out(Initiate(name, (paths.child(path),), TIMEOUT))
        finally:
            attempts.running = False
        pause = PAUSES[min(attempts.failures, len(PAUSES) - 1)]
        attempts.due = asyncio.get_running_loop().time() + pause
        if cause is not None:
            attempts.failures += 1
            if cause.words != attempts.problem:
                _log.warning("link: %s: %s", name.removeprefix("link:"), cause.words)
            attempts.problem = cause.words
        self.changed.set()

    def _attempts_of(self, peer: str, path: int) -> Attempts:
        return self._attempts.setdefault((peer, path), Attempts())
