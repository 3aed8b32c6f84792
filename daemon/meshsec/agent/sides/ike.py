"""The IKE daemon's side of the agent: follow the daemon's life, events and log.

``readback`` reads its SAs, ``proofs`` tests those that may be one-way, and ``actions`` carries out what the engine
decides. SAs are always read back from the daemon, never concluded from an event or a command's success.
"""

import asyncio
import logging
from collections.abc import Callable

from meshsec.adapters.ike.ike_log import Asking, Failure, Setup
from meshsec.agent.sides.ike_actions import IkeActions
from meshsec.agent.sides.ike_daemon import IkeDaemon, Outside
from meshsec.agent.sides.ike_proofs import Proofs
from meshsec.agent.sides.ike_readback import Readback
from meshsec.agent.sides.keys import Keys
from meshsec.agent.sides.strangers import Strangers
from meshsec.core.channels.events import IkeDaemonDown, IkeDaemonUp, NegotiationTimed
from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.ike.port import (
    Alert,
    DaemonFacts,
    DaemonIdentity,
    IkeError,
    IkeEvent,
    IkePort,
    LogLine,
    SaChanged,
)
from meshsec.core.values.model import IkeSa, Observed

HEALTH_INTERVAL = 5.0
"""Seconds between two round trips that prove that the IKE daemon works."""

_log = logging.getLogger(__name__)


class IkeSide:
    """Everything about the IKE daemon."""

    def __init__(self, port: IkePort, keys: Keys, outside: Outside) -> None:
        self._loop = asyncio.get_running_loop()
        self._post = outside.post
        self._spawn = outside.spawn
        self._on_ended = outside.on_ended
        self.daemon = IkeDaemon(port)
        self.readback = Readback(self.daemon, outside)
        self.proofs = Proofs(self.daemon, self.readback, outside)
        self.actions = IkeActions(self.daemon, keys, self.readback, outside.contest)
        self.strangers = Strangers()
        self._identity: DaemonIdentity | None = None
        self._is_looking = False

    async def run(self) -> None:
        """Follow the IKE daemon until cancelled."""
        try:
            await self.daemon.port.run(self._on_up, self._on_event, self._on_down)
        finally:
            self.daemon.port.close()

    async def watch_health(self, on_proof: Callable[[], None]) -> None:
        """Prove by real round trips that the IKE daemon works, and call ``on_proof`` for each proof.

        A daemon that is not running counts as proof too: the kernel has said so, and its unit restarts it. For one that
        accepts connections and does not answer, there is no proof, so that the service manager's watchdog acts.
        """
        while True:
            if await self._is_sound():
                on_proof()
                await self.proofs.poll()
            await asyncio.sleep(HEALTH_INTERVAL)

    def look_soon(self) -> None:
        """Start a query of the IKE daemon, which is a little work for its threads, unless one is in progress."""
        if not self._is_looking:
            self._spawn(self.poll())

    async def poll(self) -> None:
        """Query the state of the IKE daemon if it answers at all."""
        if self.daemon.facts is None:
            return
        self._is_looking = True
        try:
            await self._is_sound()
        finally:
            self._is_looking = False

    async def _is_sound(self) -> bool:
        if self.daemon.facts is None:
            return self.daemon.port.is_gone
        try:
            facts = await self.daemon.port.facts()
            if facts.identity == self._identity:
                self.daemon.facts = facts
                if facts.ike_sas != sum(map(len, self.readback.known.values())):
                    await self.readback.read_all()
        except IkeError as error:
            self._lose(str(error))
            return False
        self.readback.catch_up()
        return True

    def _lose(self, reason: str) -> None:
        """Treat the IKE daemon as down and reconnect: it did not answer in time."""
        self._on_down(reason)
        self.daemon.port.reconnect()

    def _on_up(self, facts: DaemonFacts) -> None:
        self.actions.loads.forget()
        self._spawn(self._learn(facts))

    async def _learn(self, facts: DaemonFacts) -> None:
        """Find out what this IKE daemon already has."""
        async with self.readback.order:
            try:
                names = await self.daemon.port.connections()
                sas = await self.daemon.port.ike_sas()
                self.daemon.algorithms = await self.daemon.port.algorithms()
            except IkeError as error:
                self._lose(str(error))
                return
            self._meet(facts, names, sas)
        self.readback.catch_up()

    def _meet(self, facts: DaemonFacts, names: tuple[str, ...], sas: dict[str, tuple[IkeSa, ...]]) -> None:
        """Decide whether this is the daemon process we knew; a new one, or one without connections, is unconfigured."""
        is_same = facts.identity == self._identity
        daemon_restarted = not is_same and (self._identity is not None or not names)
        if not is_same:
            self.actions.forget()
        self._identity, self.daemon.facts, self.readback.known = facts.identity, facts, sas
        age = ", restarted" if daemon_restarted else ""
        _log.info("%s %s answers, pid %d%s", self.daemon.port.name, facts.version, facts.identity.pid, age)
        observed = Observed(ike_sas=sas, connections=dict.fromkeys(names), key_loaded=self.actions.is_key_loaded)
        self._post(IkeDaemonUp(observed, daemon_restarted))

    def _on_down(self, reason: str) -> None:
        was_up, is_new = self.daemon.facts is not None, self.daemon.down_reason != reason
        self.daemon.facts, self.daemon.down_reason = None, reason
        if was_up or is_new:
            _log.warning("%s does not answer: %s", self.daemon.port.name, reason)
            self._post(IkeDaemonDown(reason))

    def _on_event(self, event: IkeEvent) -> None:
        match event:
            case LogLine(at, _, ike_name, unique_id, text):
                self.actions.loads.feed(text)
                self._on_conclusion(self.actions.log.feed(at, ike_name, unique_id, text))
            case Alert(kind, peer):
                _log.warning("%s: %s%s", self.daemon.port.name, kind, f" ({peer})" if peer else "")
            case SaChanged(peer, kind, up):
                if kind == "ike-updown" and not up:
                    self._on_ended(peer)
                self.readback.mark(peer)

    def _on_conclusion(self, conclusion: Setup | Failure | Asking | None) -> None:
        match conclusion:
            case Asking(address):
                self.proofs.on_asking(address)
            case Setup(peer, ike_sa_init, ike_auth, child):
                self._post(NegotiationTimed(peer, ike_sa_init, ike_auth, child))
            case Failure("", address, cause):
                self.strangers.note(address, cause.words, self._loop.time())
            case Failure(peer, _, cause):
                self.readback.mark(peer, cause.words)

    async def loaded_configuration(self) -> tuple[tuple[Configured, ...], Credentials]:
        """Return the configuration that the IKE daemon has. Raises ``IkeError``."""
        return await self.daemon.port.configured(), await self.daemon.port.credentials()

    @property
    def configured_by_others(self) -> frozenset[str]:
        """Return connections that another program loaded after us, as far as the IKE daemon's log shows it."""
        return frozenset(self.actions.loads.others)

    async def sas(self) -> dict[str, tuple[IkeSa, ...]]:
        """Return the present SAs without reporting them to the engine. Raises ``IkeError``."""
        return await self.daemon.port.ike_sas()
