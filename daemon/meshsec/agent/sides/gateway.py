"""The side of the agent that makes this node a gateway: it announces the way out while the uplink leads outside."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from meshsec.adapters.files import gateway_store
from meshsec.adapters.files.gateway_store import GatewayStoreError
from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.netlink import NetlinkError
from meshsec.adapters.kernel.nft import RulesError, Table
from meshsec.agent.sides.kernel import watch
from meshsec.agent.sides.probes import Probes
from meshsec.core.channels import nft_uplink
from meshsec.core.channels.desired import addresses, host
from meshsec.core.channels.events import Event, OwnNetworksSet
from meshsec.core.config.gateway_settings import GatewaySettings
from meshsec.core.config.networks import ConfiguredNetworks
from meshsec.core.config.routing_settings import AttachedNetwork
from meshsec.core.networks.networks import DEFAULTS
from meshsec.core.networks.uplink import UplinkFacts, problems
from meshsec.core.values.gateway import Uplink
from meshsec.core.values.model import Card

LINGER = 8.0
"""Seconds for which packets still pass after the way out was withdrawn, because nodes that have not heard of it send
here. A message of the router takes 5 s to the farthest nodes; olsrd2 is polled each second on both ends, too."""
RULES_PATIENCE = 5.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class GatewayState:
    """What people are shown."""

    uplink: str = ""
    """Empty: this node is no gateway."""
    problems: dict[int, str] = field(default_factory=dict)
    """By IP version why it is not offered; empty where it is."""
    store_problem: str = ""
    """Why the operator's choice is not known."""
    table_problem: str = ""
    """Why the table of the uplink is not in force."""


class Uses(NamedTuple):
    """What the side uses of the agent."""

    announce: Callable[[Iterable[AttachedNetwork]], None]
    post: Callable[[Event], None]
    rules_in_force: Callable[[float], Awaitable[bool]]


class GatewaySide:
    """The uplink's table, and what the router announces beside the networks behind this node."""

    def __init__(
        self, settings: GatewaySettings, store: Path, card: Card, networks: ConfiguredNetworks, uses: Uses
    ) -> None:
        """Prepare it. The protected networks behind this node are announced in any case, those of clients never.

        ``card`` is this node's, whose own addresses use the uplink as those networks do.
        """
        self._settings, self._store, self._uses = settings, store, uses
        self._own = networks.own
        self._using = (*map(host, addresses(card)), *(one.prefix for one in networks.own), *networks.shared)
        self.table = Table(nft_uplink.TABLE)
        self._served: Uplink | None = None
        """The uplink whose table is in force."""
        self._soon = asyncio.Event()
        self._probes = Probes(settings.probe, self._soon.set)
        self._ends_at = 0.0
        """Time of the loop at which the table is removed; it counts while no uplink is chosen."""
        self._choosing = asyncio.Lock()
        self.state = GatewayState()

    async def load(self) -> Event:
        """Read what the operator chose, and return the event that must come before the first rules."""
        self.state.uplink = self._settings.uplink
        try:
            chosen = await asyncio.to_thread(gateway_store.load, self._store)
            self.state.uplink = self._settings.uplink if chosen is None else chosen
        except GatewayStoreError as error:
            self.state.store_problem = str(error)
            _log.warning("gateway: %s", error)
        if not self.state.uplink:  # otherwise what a predecessor announced stays until the uplink was looked at
            self._uses.announce(self._own)
        return self._networks()

    async def choose(self, uplink: str) -> None:
        """Make this node a gateway by this uplink; with an empty name it is one no longer.

        The choice is kept over restarts. Raises GatewayStoreError and then changes nothing.
        """
        async with self._choosing:
            await asyncio.to_thread(gateway_store.save, self._store, uplink)
            self.state = GatewayState(uplink)
            self._ends_at = asyncio.get_running_loop().time() + LINGER
            _log.info("gateway: %s", f"on, by {uplink}" if uplink else "off")
            await self._look()
        self._soon.set()

    async def run(self) -> None:
        """Follow the uplink until cancelled."""
        if not self.state.uplink:
            with suppress(RulesError):  # a predecessor's table may be left; without nft there is none
                await self.table.apply("")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(watch(netlink.uplink_changes, self._changed))
            tasks.create_task(watch(netlink.ruleset_changes, self._set_table))
            tasks.create_task(self._probes.run())

    async def _changed(self) -> None:
        self._soon.set()

    async def _follow(self) -> None:
        while True:
            async with self._choosing:
                await self._look()
            leaving = self._served is not None and not self.state.uplink
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._ends_at if leaving else None):
                    await self._soon.wait()
            self._soon.clear()

    async def _look(self) -> None:
        """Offer what leads outside, and nothing else."""
        uplink = self._settings.by(self.state.uplink) if self.state.uplink else None
        self._probes.enabled = uplink is not None
        if uplink is None:
            await self._leave()
            return
        offered = []
        if await self._serve(uplink):
            self.state.problems = problems(uplink, await self._facts(uplink))
            offered = [version for version, problem in self.state.problems.items() if not problem]
        self._uses.announce([*self._others(), *(AttachedNetwork(DEFAULTS[one]) for one in offered)])

    async def _facts(self, uplink: Uplink) -> UplinkFacts:
        try:
            links, ways = await netlink.links(), await netlink.ways_out()
        except NetlinkError as error:
            _log.warning("gateway: %s", error)
            links, ways = {}, {}
        link = links.get(uplink.interface)
        carrier = link is not None and link.up and link.carrier
        return UplinkFacts(link is not None, carrier, ways, self._settings.probe, self._probes.silent)

    async def _serve(self, uplink: Uplink) -> bool:
        """Set the table, then the rules that let packets through. Return whether both are in force."""
        if self._served != uplink:
            before, self._served = self._served, uplink
            await self._set_table()
            if self.state.table_problem:
                self._served = before  # so that the next look tries again
                return False
            self._uses.post(self._networks())
        return await self._uses.rules_in_force(RULES_PATIENCE)

    async def _leave(self) -> None:
        """Withdraw the way out first. Packets still pass until others have heard of that."""
        self._uses.announce(self._own)
        if self._served is None or asyncio.get_running_loop().time() < self._ends_at:
            return
        self._served = None
        self._uses.post(self._networks())
        await self._uses.rules_in_force(RULES_PATIENCE)
        await self._set_table()

    async def _set_table(self) -> None:
        """Set the table of the uplink that is served, and again when another program changed it."""
        text = nft_uplink.render(self._served, self._using) if self._served else ""
        try:
            if await self.table.settle(text):
                _log.warning("gateway: the table of the uplink was altered or removed; it is set again")
            self.state.table_problem = ""
        except RulesError as error:
            self.state.table_problem = str(error)
            _log.error("gateway: %s", error)

    def _others(self) -> list[AttachedNetwork]:
        """Return the networks behind this node without default routes, which follow the uplink."""
        return [one for one in self._own if one.prefix.prefixlen]

    def _networks(self) -> OwnNetworksSet:
        if not self.state.uplink:
            return OwnNetworksSet(tuple(one.prefix for one in self._own))
        defaults = (DEFAULTS[one] for one in self._settings.by(self.state.uplink).versions)
        return OwnNetworksSet((*(one.prefix for one in self._others()), *defaults))

    def view(self) -> dict[str, Any]:
        """Return what people are shown."""
        state = self.state
        offered = [str(DEFAULTS[version]) for version, problem in state.problems.items() if not problem]
        wrong = (state.store_problem, state.table_problem, self._probes.problem, *state.problems.values())
        return {
            "uplink": state.uplink or None,
            "offers": offered if state.uplink else [],
            "problems": [*dict.fromkeys(filter(None, wrong))],
        }
