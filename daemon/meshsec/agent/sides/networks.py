"""The side of the agent that sets the tunnel to networks behind peers."""

import logging
from collections.abc import Callable, Collection, Sequence

from meshsec.adapters.kernel import netlink, tunnel
from meshsec.adapters.kernel.tunnel import TunnelError
from meshsec.agent.sides.kernel import watch
from meshsec.core.channels.actions import RouteNetworks
from meshsec.core.channels.events import Event, TunnelObserved
from meshsec.core.config.networks import DEVICE
from meshsec.core.networks.mtu import inner_mtu
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import Card, EspBackend, Network
from meshsec.core.values.networks import OtherRoute, TunnelRoute

_log = logging.getLogger(__name__)


class NetworksSide:
    """The tunnel's device and its routes. They stay when meshsecd ends, as the SAs do."""

    def __init__(
        self, card: Card, backend: EspBackend, links: Sequence[str], post: Callable[[Event], None], *, used: bool
    ) -> None:
        """``card`` is this node's, ``links`` are the mesh interfaces. Not ``used``: there are no networks."""
        self._own = tunnel.Own(card.address, card.ipv4)
        self._backend, self._links, self._post, self._used = backend, links, post, used
        self._installed: frozenset[TunnelRoute] = frozenset()

    async def found(self) -> tuple[Event, ...]:
        """Return events about a predecessor's routes; without networks they are removed."""
        try:
            if not self._used:
                await tunnel.clear(DEVICE)
                return ()
            self._installed = await tunnel.installed(DEVICE, self._own, self._links)
        except TunnelError as error:
            _log.log(logging.WARNING if self._used else logging.DEBUG, "networks: %s", error)
        return (TunnelObserved(self._installed),)

    async def others(self, networks: Collection[Network]) -> tuple[OtherRoute, ...]:
        """Return the routes of others that lead into networks of peers past the tunnel. Raises ``TunnelError``."""
        return await tunnel.others(networks, DEVICE) if self._used else ()

    async def present(self) -> frozenset[TunnelRoute]:
        """Return the tunnel's routes that are installed at this moment. Raises ``TunnelError``."""
        return await tunnel.installed(DEVICE, self._own, self._links) if self._used else frozenset()

    async def watch_routes(self) -> None:
        """Notice when the device, a route or a rule disappears, until cancelled."""
        if self._used:
            await watch(netlink.way_changes, self._check)

    async def carry_out(self, action: RouteNetworks) -> Cause | None:
        """Set the routes; return why it failed."""
        try:
            mtu = inner_mtu(await netlink.mtus(), self._links, self._backend)
            installed = await tunnel.apply(action.routes, DEVICE, self._own, self._links, mtu)
        except TunnelError as error:
            return Cause(str(error))
        self._report(installed)
        lacking = ", ".join(sorted(str(one.destination) for one in action.routes ^ installed))
        return Cause(f"routes to networks do not read back as they were set: {lacking}") if lacking else None

    async def _check(self) -> None:
        try:
            self._report(await tunnel.installed(DEVICE, self._own, self._links))
        except TunnelError as error:
            _log.warning("networks: %s", error)

    def _report(self, installed: frozenset[TunnelRoute]) -> None:
        if installed != self._installed:
            self._installed = installed
            self._post(TunnelObserved(installed))
