"""What the kernel does for the clients of an access node: the bridge, the way to each, and who may send."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from ipaddress import IPv6Address

from meshsec.adapters.kernel import clients as kernel
from meshsec.adapters.kernel.clients import ClientsError, Handed, Host
from meshsec.adapters.kernel.nft import RulesError, Table
from meshsec.core.access.clients import Client
from meshsec.core.access.messages import Flow
from meshsec.core.access.shared_address import DEVICE, addresses_of, mac_of
from meshsec.core.channels import nft_access
from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.values.model import Address

_log = logging.getLogger(__name__)


class AccessKernel:
    """The bridge, its table, and the routes to clients. They stay when meshsecd ends."""

    def __init__(self, settings: AccessSettings, own: IPv6Address, page_port: int | None) -> None:
        """``page_port``: where clients see this node's page; None: nowhere."""
        self._settings, self._own, self._page_port = settings, own, page_port
        self._networks = settings.networks
        self.table = Table(nft_access.TABLE)
        self._contents = nft_access.contents((), {})
        self._ways: tuple[list[Host], list[Handed]] | None = None
        """Those that were asked for last."""
        self.problem = ""
        """Why clients cannot be served; empty if they can."""
        self.lacking: tuple[str, ...] = ()
        """The ports that do not exist (yet)."""

    async def begin(self) -> frozenset[Host]:
        """Set everything up and return the ways to clients that a predecessor left.

        The table comes before the bridge, and goes after it, so that no client is ever served without it.
        """
        if not self._networks:
            await self._end()
            return frozenset()
        try:
            await self._set_table()
            await self._set_bridge()
            self.problem = ""
            return await kernel.hosts(DEVICE)
        except (ClientsError, RulesError) as error:
            self._failed(error)
            return frozenset()

    async def settle(self) -> None:
        """Set again what another program changed, and take up ports that have appeared."""
        try:
            if await self._set_table():
                _log.warning("access: the table of the clients was altered or removed; it is set again")
            await self._set_bridge()
            self.problem = ""
        except (ClientsError, RulesError) as error:
            self._failed(error)

    async def serve(
        self,
        served: Iterable[Client],
        handed: Mapping[Address, IPv6Address],
        senders: Iterable[Client],
        marks: Mapping[Flow, int],
    ) -> bool:
        """Set the ways to clients, and to those that others serve now; take packets from ``senders``, and give their
        flows these marks. Return whether all of it is in force.

        Where the ways are as before, packets wait for the table alone: a former node has answered.
        """
        ways = [Host(address, one.mac) for one in served for address in one.addresses]
        to_others = [Handed(address, node) for address, node in handed.items()]
        self._contents = nft_access.contents(senders, marks)
        fill = partial(self.table.fill, self._contents)
        route = partial(kernel.set_hosts, DEVICE, ways, to_others, self._own, self._networks)
        if self._ways == (ways, to_others):
            return all([await self._is_done(fill), await self._is_done(route)])
        self._ways = ways, to_others
        return all(await asyncio.gather(self._is_done(route), self._is_done(fill)))

    async def _is_done(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except (ClientsError, RulesError) as error:
            self._failed(error)
            return False
        return True

    async def _set_table(self) -> bool:
        text = nft_access.render(self._networks, isolated=self._settings.isolated, page_port=self._page_port)
        return await self.table.settle(text, self._contents)

    async def _set_bridge(self) -> None:
        networks = self._networks
        self.lacking = await kernel.set_bridge(DEVICE, mac_of(networks), addresses_of(networks), self._settings.ports)

    async def _end(self) -> None:
        """Remove what a predecessor left, which may have served clients."""
        try:
            await kernel.remove_bridge(DEVICE)
            await self.table.apply("")
        except (ClientsError, RulesError) as error:
            _log.debug("access: %s", error)

    def _failed(self, error: BaseException) -> None:
        if str(error) != self.problem:
            _log.warning("access: %s", error)
        self.problem = str(error)
