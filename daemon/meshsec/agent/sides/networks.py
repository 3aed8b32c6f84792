"""The side of the agent that sets the tunnel to networks behind peers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from meshsec.adapters.kernel import clients, netlink, tunnel
from meshsec.adapters.kernel.nft import RulesError, Table
from meshsec.adapters.kernel.tunnel import TunnelError
from meshsec.agent.sides.kernel import watch
from meshsec.agent.sides.routing import ROUTE_PROTOCOL
from meshsec.core.channels import nft_flows
from meshsec.core.channels.actions import RouteNetworks
from meshsec.core.channels.events import Event, TunnelObserved
from meshsec.core.networks.networks import DEVICE, Networks
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import Card, Network
from meshsec.core.values.networks import ForeignRoute, OtherRoute, TunnelRoute

_log = logging.getLogger(__name__)


class NetworksSide:
    """The tunnel's device and its routes. They stay when meshsecd ends, as the SAs do."""

    def __init__(
        self,
        card: Card,
        room: Callable[[Mapping[str, int]], int],
        links: Sequence[str],
        post: Callable[[Event], None],
        networks: Networks,
    ) -> None:
        """``card`` is this node's. ``room`` returns the MTU of the tunnel in bytes by those of all interfaces.
        ``links`` are the mesh interfaces, and ``networks`` is what the engine knows.
        """
        self._own = tunnel.Own(card.address, card.ipv4)
        self._room, self._links, self._post, self._networks = room, links, post, networks
        self.table = Table(nft_flows.TABLE)
        """The table of flows."""
        self._flowing: frozenset[TunnelRoute] | None = None
        """The routes by which the table of flows was set last; None: a predecessor's."""
        self._installed: frozenset[TunnelRoute] = frozenset()

    @property
    def _used(self) -> bool:
        """Whether this node has protected networks or uses some."""
        return bool(self._networks.device)

    async def found(self) -> tuple[Event, ...]:
        """Return events about a predecessor's routes; without networks they are removed."""
        try:
            if not self._used:
                await tunnel.clear(DEVICE)
                await self.table.apply("")
                return ()
            self._installed = await tunnel.installed(DEVICE, self._own, self._links)
        except (TunnelError, RulesError) as error:
            _log.log(logging.WARNING if self._used else logging.DEBUG, "networks: %s", error)
        return (TunnelObserved(self._installed),)

    async def others(self, networks: Collection[Network]) -> tuple[OtherRoute, ...]:
        """Return the routes of others that lead into networks of peers past the tunnel. Raises ``TunnelError``."""
        return await tunnel.others(networks, DEVICE, ROUTE_PROTOCOL) if self._used else ()

    async def foreign(self) -> tuple[ForeignRoute, ...]:
        """Return the routes of others through the tunnel's device. Raises ``TunnelError``."""
        return await tunnel.foreign(DEVICE, (clients.PROTOCOL,)) if self._used else ()

    async def present(self) -> frozenset[TunnelRoute]:
        """Return the tunnel's routes that are installed at this moment. Raises ``TunnelError``."""
        return await tunnel.installed(DEVICE, self._own, self._links) if self._used else frozenset()

    async def watch_routes(self) -> None:
        """Notice when the device, a route or a rule disappears, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch(netlink.way_changes, self._check))
            tasks.create_task(watch(netlink.ruleset_changes, self._restore))

    async def _settle_flows(self) -> bool:
        """Set the table of flows; without a living gateway there is none. Return whether another program changed it."""
        contents = nft_flows.contents(self._networks.installed if self._flowing is None else self._flowing)
        text = nft_flows.render((*self._networks.own, *self._networks.grants)) if contents else ""
        return await self.table.settle(text, contents)

    async def _restore(self) -> None:
        try:
            if await self._settle_flows():
                _log.warning("networks: the table of flows was altered or removed; it is set again")
        except RulesError as error:
            _log.warning("networks: %s", error)

    async def carry_out(self, action: RouteNetworks) -> Cause | None:
        """Set the routes; return why it failed.

        Routes of flows go last, so that the mark of a flow always says which gateway it takes.
        """
        leaving = {one for one in self._installed if one.mark} - action.routes
        try:
            mtu = self._room(await netlink.mtus())
            installed = await tunnel.apply(action.routes | leaving, DEVICE, self._own, self._links, mtu)
            self._flowing = action.routes
            await self._settle_flows()
            if leaving:
                installed = await tunnel.apply(action.routes, DEVICE, self._own, self._links, mtu)
        except (TunnelError, RulesError) as error:
            return Cause(str(error))
        self._report(installed)
        lacking = ", ".join(sorted(str(one.destination) for one in action.routes ^ installed))
        return Cause(f"routes to networks do not read back as they were set: {lacking}") if lacking else None

    async def _check(self) -> None:
        if not self._used:
            return
        try:
            self._report(await tunnel.installed(DEVICE, self._own, self._links))
        except TunnelError as error:
            _log.warning("networks: %s", error)

    def _report(self, installed: frozenset[TunnelRoute]) -> None:
        if installed != self._installed:
            self._installed = installed
            self._post(TunnelObserved(installed))
