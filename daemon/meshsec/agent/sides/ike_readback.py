"""Read the IKE daemon's SAs back and report them to the engine."""

import asyncio
import logging

from meshsec.agent.sides.ike_daemon import IkeDaemon, Outside
from meshsec.core.channels.events import SasObserved
from meshsec.core.ike.port import IkeError
from meshsec.core.values.model import IkeSa

_log = logging.getLogger(__name__)


class Readback:
    """The SAs as they were read last, and the peers whose SAs have changed since."""

    def __init__(self, daemon: IkeDaemon, outside: Outside) -> None:
        self._daemon = daemon
        self._post = outside.post
        self._spawn = outside.spawn
        self.known: dict[str, tuple[IkeSa, ...]] = {}
        """The SAs by peer."""
        self.order = asyncio.Lock()
        """Held from a query of the SAs until the result is posted, so that no older result follows a newer one."""
        self._dirty: dict[str, str] = {}
        self._is_reading = False

    def mark(self, peer: str, reason: str = "") -> None:
        """Read back a peer's changed SAs soon; changes at the same moment are read once."""
        self._dirty[peer] = reason or self._dirty.get(peer, "")
        if self._daemon.facts is not None:
            self._read_soon()

    def catch_up(self) -> None:
        """Read back the marked peers after a sign of life of the daemon."""
        if self._dirty:
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
                    await self.read(peer, reason)
                except IkeError as error:
                    self._dirty[peer] = self._dirty.get(peer) or reason
                    _log.warning("SAs with %s: %s", peer, error)
                    return
        finally:
            self._is_reading = False

    async def read(self, peer: str, reason: str = "") -> tuple[IkeSa, ...]:
        """Read back one peer's SAs. Raises ``IkeError``."""
        async with self.order:
            sas = (await self._daemon.port.ike_sas(peer)).get(peer, ())
            self.known.pop(peer, None)
            if sas:
                self.known[peer] = sas
            self._post(SasObserved(peer, sas, reason))
        return sas

    async def read_all(self) -> None:
        """Read back all SAs with their counters. Raises ``IkeError``."""
        async with self.order:
            sas = await self._daemon.port.ike_sas()
            gone = self.known.keys() - sas.keys()
            self.known = sas
            for peer, own in sas.items():
                self._post(SasObserved(peer, own))
            for peer in gone:
                self._post(SasObserved(peer, ()))
