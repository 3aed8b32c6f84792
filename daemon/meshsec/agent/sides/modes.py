"""The operator's choice of data planes: saved in a file and reported to the engine."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address
from pathlib import Path

from meshsec.adapters.files import mode_store
from meshsec.adapters.files.mode_store import ModeStoreError
from meshsec.core.channels.events import Event, ModesSet
from meshsec.core.values.model import DataPlane, Modes

_log = logging.getLogger(__name__)


class ModeChoice:
    """The modes in force."""

    def __init__(self, path: Path, post: Callable[[Event], None]) -> None:
        self._path = path
        self._post = post
        self._lock = asyncio.Lock()
        self._modes = Modes()
        self._for_bench: dict[IPv6Address, DataPlane] = {}
        """What a benchmark measures now; it ends with the benchmark or with meshsecd, and no file has it."""
        self.problem = ""
        """Why the file is not in force; then the policy's data plane applies to all peers."""

    async def load(self) -> Event:
        """Read the file and return the event for the engine, which must come before the peers."""
        try:
            self._modes = await asyncio.to_thread(mode_store.load, self._path)
        except ModeStoreError as error:
            self.problem = str(error)
            _log.warning("modes: %s", error)
        return ModesSet(self._modes)

    def measure(self, address: IPv6Address, plane: DataPlane | None) -> None:
        """Use this data plane with a peer while it is measured, or, with None, again what was chosen."""
        self._for_bench = {address: plane} if plane is not None else {}
        self._post(ModesSet(self._in_force()))

    def _in_force(self) -> Modes:
        return replace(self._modes, peers={**self._modes.peers, **self._for_bench})

    async def choose(self, address: IPv6Address | None, plane: DataPlane | None) -> None:
        """Choose for the peer with this address, or, with None, for all peers without a choice of their own.

        ``plane`` None removes the choice. Raises ModeStoreError and then changes nothing.
        """
        async with self._lock:
            if address is None:
                modes = replace(self._modes, default=plane)
            else:
                others = {one: chosen for one, chosen in self._modes.peers.items() if one != address}
                modes = replace(self._modes, peers=others if plane is None else {**others, address: plane})
            if modes == self._modes and not self.problem:
                return
            await asyncio.to_thread(mode_store.save, self._path, modes)
            self._modes, self.problem = modes, ""
            _log.info("mode of %s: %s", address or "all without one of their own", plane or "the default")
            self._post(ModesSet(self._in_force()))
