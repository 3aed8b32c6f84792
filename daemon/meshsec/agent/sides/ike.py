"""The IKE daemon's side of the agent: reads its SAs, follows its events and carries out actions.

SAs are always read back from the daemon, and never concluded from an event or a command's success.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.adapters.ike.causes import no_answer
from meshsec.adapters.ike.ike_log import Asking, Failure, IkeLog, Loads, Setup
from meshsec.agent.driver import Spawn
from meshsec.agent.sides.keys import Keys
from meshsec.core.channels.actions import Action, Initiate, LoadConnection, LoadKey, Terminate, UnloadConnection
from meshsec.core.channels.events import Event, IkeDaemonDown, IkeDaemonUp, NegotiationTimed, QuietSeen, SasObserved
from meshsec.core.channels.one_way_watch import OneWayWatch, Quiet, Suspect, unmoved
from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.ike.port import (
    Alert,
    CommandError,
    DaemonFacts,
    DaemonIdentity,
    IkeError,
    IkeEvent,
    IkePort,
    LogLine,
    SaChanged,
)
from meshsec.core.policy.capability import Algorithms, LeftOut, NothingLeftError, possible
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import ConnectionSpec, IkeSa, Observed

HEALTH_INTERVAL = 5.0
"""Seconds between two round trips that prove that the IKE daemon works."""

LOG_GRACE = 0.05
"""Seconds that the log may arrive after the failure that it explains, because it uses another connection."""

MAX_STRANGERS = 64
"""Limit of remembered nodes that asked for an SA without having a card here."""

CONTEST_LOOK = 2.0
"""Seconds after which an attempt is given up if somebody forges answers to it, because the IKE daemon may follow a
false answer and wait in vain. A true answer makes an SA much earlier."""

SIGN_GRACE = 1.0
"""If a peer that has an SA asks for another: seconds for it to finish that negotiation or to use the old SA."""
SIGN_ANSWER = 4.0
"""Seconds for its answer to a rekeying after that; charon sends the request six times in this time."""
SIGN_PAUSE = 10.0
"""Seconds between two such tests of one peer, because a first message can be forged."""
ASKED_OFTEN, ASKED_SECONDS = 6, 600.0
"""So many first messages in so many seconds, from a peer that has an SA, come from two nodes. A node that lost its SA
asks only until the old one is closed here, after about SIGN_GRACE and SIGN_ANSWER."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A node that asked for an SA in vain."""

    address: str
    reason: str
    times: int
    last_at: float


@dataclass(frozen=True, slots=True)
class Outside:
    """What the IKE side reports to the rest of the agent and asks it."""

    post: Callable[[Event], None]
    spawn: Spawn
    on_ended: Callable[[str], None]
    """Called with the peer's name at the end of each IKE_SA, before anything is read back."""
    is_contested: Callable[[str], Awaitable[bool]]
    """Returns whether somebody forges answers in the name of a peer."""
    in_reach: Callable[[str], bool]
    """Returns whether a route leads to a peer."""
    peer_at: Callable[[str], str]
    """Returns the peer with this address, or an empty name."""


class IkeSide:
    """Everything about the IKE daemon."""

    def __init__(self, daemon: IkePort, keys: Keys, outside: Outside) -> None:
        self._loop = asyncio.get_running_loop()
        self._daemon = daemon
        self._keys = keys
        self._post = outside.post
        self._spawn = outside.spawn
        self._on_ended = outside.on_ended
        self._is_contested = outside.is_contested
        self._in_reach = outside.in_reach
        self._peer_at = outside.peer_at
        self._quiet: dict[str, Quiet] = {}
        self._askings: dict[str, deque[float]] = {}
        """Times at which each peer asked for an SA while it had one."""
        self._signs: dict[str, float] = {}
        """Time at which a peer that has an SA was last tested because it asked for another."""
        self._ike_log = IkeLog()
        self._loads = Loads()
        self._identity: DaemonIdentity | None = None
        self._is_key_loaded = False
        self._dirty: dict[str, str] = {}
        self._is_reading = False
        self._order = asyncio.Lock()
        """Held from a query of the SAs until the result is posted, so that no older result follows a newer one."""
        self._known: dict[str, tuple[IkeSa, ...]] = {}
        self._silence = OneWayWatch()
        self.facts: DaemonFacts | None = None
        """The daemon's last report; None while it does not answer."""
        self.algorithms: Algorithms | None = None
        """What the IKE daemon that answered last can do; None if it does not report that."""
        self._left_out: set[LeftOut] = set()
        self._is_looking = False
        self.down_reason = "not reached yet"
        self.strangers: OrderedDict[str, Stranger] = OrderedDict()

    async def run(self) -> None:
        """Follow the IKE daemon until cancelled."""
        try:
            await self._daemon.run(self._on_up, self._on_event, self._on_down)
        finally:
            self._daemon.close()

    async def watch_health(self, on_proof: Callable[[], None]) -> None:
        """Prove by real round trips that the IKE daemon works, and call ``on_proof`` for each proof.

        A daemon that is not running counts as proof too: the kernel has said so, and its unit restarts it. For one that
        accepts connections and does not answer, there is no proof, so that the service manager's watchdog acts.
        """
        while True:
            if await self._is_sound():
                on_proof()
                await self._prove_silent()
            await asyncio.sleep(HEALTH_INTERVAL)

    async def _prove_silent(self) -> None:
        """Test one-way SAs by a rekeying, because the peer may have lost them.

        Peers out of reach are not tested, because a partition must not end an SA.
        """
        if self.facts is None or not self._known:
            self._tell_quiet()
            return
        try:
            sas = {peer: own for peer, own in (await self._daemon.ike_sas()).items() if self._in_reach(peer)}
            for suspect in self._silence.poll(self._loop.time(), sas):
                await (self._close(suspect) if suspect.failed else self._prove(suspect))
        except IkeError as error:
            _log.warning("SAs that are silent: %s", error)
        self._tell_quiet()

    def _tell_quiet(self) -> None:
        quiet = self._silence.quiet(self._loop.time()) if self._known else {}
        if quiet != self._quiet:
            self._quiet = quiet
            self._post(QuietSeen(quiet))

    async def _prove(self, suspect: Suspect) -> None:
        _log.info("nothing comes from %s: its SA is proved by a rekeying", suspect.peer)
        await self._daemon.rekey_child(suspect.ike_sa, suspect.child)

    async def _close(self, suspect: Suspect) -> None:
        _log.warning("nothing comes from %s, and its SA was not rekeyed: it is closed", suspect.peer)
        await self._daemon.terminate(suspect.ike_sa)
        self._mark(suspect.peer, "nothing came from the peer, and it did not answer")

    def _on_asking(self, address: str) -> None:
        """Note that a peer with an SA asks for one: it has lost the SA, or somebody forges its address."""
        peer, now = self._peer_at(address), self._loop.time()
        if not any(sa.children for sa in self._known.get(peer, ())):
            return
        self._askings.setdefault(peer, deque(maxlen=ASKED_OFTEN)).append(now)
        if now - self._signs.get(peer, -SIGN_PAUSE) >= SIGN_PAUSE:
            self._signs[peer] = now
            self._spawn(self._prove_asking(peer))

    @property
    def doubled(self) -> frozenset[str]:
        """Return peers that seem to be two nodes: one has an SA, and another asks for one again and again."""
        since = self._loop.time() - ASKED_SECONDS
        return frozenset(peer for peer, at in self._askings.items() if len(at) == ASKED_OFTEN and at[0] > since)

    async def _prove_asking(self, peer: str) -> None:
        """Close the SAs of a peer that neither sends through them nor answers."""
        try:
            before = (await self._daemon.ike_sas(peer)).get(peer, ())
            await asyncio.sleep(SIGN_GRACE)
            for suspect in unmoved(before, (await self._daemon.ike_sas(peer)).get(peer, ())):
                await self._prove(suspect)
            await asyncio.sleep(SIGN_ANSWER)
            if self._in_reach(peer):
                for suspect in unmoved(before, (await self._daemon.ike_sas(peer)).get(peer, ())):
                    await self._close(suspect)
        except IkeError as error:
            _log.warning("SAs with %s, which asks for another: %s", peer, error)

    def look_soon(self) -> None:
        """Start a query of the IKE daemon, which is a little work for its threads, unless one is in progress."""
        if not self._is_looking:
            self._spawn(self.poll())

    async def poll(self) -> None:
        """Query the state of the IKE daemon if it answers at all."""
        if self.facts is None:
            return
        self._is_looking = True
        try:
            await self._is_sound()
        finally:
            self._is_looking = False

    async def _is_sound(self) -> bool:
        if self.facts is None:
            return self._daemon.is_gone
        try:
            facts = await self._daemon.facts()
            if facts.identity == self._identity:
                self.facts = facts
                if facts.ike_sas != sum(map(len, self._known.values())):
                    await self.read_all()
        except IkeError as error:
            self._lose(str(error))
            return False
        if self._dirty:
            self._read_soon()
        return True

    def _lose(self, reason: str) -> None:
        """Treat the IKE daemon as down and reconnect: it did not answer in time."""
        self._on_down(reason)
        self._daemon.reconnect()

    def _on_up(self, facts: DaemonFacts) -> None:
        self._loads.forget()
        self._spawn(self._learn(facts))

    async def _learn(self, facts: DaemonFacts) -> None:
        """Find out what this IKE daemon already has."""
        async with self._order:
            try:
                names = await self._daemon.connections()
                sas = await self._daemon.ike_sas()
                self.algorithms = await self._daemon.algorithms()
            except IkeError as error:
                self._lose(str(error))
                return
            self._meet(facts, names, sas)
        if self._dirty:
            self._read_soon()

    def _meet(self, facts: DaemonFacts, names: tuple[str, ...], sas: dict[str, tuple[IkeSa, ...]]) -> None:
        """Decide whether this is the daemon process we knew; a new one, or one without connections, is unconfigured."""
        is_same = facts.identity == self._identity
        daemon_restarted = not is_same and (self._identity is not None or not names)
        self._is_key_loaded = self._is_key_loaded and is_same
        if not is_same:
            self._ike_log.forget()
            self._left_out.clear()
        self._identity, self.facts, self._known = facts.identity, facts, sas
        age = ", restarted" if daemon_restarted else ""
        _log.info("%s %s answers, pid %d%s", self._daemon.name, facts.version, facts.identity.pid, age)
        observed = Observed(ike_sas=sas, connections=dict.fromkeys(names), key_loaded=self._is_key_loaded)
        self._post(IkeDaemonUp(observed, daemon_restarted))

    def _on_down(self, reason: str) -> None:
        was_up, is_new = self.facts is not None, self.down_reason != reason
        self.facts, self.down_reason = None, reason
        if was_up or is_new:
            _log.warning("%s does not answer: %s", self._daemon.name, reason)
            self._post(IkeDaemonDown(reason))

    def _on_event(self, event: IkeEvent) -> None:
        match event:
            case LogLine(at, _, ike_name, unique_id, text):
                self._loads.feed(text)
                self._on_told(self._ike_log.feed(at, ike_name, unique_id, text))
            case Alert(kind, peer):
                _log.warning("%s: %s%s", self._daemon.name, kind, f" ({peer})" if peer else "")
            case SaChanged(peer, kind, up):
                if kind == "ike-updown" and not up:
                    self._on_ended(peer)
                self._mark(peer)

    def _on_told(self, told: Setup | Failure | Asking | None) -> None:
        match told:
            case Asking(address):
                self._on_asking(address)
            case Setup(peer, ike_sa_init, ike_auth, child):
                self._post(NegotiationTimed(peer, ike_sa_init, ike_auth, child))
            case Failure("", address, cause):
                self._remember(address, cause.words)
            case Failure(peer, _, cause):
                self._mark(peer, cause.words)

    def _remember(self, address: str, reason: str) -> None:
        known = self.strangers.pop(address, None)
        times = known.times + 1 if known else 1
        self.strangers[address] = Stranger(address, reason, times, self._loop.time())
        if len(self.strangers) > MAX_STRANGERS:
            self.strangers.popitem(last=False)
        if times == 1:
            _log.warning("%s asked for an SA in vain: %s", address, reason)

    def _mark(self, peer: str, reason: str = "") -> None:
        """Read back a peer's changed SAs soon; changes at the same moment are read once."""
        self._dirty[peer] = reason or self._dirty.get(peer, "")
        if self.facts is not None:
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._spawn(self._read_dirty())

    async def _read_dirty(self) -> None:
        """Read back all marked peers. One that fails stays marked until the daemon's next sign of life."""
        try:
            while self._dirty:
                peer, reason = self._dirty.popitem()
                try:
                    await self._read_back(peer, reason)
                except IkeError as error:
                    self._dirty[peer] = self._dirty.get(peer) or reason
                    _log.warning("SAs with %s: %s", peer, error)
                    return
        finally:
            self._is_reading = False

    async def _read_back(self, peer: str, reason: str = "") -> tuple[IkeSa, ...]:
        async with self._order:
            sas = (await self._daemon.ike_sas(peer)).get(peer, ())
            self._known.pop(peer, None)
            if sas:
                self._known[peer] = sas
            self._post(SasObserved(peer, sas, reason))
        return sas

    async def read_all(self) -> None:
        """Read back all SAs with their counters. Raises ``IkeError``."""
        async with self._order:
            sas = await self._daemon.ike_sas()
            gone = self._known.keys() - sas.keys()
            self._known = sas
            for peer, own in sas.items():
                self._post(SasObserved(peer, own))
            for peer in gone:
                self._post(SasObserved(peer, ()))

    async def loaded_configuration(self) -> tuple[tuple[Configured, ...], Credentials]:
        """Return the configuration that the IKE daemon has. Raises ``IkeError``."""
        return await self._daemon.configured(), await self._daemon.credentials()

    @property
    def configured_by_others(self) -> frozenset[str]:
        """Return connections that another program loaded after us, as far as the IKE daemon's log shows it."""
        return frozenset(self._loads.others)

    async def sas(self) -> dict[str, tuple[IkeSa, ...]]:
        """Return the present SAs without reporting them to the engine. Raises ``IkeError``."""
        return await self._daemon.ike_sas()

    async def carry_out(self, action: Action) -> Cause | None:
        """Carry out an action at the IKE daemon; return why it failed."""
        try:
            await self._do(action)
        except IkeError as error:
            return error.cause
        return None

    def _do(self, action: Action) -> Coroutine[None, None, None]:
        match action:
            case LoadKey():
                return self._load_key()
            case LoadConnection(spec):
                return self._load_connection(spec)
            case UnloadConnection(name):
                return self._daemon.unload_connection(name)
            case Initiate(peer, children, timeout):
                return self._initiate(peer, children, timeout)
            case Terminate(unique_id, peer, _, patient):
                return self._terminate(unique_id, peer, patient)
        raise ValueError(f"not for the IKE daemon: {action}")

    async def _load_key(self) -> None:
        await self._daemon.load_keys(self._keys.private())
        self._is_key_loaded = True

    async def _load_connection(self, spec: ConnectionSpec) -> None:
        try:
            told, out = possible(spec, self.algorithms)
            secret = self._keys.secret_for(spec)
        except (KeyStoreError, NothingLeftError) as error:
            kind = FailureKind.OWN_DAEMON if isinstance(error, NothingLeftError) else FailureKind.OTHER
            raise CommandError(str(error), kind) from error
        for one in set(out) - self._left_out:
            _log.info("left out of the policy, since %s cannot do it: %s", self._daemon.name, one)
        self._left_out.update(out)
        self._loads.begin(spec.name)
        try:
            await self._daemon.load_connection(told, secret)
        except CommandError:
            self._loads.refused(spec.name)
            raise

    async def _initiate(self, peer: str, children: tuple[str, ...], seconds: float) -> None:
        self._ike_log.begin(peer)
        try:
            for child in children:
                await self._negotiate(peer, child, seconds)
        except CommandError as error:
            await asyncio.sleep(LOG_GRACE)
            cause = self._ike_log.failure(peer) or error.cause
            if await self._give_up(peer) and not self._ike_log.failure(peer):
                cause = no_answer(seconds)
            if await self._is_contested(peer):
                cause = Cause("somebody forges answers to the first message in the peer's name", FailureKind.FORGED)
            raise CommandError(cause.words, cause.kind) from error
        await self._read_back(peer)

    async def _negotiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA; give up early if the IKE daemon may be following a forged answer."""
        attempt = asyncio.ensure_future(self._daemon.initiate(peer, child, seconds))
        try:
            ended, _ = await asyncio.wait({attempt}, timeout=CONTEST_LOOK)
            if not ended and await self._is_contested(peer):
                raise CommandError(f"no SA after {CONTEST_LOOK:g} s")
            await attempt
        finally:
            attempt.cancel()

    async def _give_up(self, peer: str) -> bool:
        """Close half-open SAs with the peer, which the daemon would continue; return whether there were any."""
        waiting = [sa for sa in await self._read_back(peer) if sa.initiator and sa.is_connecting]
        for sa in waiting:
            await self._daemon.terminate(sa.unique_id)
        if waiting:
            await self._read_back(peer)
        return bool(waiting)

    async def _terminate(self, unique_id: str, peer: str, patient: bool) -> None:
        await self._daemon.terminate(unique_id, patient=patient)
        await self._read_back(peer)
