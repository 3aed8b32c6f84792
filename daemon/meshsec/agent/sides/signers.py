"""Keep on the disk which peers' routers have been seen to sign, so that a restart forgets nobody (ADR 0094)."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from meshsec import files
from meshsec.adapters.files import signer_store
from meshsec.agent.sides.written_file import WrittenFile
from meshsec.core.values.model import Address

AGAIN = 30.0
"""Seconds until the next attempt after a failure: a full disk is not made busier."""

_log = logging.getLogger(__name__)


class SignersFile:
    """The file. It is written when a peer signs for the first time, and when a card goes or has another key."""

    def __init__(self, path: Path) -> None:
        """Prepare the file ``path``, which need not exist."""
        self._file = WrittenFile(path, "who signs routing messages")
        self._wanted: Mapping[Address, bytes] = {}
        self._changed = asyncio.Event()

    async def load(self) -> Mapping[Address, bytes]:
        """Return what was kept before meshsecd's start; nothing, after a warning, if the file cannot be used."""
        try:
            return await asyncio.to_thread(signer_store.load, self._file.path)
        except signer_store.SignerStoreError as error:
            _log.warning("%s: it is learnt again which peers sign their routing messages", error)
            return {}

    def forget(self) -> None:
        """Remove the file, if there is one."""
        try:
            if files.exists(self._file.path):
                files.remove(self._file.path)
        except files.FileError as error:
            _log.warning("who signs routing messages: %s", error)

    def keep(self, signers: Mapping[Address, bytes]) -> None:
        """Keep these from now on."""
        self._wanted = signers
        self._changed.set()

    async def run(self) -> None:
        """Write the file after each change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._file.write(signer_store.text(self._wanted)):
                await asyncio.sleep(AGAIN)
                self._changed.set()
