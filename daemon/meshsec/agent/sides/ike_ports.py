"""Watches that the IKE daemon has its ports, and brings it back when it started without one (ADR 0056)."""

import asyncio
import logging
import os
import signal
from contextlib import suppress

from meshsec.adapters.kernel import udp_sockets
from meshsec.core.ike import udp_ports
from meshsec.core.ike.udp_ports import PortState
from meshsec.core.values.ike_daemon import Traits

PAUSE = 1.0
"""Seconds between two looks while a port is missing; an IKE daemon that has its ports keeps them."""
LEAST_LIFE = 10.0
"""Seconds between two restarts: what keeps a port from it may be something else than another socket."""

_log = logging.getLogger(__name__)


class IkePorts:
    """The ports of one IKE daemon."""

    def __init__(self, daemon: Traits) -> None:
        self._daemon = daemon
        self._turn = 0
        self._ended_at = float("-inf")
        self.problem = ""
        """What is wrong with the ports, as seen last; empty when nothing is."""

    async def look(self, *, is_up: bool) -> PortState:
        """Read who has the ports now."""
        state = udp_ports.judge(udp_ports.parse(await asyncio.to_thread(udp_sockets.table)))
        found = udp_ports.problem(state, self._daemon.program, is_up=is_up)
        if found and found != self.problem:
            _log.warning("IKE ports: %s", found)
        self.problem = found
        return state

    async def settle(self, pid: int) -> None:
        """Watch an IKE daemon that was just met until it has its ports.

        Restart one that opens its ports at its start alone, once they are free. Another opens them when meshsecd asks
        it to listen, which it does at each attempt.
        """
        self._turn += 1
        turn = self._turn
        while turn == self._turn and (state := await self.look(is_up=True)).missing:
            if not state.held and self._daemon.opens_ports_once and self._end(pid):
                return
            await asyncio.sleep(PAUSE)

    def gone(self) -> None:
        """The IKE daemon ended: what was watched is over."""
        self._turn += 1

    def _end(self, pid: int) -> bool:
        """End the process when its unit starts it again; whether it was ended."""
        now = asyncio.get_running_loop().time()
        if now - self._ended_at < LEAST_LIFE or not pid or not udp_sockets.is_in_unit(pid, self._daemon.unit):
            return False
        _log.warning(
            "%s (pid %d) runs without its ports, which are free: it ends and starts again", self._daemon.program, pid
        )
        self._ended_at = now
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return True
