"""The side of the agent that joins this island with others: it keeps the links of ``[[link]]`` up.

Theory of operation. Whatever changes, ``_settle`` is run again: it looks at the uplinks, has the IKE daemon know a
connection for each, begins what this end begins, and has a device for each path whose SA is installed. The router does
the rest: a path is an interface of it, and its HELLO messages notice at once when a path falls silent. So nothing is
negotiated when an uplink fails; the next one has been up all the time.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from meshsec.adapters.kernel import islands as kernel
from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.islands import Uplink
from meshsec.adapters.kernel.netlink import NetlinkError
from meshsec.agent.sides.island_connections import IslandConnections, Uses
from meshsec.agent.sides.kernel import watch
from meshsec.core.channels.events import Event, IkeDaemonUp, SasObserved
from meshsec.core.channels.situation import Situation
from meshsec.core.explain import islands_view
from meshsec.core.islands import state
from meshsec.core.islands.paths import is_link
from meshsec.core.islands.state import Carrier
from meshsec.core.values.islands import InternetLink, Joint
from meshsec.core.values.model import Card, EspBackend

PERIOD = 2.0
"""Seconds between two looks without an event: an uplink's routes may have changed."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class IslandsState:
    """What is known of the outside."""

    uplinks: Mapping[str, Uplink] = field(default_factory=dict)
    up: Mapping[Joint, Carrier] = field(default_factory=dict)
    """The paths that have a device."""
    problem: str = ""
    """What the kernel refused; empty if nothing."""


class IslandsSide:
    """The links over the internet."""

    def __init__(self, links: Sequence[InternetLink], node: Card, known: Situation, uses: Uses) -> None:
        self._links, self._node, self._known = links, node, known
        self.connections = IslandConnections(links, node, known, uses)
        self._joints: tuple[Joint, ...] | None = None
        self.state = IslandsState()

    async def run(self) -> None:
        """Keep the links until cancelled."""
        if not self._links:
            with suppress(NetlinkError):  # what an earlier configuration asked for
                await kernel.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            if self._links:
                tasks.create_task(watch(netlink.address_changes, self._changed))

    def follow(self) -> None:
        """Look again if the paths are others: trust has changed, or the rules for them have come into force."""
        joints = self._admitted()
        if joints != self._joints:
            self._joints = joints
            self.connections.changed.set()

    def without_links(self, event: Event) -> Event | None:
        """Take what an event of the IKE side says of links, and return the rest; None if that is nothing."""
        if isinstance(event, SasObserved) and is_link(event.peer):
            self.connections.seen(event.peer, event.ike_sas)
            return None
        if not isinstance(event, IkeDaemonUp):
            return event
        connections, sas = event.observed.connections, event.observed.ike_sas
        self.connections.met(filter(is_link, connections), {name: own for name, own in sas.items() if is_link(name)})
        rest = replace(
            event.observed,
            connections={name: spec for name, spec in connections.items() if not is_link(name)},
            ike_sas={name: own for name, own in sas.items() if not is_link(name)},
        )
        return replace(event, observed=rest)

    def view(self, now: float) -> list[dict[str, Any]]:
        """Return what people are shown of each link."""
        return [
            islands_view.link(
                one,
                self._node,
                self.connections.card(one.peer),
                islands_view.Seen(
                    {name: (uplink.carrier, uplink.addresses) for name, uplink in self.state.uplinks.items()},
                    {joint.path: carrier for joint, carrier in self.state.up.items() if joint.link == one.peer},
                    {path: self.connections.problem(one.peer, path) for path in range(len(one.uplinks))},
                    now,
                ),
            )
            for one in self._links
        ]

    def plan(self, now: float) -> list[dict[str, Any]]:
        """Return which negotiations this end begins next, as ``plan`` shows actions."""
        return [islands_view.planned(peer, uplink, seconds) for peer, uplink, seconds in self.connections.waiting(now)]

    async def _changed(self) -> None:
        self.connections.changed.set()

    async def _follow(self) -> None:
        while True:
            self.connections.changed.clear()
            try:
                await self._settle()
                self.state.problem = ""
            except NetlinkError as error:
                if str(error) != self.state.problem:
                    _log.error("links: %s", error)
                self.state.problem = str(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(PERIOD, self.connections.due()) if self._links else None):
                    await self.connections.changed.wait()

    async def _settle(self) -> None:
        joints, uplinks = self._admitted(), self.state.uplinks
        if self._links:
            names = dict.fromkeys(uplink for link in self._links for uplink in link.uplinks)
            self.state.uplinks = uplinks = await kernel.look(names)
            if self._is_certain:
                await self._set_devices(joints, uplinks)
                await kernel.assign({joint.own for joint in joints})
                ends = {joint.peer: carrier.uplink for joint, carrier in self.state.up.items()}
                await kernel.set_ways(uplinks, ends if self._known.backend is EspBackend.KERNEL else {})
        await self.connections.settle(joints, uplinks)

    @property
    def _is_certain(self) -> bool:
        """Whether the rules are in force and the SAs are known. Until then what a meshsecd before has set stays."""
        return self._known.rules.in_force is not None and self.connections.is_met

    def _admitted(self) -> tuple[Joint, ...]:
        """Return the paths that the rules in force let through, as far as trust still asks for them."""
        if not self._links:
            return ()
        rules = self._known.rules
        in_force = rules.in_force.joints if rules.in_force else ()
        return tuple(joint for joint in rules.joints() if joint in in_force)

    async def _set_devices(self, joints: Sequence[Joint], uplinks: Mapping[str, Uplink]) -> None:
        live = [name for name, uplink in uplinks.items() if uplink.carrier]
        usable = state.usable(joints, self._links, self.connections.sas, live)
        present = await kernel.set_devices(usable)
        up = {joint: carrier for joint, carrier in usable.items() if joint.device in present}
        for joint in up.keys() - self.state.up.keys():
            _log.info("link to %s: path %d is up over %s", joint.link, joint.path, up[joint].uplink)
        for joint in self.state.up.keys() - up.keys():
            _log.warning("link to %s: path %d is down", joint.link, joint.path)
        self.state.up = up
