"""The side of the agent that says by which names this node and its peers are known (ADR 0071).

It writes them into a file of its own. `meshsec hosts` puts them into /etc/hosts, and the dnsmasq of an access node
reads the same file, so that meshsecd needs no further privilege.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from meshsec import files
from meshsec.core.formats import hosts
from meshsec.core.names.names import named
from meshsec.core.values.model import Card, Peer

AGAIN = 5.0
"""Seconds until the next attempt after a failure."""
_MODE = 0o644

_log = logging.getLogger(__name__)


class NamesSide:
    """The file with the names."""

    def __init__(self, path: Path, own: Sequence[Card]) -> None:
        """``own`` are the cards of this node's keys, the present one's first."""
        self._path, self._own = path, own
        self._wanted = ""
        self._changed = asyncio.Event()
        self.problem = ""
        """Why the file is not what it ought to be; empty: it is."""

    def follow(self, peers: Iterable[Peer]) -> None:
        """Take over the peers in force."""
        self._wanted = hosts.render(named(self._own, peers))
        self._changed.set()

    async def run(self) -> None:
        """Write the file after each change, until cancelled."""
        written = ""
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = self._wanted
            if wanted == written:
                continue
            if await self._write(wanted):
                written = wanted
            else:
                await asyncio.sleep(AGAIN)
                self._changed.set()

    async def _write(self, text: str) -> bool:
        try:
            files.make_directory(self._path.parent)
            await asyncio.to_thread(files.write, self._path, text.encode(), _MODE)
        except files.FileError as error:
            if str(error) != self.problem:
                _log.warning("names: %s", error)
            self.problem = str(error)
        else:
            self.problem = ""
        return not self.problem
