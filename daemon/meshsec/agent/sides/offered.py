"""The file with what this node and its peers offer, for the clients of this access node (ADR 0072)."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from meshsec.agent.sides.written_file import WrittenFile
from meshsec.core.formats import dns_sd

PACE = 5.0
"""Seconds between two writings: each restarts what answers clients, and peers cannot hasten it."""


class OfferedFile:
    """The file, which is made at the start: its reader waits for its folder."""

    def __init__(self, path: Path) -> None:
        self._file = WrittenFile(path, "services")
        self._offered: Callable[[], Iterable[dns_sd.Offered]] = tuple
        self._changed = asyncio.Event()
        self._changed.set()

    @property
    def problem(self) -> str:
        """Why the file is not what it ought to be; empty: it is."""
        return self._file.problem

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
            if await self._file.write(text):
                written = text
            else:
                self._changed.set()
            await asyncio.sleep(PACE)
