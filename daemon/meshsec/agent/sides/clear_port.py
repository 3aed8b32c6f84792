"""The port for what nodes say to each other without an SA: requests to join (ADR 0070), and claims (ADR 0079)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv6Address

from meshsec.adapters.sockets.join_datagrams import JoinDatagrams, join_datagrams
from meshsec.core.explain.findings import Check, Level
from meshsec.core.trust.joining import PORT

_LISTEN_AGAIN = 2.0
"""Seconds until the port is tried again."""
_RULES_SECONDS = 10.0

_log = logging.getLogger(__name__)


class ClearPort:
    """The open socket, and who gets what comes to it."""

    def __init__(self, here: IPv6Address, rules_in_force: Callable[[float], Awaitable[bool]]) -> None:
        """Prepare it. ``rules_in_force`` waits for as many seconds until the wanted rules are in force."""
        self._here, self._rules_in_force = here, rules_in_force
        self._handlers: dict[int, Callable[[IPv6Address, bytes], None]] = {}
        self._wanted = asyncio.Event()
        self._socket: JoinDatagrams | None = None
        self.open = asyncio.Event()
        """Set while the socket is open and the rules let pass what belongs to it."""
        self.problem = ""
        """Why nobody can be heard; empty if all can, or nothing is wanted."""

    def take(self, kinds: Collection[int], handler: Callable[[IPv6Address, bytes], None]) -> None:
        """Give the datagrams of these kinds to a handler, with their sender."""
        self._handlers.update(dict.fromkeys(kinds, handler))

    def want(self) -> None:
        """Open the port, if it is not open yet, and keep it open."""
        self._wanted.set()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._wanted.wait()
        while self._socket is None:
            await self._listen()
        await self._rules_in_force(_RULES_SECONDS)  # else the first datagram would be lost
        self.open.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._socket.close()

    async def _listen(self) -> None:
        try:
            self._socket = await join_datagrams(self._here, self._heard)
            self.problem = ""
        except OSError as error:
            problem = f"UDP port {PORT} of {self._here}: {error.strerror or error}"
            if problem != self.problem:
                _log.warning("datagrams without an SA: %s", problem)
            self.problem = problem
            await asyncio.sleep(_LISTEN_AGAIN)

    def send(self, address: IPv6Address, octets: bytes) -> None:
        """Send a datagram. One that the kernel or the rules drop is like a lost one."""
        if self._socket is not None:
            self._socket.send(address, octets)

    def _heard(self, sender: IPv6Address, octets: bytes) -> None:
        handler = self._handlers.get(octets[1]) if len(octets) > 1 else None
        if handler is not None and sender != self._here:
            handler(sender, octets)

    def checks(self) -> list[Check]:
        """Return doctor's check where something is wrong."""
        if not self.problem:
            return []
        fix = f"`ss -lunp 'sport = :{PORT}'` names the program that has it, `kill PID` ends it"
        return [Check("join port", Level.WARN, self.problem, fix)]
