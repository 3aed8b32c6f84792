"""Ask the gateways of other nodes whether they are alive, while packets to them get no answer."""

import asyncio
import logging
from collections.abc import Callable
from ipaddress import IPv6Address

from meshsec.adapters.kernel import netlink
from meshsec.adapters.sockets.echo import Echo, EchoError, echo
from meshsec.core.channels.events import Event, GatewaysSilent
from meshsec.core.channels.network_events import gateways
from meshsec.core.channels.situation import Situation
from meshsec.core.networks.networks import DEVICE
from meshsec.core.networks.silence import INTERVAL, Silence, Traffic
from meshsec.core.values.model import Address

IDLE = 1.0
"""Seconds between two looks while there is nothing to watch: a node on a battery should not wake up for nothing."""
READY = 2
"""Gateways that are watched beside those in use: the ones that would take over."""

_log = logging.getLogger(__name__)


class GatewayWatch:
    """The requests to the gateways that this node uses or may use next."""

    def __init__(self, known: Situation, own: IPv6Address, post: Callable[[Event], None]) -> None:
        """Prepare it. ``own`` is this node's address, from which an SA takes the requests."""
        self._known, self._own, self._post = known, own, post
        self._silence = Silence[Address]()
        self._told = frozenset[Address]()
        self.problem = ""
        """Why the gateways cannot be asked; the routing alone then notices one that is dead, in seconds."""

    async def run(self) -> None:
        """Watch until cancelled. With fewer than two gateways nothing is asked, because there is no other choice."""
        try:
            with echo(6, self._silence.answered, self._own) as asking:
                while True:
                    is_watching = self._look(asking)
                    await asyncio.sleep(INTERVAL if is_watching else IDLE)
        except EchoError as error:
            self.problem = str(error)
            _log.warning("gateways are not watched: %s", error)

    def _look(self, asking: Echo) -> bool:
        """Ask whom there is to ask. Return whether there are gateways to watch."""
        used, others = gateways(self._known)
        watched = [*used, *others[:READY]]
        is_watching = len(watched) > 1
        self._silence.follow(watched if is_watching else ())
        if is_watching:
            shared = any(network.prefixlen for network in self._known.networks.in_use)
            for address in self._silence.look(Traffic(*netlink.packets(DEVICE)), used, shared=shared):
                _ask(asking, address)
        silent = self._silence.silent
        if silent != self._told:
            for address in silent - self._told:
                _log.warning("the gateway %s does not answer", address)
            self._told = silent
            self._post(GatewaysSilent(silent))
        return is_watching


def _ask(asking: Echo, address: Address) -> None:
    """Send a request. The fail-closed rules drop it while no SA carries it, which is like a lost one."""
    try:
        asking.send(address)
    except EchoError:
        return
