"""Carry out the engine's actions at the IKE daemon."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine

from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.adapters.ike.causes import no_answer
from meshsec.adapters.ike.ike_log import IkeLog, Loads
from meshsec.agent.sides.ike_daemon import IkeDaemon
from meshsec.agent.sides.ike_readback import Readback
from meshsec.agent.sides.keys import Keys
from meshsec.core.channels.actions import Action, Initiate, LoadConnection, LoadKey, Terminate, UnloadConnection
from meshsec.core.ike.guard import Contest
from meshsec.core.ike.port import CommandError, IkeError
from meshsec.core.policy.capability import LeftOut, NothingLeftError, possible
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import ConnectionSpec
from meshsec.files import FileError

LOG_GRACE = 0.05
"""Seconds that the log may arrive after the failure that it explains, because it uses another connection."""

CONTEST_LOOK = 2.0
"""Seconds after which an attempt is given up if somebody forges answers to it, because the IKE daemon may follow a
false answer and wait in vain. A true answer makes an SA much earlier, but not on a machine that has no time."""
HASTY = 3
"""Number of attempts in a row that are given up so early. The next one has all of its time."""

_CONTESTED = {
    Contest.ANSWERED: Cause("somebody forges answers to the first message in the peer's name", FailureKind.FORGED),
    Contest.REFUSED: Cause("the first message was refused and accepted in the peer's name", FailureKind.DENIED),
}

_log = logging.getLogger(__name__)


class IkeActions:
    """Carries them out, and explains from the daemon's log why one failed."""

    def __init__(
        self, daemon: IkeDaemon, keys: Keys, readback: Readback, contest: Callable[[str], Awaitable[Contest | None]]
    ) -> None:
        self._daemon = daemon
        self._keys = keys
        self._readback = readback
        self._contest = contest
        self._hasty: Counter[str] = Counter()
        self.log = IkeLog()
        """What the daemon's log says about negotiations."""
        self.loads = Loads()
        """What the daemon's log says about loaded connections."""
        self.is_key_loaded = False
        self._left_out: set[LeftOut] = set()

    def forget(self) -> None:
        """Forget what another process of the daemon was given and logged."""
        self.is_key_loaded = False
        self.log.forget()
        self._left_out.clear()
        self._hasty.clear()

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
                return self._unload_connection(name)
            case Initiate(peer, children, timeout):
                return self._initiate(peer, children, timeout)
            case Terminate(unique_id, peer, _, patient):
                return self._terminate(unique_id, peer, patient)
        raise ValueError(f"not for the IKE daemon: {action}")

    async def _load_key(self) -> None:
        await self._daemon.port.load_keys(self._keys.private())
        self.is_key_loaded = True

    async def _load_connection(self, spec: ConnectionSpec) -> None:
        try:
            offered, out = possible(spec, self._daemon.algorithms)
            secret = self._keys.secret_for(spec)
        except (KeyStoreError, FileError, NothingLeftError) as error:
            kind = FailureKind.OWN_DAEMON if isinstance(error, NothingLeftError) else FailureKind.OTHER
            raise CommandError(str(error), kind) from error
        for one in set(out) - self._left_out:
            _log.info("left out of the policy, since %s cannot do it: %s", self._daemon.port.name, one)
        self._left_out.update(out)
        self.loads.begin(spec.name)
        try:
            await self._daemon.port.load_connection(offered, secret)
        except CommandError:
            self.loads.refused(spec.name)
            raise

    async def _unload_connection(self, name: str) -> None:
        del self._hasty[name]
        await self._daemon.port.unload_connection(name)
        await self._readback.read(name)  # What the peer began before, is listed now or never comes.

    async def _initiate(self, peer: str, children: tuple[str, ...], seconds: float) -> None:
        self.log.begin(peer)
        try:
            for child in children:
                await self._negotiate(peer, child, seconds)
        except CommandError as error:
            await asyncio.sleep(LOG_GRACE)
            cause = self.log.failure(peer) or error.cause
            if await self._give_up(peer) and not self.log.failure(peer):
                cause = no_answer(seconds)
            if (contest := await self._contest(peer)) is not None:
                cause = _CONTESTED[contest]
            raise CommandError(cause.words, cause.kind) from error
        await self._readback.read(peer)

    async def _negotiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA; give up early if the IKE daemon may be following a forged answer."""
        attempt = asyncio.ensure_future(self._daemon.port.initiate(peer, child, seconds))
        try:
            ended, _ = await asyncio.wait({attempt}, timeout=CONTEST_LOOK)
            if not ended and await self._is_false(peer):
                raise CommandError(f"no SA after {CONTEST_LOOK:g} s")
            await attempt
            del self._hasty[peer]
        finally:
            attempt.cancel()

    async def _is_false(self, peer: str) -> bool:
        """Return whether the IKE daemon may be following a forged answer, and this attempt is not one to be let go on.

        What a stranger says must not keep a slow pair apart for ever.
        """
        if await self._contest(peer) is not Contest.ANSWERED:
            return False
        self._hasty[peer] = (self._hasty[peer] + 1) % (HASTY + 1)
        return self._hasty[peer] != 0

    async def _give_up(self, peer: str) -> bool:
        """Close half-open SAs with the peer, which the daemon would continue; return whether there were any."""
        waiting = [sa for sa in await self._readback.read(peer) if sa.initiator and sa.is_connecting]
        for sa in waiting:
            await self._daemon.port.terminate(sa.unique_id)
        if waiting:
            await self._readback.read(peer)
        return bool(waiting)

    async def _terminate(self, unique_id: str, peer: str, patient: bool) -> None:
        await self._daemon.port.terminate(unique_id, patient=patient)
        await self._readback.read(peer)
