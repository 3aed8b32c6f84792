"""The file with what this node and its peers offer, for the clients of this access node (ADR 0072)."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from meshsec import files
from meshsec.core.formats import dns_sd

PACE = 5.0
"""Seconds between two writings: each restarts what answers clients, and peers cannot hasten it."""
_MODE = 0o644

_log = logging.getLogger(__name__)


class OfferedFile:
    """The file, which is made at the start: its reader waits for its folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offered: Callable[[], Iterable[dns_sd.Offered]] = tuple
        self._changed = asyncio.Event()
        self._changed.set()
        self.problem = ""
        """Why the file is not what it ought to be; empty: it is."""

    def follow(self, offered: Callable[[], Iterable[dns_sd.Offered]]) -> None:
        """Write again what ``offered`` returns: once for all changes of ``PACE``, because it may be long."""
        self._offered = offered
        self._changed.set()

    async def run(self) -> None:
        """Write the file after each change, until cancelled."""
        written = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            text = dns_sd.render(self._offered())
            if text == written:
                continue
            if await self._write(text):
                written = text
            else:
                self._changed.set()
            await asyncio.sleep(PACE)

    async def _write(self, text: str) -> bool:
        try:
            files.make_directory(self._path.parent)
            await asyncio.to_thread(files.write, self._path, text.encode(), _MODE)
        except files.FileError as error:
            if str(error) != self.problem:
                _log.warning("services: %s", error)
            self.problem = str(error)
        else:
            self.problem = ""
        return not self.problem
