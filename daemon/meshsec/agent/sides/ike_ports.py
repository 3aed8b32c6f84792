"""Check that the IKE daemon has its ports, and restart it if it started without one (ADR 0056)."""

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
"""Polling interval in seconds while a port is missing. A daemon that has its ports keeps them."""
LEAST_LIFE = 10.0
"""Shortest time between two restarts in seconds, because the port may be unavailable for another reason."""

_log = logging.getLogger(__name__)


class IkePorts:
    """The ports of one IKE daemon."""

    def __init__(self, daemon: Traits) -> None:
        self._daemon = daemon
        self._turn = 0
        self._ended_at = float("-inf")
        self.problem = ""
        """What was wrong with the ports at the last poll; empty if nothing was."""

    async def poll(self, *, is_up: bool) -> PortState:
        """Read which processes have the ports now."""
        state = udp_ports.judge(udp_ports.parse(await asyncio.to_thread(udp_sockets.table)))
        found = udp_ports.problem(state, self._daemon.program, is_up=is_up)
        if found and found != self.problem:
            _log.warning("IKE ports: %s", found)
        self.problem = found
        return state

    async def settle(self, pid: int) -> None:
        """Check a newly connected IKE daemon until it has its ports.

        A daemon that opens its ports only at its start is restarted once they are free. Other daemons open them when
        meshsecd asks them to listen, which it does at each attempt.
        """
        self._turn += 1
        turn = self._turn
        while turn == self._turn and (state := await self.poll(is_up=True)).missing:
            if not state.held and self._daemon.opens_ports_once and self._end(pid):
                return
            await asyncio.sleep(PAUSE)

    def gone(self) -> None:
        """Stop the check, because the IKE daemon has ended."""
        self._turn += 1

    def _end(self, pid: int) -> bool:
        """End the process if its unit restarts it; return whether it was ended."""
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
