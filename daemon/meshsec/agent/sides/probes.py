"""Ask addresses outside whether they answer: the last sign of an uplink that leads nowhere."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from meshsec.adapters.sockets.echo import Echo, EchoError, echo
from meshsec.core.networks.silence import Unanswered
from meshsec.core.values.model import Address

INTERVAL = 0.8
"""Seconds between two requests to an address."""
LIMIT = 3
"""Requests in a row without an answer. The next one finds that out, 3.2 s after the uplink died at most. The router
then has 1.8 of the 5 s in which the gateway is left (ADR 0061)."""
AGAIN = 2

_log = logging.getLogger(__name__)


class Probes:
    """The addresses that a gateway's configuration names."""

    def __init__(self, addresses: Sequence[Address], on_change: Callable[[], None]) -> None:
        """Prepare it. ``on_change`` is called when an address falls silent or answers again."""
        self._asked = {one: Unanswered(one, LIMIT, AGAIN) for one in addresses}
        self._on_change = on_change
        self.enabled = False
        """Whether this node is a gateway."""
        self.problem = ""
        """Why the addresses cannot be asked."""

    @property
    def silent(self) -> frozenset[Address]:
        """Return the addresses that do not answer."""
        return frozenset(address for address, one in self._asked.items() if one.silent)

    async def run(self) -> None:
        """Ask until cancelled."""
        if not self._asked:
            return
        with ExitStack() as stack:
            try:
                versions = {one.version for one in self._asked}
                sockets = {int(one): stack.enter_context(echo(one, self._answered)) for one in versions}
            except EchoError as error:
                self.problem = str(error)
                _log.error("gateway: %s", error)
                return
            while True:
                if self.enabled:
                    self._ask(sockets)
                await asyncio.sleep(INTERVAL)

    def _ask(self, sockets: dict[int, Echo]) -> None:
        before = self.silent
        for address, one in self._asked.items():
            one.asked()
            try:
                sockets[address.version].send(address)
                self.problem = ""
            except EchoError as error:
                self.problem = f"{error}; {_HINT}"
        if self.silent != before:
            self._on_change()

    def _answered(self, address: Address) -> None:
        before = self.silent
        if address in self._asked:
            self._asked[address].answered()
        if self.silent != before:
            self._on_change()


_HINT = (
    "`meshsec export systemd --into /etc/systemd/system` allows meshsecd's unit what [gateway] probe names; then "
    "`systemctl daemon-reload` and `systemctl restart meshsecd`"
)
