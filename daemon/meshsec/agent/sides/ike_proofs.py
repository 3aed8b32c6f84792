"""Test SAs that may be one-way: nothing comes through them, or their peer asks for another."""

import asyncio
import logging

from meshsec.agent.sides.ike_daemon import IkeDaemon, Outside
from meshsec.agent.sides.ike_readback import Readback
from meshsec.core.channels.events import QuietSeen
from meshsec.core.channels.one_way_watch import OneWayWatch, Quiet, Suspect, unmoved
from meshsec.core.ike.port import IkeError

SIGN_GRACE = 1.0
"""If a peer that has an SA asks for another: seconds for it to finish that negotiation or to use the old SA."""
SIGN_ANSWER = 4.0
"""Seconds for its answer to a rekeying after that; charon sends the request six times in this time."""
SIGN_PAUSE = 10.0
"""Seconds between two such tests of one peer, because a first message can be forged."""

_log = logging.getLogger(__name__)


class Proofs:
    """Proves suspected SAs by a rekeying, and closes those whose peer does not answer."""

    def __init__(self, daemon: IkeDaemon, readback: Readback, outside: Outside) -> None:
        self._loop = asyncio.get_running_loop()
        self._daemon = daemon
        self._readback = readback
        self._post = outside.post
        self._spawn = outside.spawn
        self._in_reach = outside.in_reach
        self._peer_at = outside.peer_at
        self._watch = OneWayWatch()
        self._quiet: dict[str, Quiet] = {}
        self._signs: dict[str, float] = {}
        """Time at which a peer that has an SA was last tested because it asked for another."""

    async def poll(self) -> None:
        """Test one-way SAs by a rekeying, because the peer may have lost them.

        Peers out of reach are not tested, because a partition must not end an SA.
        """
        if self._daemon.facts is None or not self._readback.known:
            self._tell_quiet()
            return
        try:
            sas = {peer: own for peer, own in (await self._daemon.port.ike_sas()).items() if self._in_reach(peer)}
            for suspect in self._watch.poll(self._loop.time(), sas):
                await (self._close(suspect) if suspect.failed else self._prove(suspect))
        except IkeError as error:
            _log.warning("SAs that are silent: %s", error)
        self._tell_quiet()

    def _tell_quiet(self) -> None:
        quiet = self._watch.quiet(self._loop.time()) if self._readback.known else {}
        if quiet != self._quiet:
            self._quiet = quiet
            self._post(QuietSeen(quiet))

    async def _prove(self, suspect: Suspect) -> None:
        _log.info("nothing comes from %s: its SA is proved by a rekeying", suspect.peer)
        await self._daemon.port.rekey_child(suspect.ike_sa, suspect.child)

    async def _close(self, suspect: Suspect) -> None:
        _log.warning("nothing comes from %s, and its SA was not rekeyed: it is closed", suspect.peer)
        await self._daemon.port.terminate(suspect.ike_sa)
        self._readback.mark(suspect.peer, "nothing came from the peer, and it did not answer")

    def on_asking(self, address: str) -> None:
        """Note that a peer with an SA asks for one: it has lost the SA, or somebody forges its address."""
        peer, now = self._peer_at(address), self._loop.time()
        if not any(sa.children for sa in self._readback.known.get(peer, ())):
            return
        if now - self._signs.get(peer, -SIGN_PAUSE) >= SIGN_PAUSE:
            self._signs[peer] = now
            self._spawn(self._prove_asking(peer))

    async def _prove_asking(self, peer: str) -> None:
        """Close the SAs of a peer that neither sends through them nor answers."""
        try:
            before = (await self._daemon.port.ike_sas(peer)).get(peer, ())
            await asyncio.sleep(SIGN_GRACE)
            for suspect in unmoved(before, (await self._daemon.port.ike_sas(peer)).get(peer, ())):
                await self._prove(suspect)
            await asyncio.sleep(SIGN_ANSWER)
            if self._in_reach(peer):
                for suspect in unmoved(before, (await self._daemon.port.ike_sas(peer)).get(peer, ())):
                    await self._close(suspect)
        except IkeError as error:
            _log.warning("SAs with %s, which asks for another: %s", peer, error)
