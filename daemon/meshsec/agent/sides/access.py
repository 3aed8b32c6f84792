"""The side of the agent that serves clients: it learns who is here, agrees with the others, and sets the ways.

The path of a move: an access point says that a client has come, ``_sighted`` takes it over and tells the other access
nodes, and the way to it is set at once. The node that served it answers with the gateways of its flows, and forwards
what still comes to the new one. Packets of the client itself wait for that answer, at most ``PATIENCE``, so that no
flow is taken for a new one, which another gateway would translate.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import NamedTuple

from meshsec import files
from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.flows import FlowsError, flows_of
from meshsec.adapters.radio import hostapd
from meshsec.adapters.sockets.peer_datagrams import PeerDatagramsError
from meshsec.adapters.sockets.sightings import SightingsError, sightings
from meshsec.agent.sides.access_kernel import AccessKernel
from meshsec.agent.sides.access_talk import AccessTalk, Listeners
from meshsec.agent.sides.kernel import watch
from meshsec.core.access.clients import Change, Client, Clients, Refused, Sighting
from meshsec.core.access.holders import Holders
from meshsec.core.access.messages import FLOWS_MAX, Flow
from meshsec.core.access.shared_address import addresses_of
from meshsec.core.channels.desired import host
from meshsec.core.channels.events import ClientsSet, Event
from meshsec.core.channels.network_events import carries, of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.config.settings import Paths
from meshsec.core.formats import dnsmasq
from meshsec.core.networks.outside import is_outside
from meshsec.core.values.host_names import ClientName
from meshsec.core.values.model import Address, Network, peer_name

PATIENCE = 1.0
"""Seconds for which a client's packets wait for the answer of the node that served it, unless that is known to be dead:
five repetitions. Who waits too short ends the client's connections, and who waits for a dead node loses less than the
client itself takes to notice that its access point is gone."""
LINGER = 12.0
"""Seconds for which a client that moved away is announced still: two messages of the router reach all nodes by then."""
HANDING = 5.0
"""Seconds at most for which this side leads to the new node, until the route of the other networks does."""
KEPT_FLOW = 600.0
"""Seconds for which the gateway of a flow is kept that has sent nothing since its client's move."""
PERIOD = 60.0
"""Seconds between two tellings of all clients, and after which leftovers are looked for."""
AGAIN = 5.0
REFUSALS_MAX = 64
"""Refusals that are logged and shown: a flood of them fills neither. A full list is emptied each ``PERIOD``."""

_log = logging.getLogger(__name__)


class Uses(NamedTuple):
    """What the side uses of the agent."""

    announce: Callable[[Iterable[Network]], None]
    post: Callable[[Event], None]
    spawn: Callable[[Coroutine[None, None, None]], None]
    names: Callable[[tuple[ClientName, ...]], None]
    """Takes what the clients of this node are called."""
    remembered: Callable[[Address], str]
    """Returns what the client with this address was called before meshsecd's start."""
    page_port: int | None = None
    """Where clients see this node's page; None: nowhere."""


class AccessSide:
    """The clients of this node and of the others."""

    def __init__(self, settings: AccessSettings, paths: Paths, own: IPv6Address, known: Situation, uses: Uses) -> None:
        self.settings, self._own, self.known, self._uses = settings, own, known, uses
        self._hosts_file = Path(paths.run) / "access" / "clients"
        self._sightings = Path(paths.sightings_socket)
        self._access_point = Path(paths.hostapd_control, settings.radio.interface) if settings.radio else None
        self.heard_at = float("-inf")
        """When the process that hears clients gave its last sign of life."""
        self._hosts = ""
        self.enabled = bool(settings.networks)
        """Whether this node is an access node."""
        self._loop = asyncio.get_running_loop()
        reserved = [one.ip for one in addresses_of(settings.networks)]
        self.clients = Clients(own, settings.networks, reserved, settings.clients)
        self.holders = Holders()
        self.kernel = AccessKernel(settings, own, uses.page_port)
        self.talk = AccessTalk(
            own, Listeners(self._greeted, self._claimed, self._flows, self._moved, self._answered), uses.spawn
        )
        self._waiting: dict[str, tuple[int, IPv6Address, float]] = {}
        """By MAC address: the claim that a former node is to answer, that node, and until when packets wait."""
        self._handing: dict[Address, tuple[IPv6Address, float]] = {}
        """Who serves the addresses of clients that moved away, while the route there is not set."""
        self._leaving: dict[Address, float] = {}
        """Until when an address is announced still."""
        self._kept_flows: dict[object, tuple[Flow, float]] = {}
        """The flows that moved here with their clients, by their ends, and until when each is kept."""
        self._dirty = asyncio.Event()
        self.refused: dict[tuple[str, str], int] = {}
        """How often a client was refused something, by its MAC address and the reason."""
        self.failures: dict[str, str] = {}
        """What is wrong with each part of this side; empty where nothing is."""

    async def run(self) -> None:
        """Serve until cancelled."""
        found = await self.kernel.begin()
        if not self.enabled:
            self._uses.announce(())
            return
        for one in sorted(found, key=str):
            self._sighted(Sighting(one.mac, one.address, name=self._uses.remembered(one.address)))
        self._dirty.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep("clients", self._hear))
            tasks.create_task(self._keep("access nodes", self.talk.run))
            tasks.create_task(self._follow())
            tasks.create_task(self._tell_all())
            tasks.create_task(watch(netlink.ruleset_changes, self.kernel.settle))
            tasks.create_task(watch(netlink.link_changes, self.kernel.settle))

    def follow(self) -> None:
        """Update which access nodes are in reach, after each of the engine's turns."""
        if not self.enabled:
            return
        nodes = {
            card.address: carries(self.known, channel)
            for channel, card in of_present_key(self.known)
            if peer_name(channel.title) in self.settings.peers
        }
        self.clients.nodes = frozenset(nodes)
        reached = frozenset(address for address, is_protected in nodes.items() if is_protected)
        fresh = reached - self.talk.peers
        self.talk.peers = reached
        if fresh:
            self.talk.greet(fresh)
            for client in self.clients.served:
                self.talk.say(client, fresh)
        if self._handing:
            self._dirty.set()

    # --- what comes in ---

    async def _hear(self, on_ready: Callable[[], None]) -> None:
        with sightings(self._sightings, self._told):
            on_ready()
            await asyncio.Event().wait()

    def _told(self, sighting: Sighting | None) -> None:
        self.heard_at = self._loop.time()
        if sighting is not None:
            self._sighted(sighting)

    def _sighted(self, sighting: Sighting) -> None:
        found = self.clients.sighted(sighting, self._loop.time())
        if isinstance(found, Refused):
            self._refuse(found)
        elif found is not None:
            self._changed(found)

    def _refuse(self, refused: Refused) -> None:
        if refused not in self.refused:
            if len(self.refused) >= REFUSALS_MAX:
                return
            _log.warning("access: the client %s is refused: %s", refused.mac, refused.reason)
        self.refused[refused] = self.refused.get(refused, 0) + 1

    def _greeted(self, peer: IPv6Address) -> None:
        for client in self.clients:
            self.talk.mention(client, [peer])

    def _claimed(self, client: Client, peer: IPv6Address) -> None:
        for change in self.clients.heard(client, peer, self._loop.time()):
            self._changed(change)

    def _changed(self, change: Change) -> None:
        now, client, before = self._loop.time(), change.client, change.before
        if client.node == self._own:
            if before is not None and before.node in self.talk.peers:
                self._waiting[client.mac] = client.number, before.node, now + PATIENCE
            self.talk.say(client, self.talk.peers)
        elif before is not None and before.node == self._own:
            self._leaving |= dict.fromkeys(before.addresses, now + LINGER)
            self._handing |= dict.fromkeys(client.addresses, (client.node, now + HANDING))
            if self._access_point is not None:
                _has_left(client.mac, self._access_point)
        self._dirty.set()

    def _moved(self, mac: str, number: int, flows: list[Flow]) -> None:
        client = self.clients.of(mac)
        if client is None or client.node != self._own or client.number < number:
            return
        kept = sum(flow.source in client.addresses for flow, _ in self._kept_flows.values())
        taken = [flow for flow in flows if flow.source in client.addresses][: max(0, FLOWS_MAX - kept)]
        self._kept_flows |= {flow.ends: (flow, self._loop.time() + KEPT_FLOW) for flow in taken}

    def _answered(self, mac: str, number: int, peer: IPv6Address) -> None:
        waiting = self._waiting.get(mac)
        if waiting is not None and waiting[1] == peer and waiting[0] <= number:
            del self._waiting[mac]
            self._dirty.set()

    async def _flows(self, mac: str, peer: IPv6Address) -> list[Flow]:
        """Return the flows of a client that has moved to a peer from here."""
        client = self.clients.of(mac)
        if client is None or client.node != peer:
            return []
        networks = self.known.networks
        gateways = {mark: gateway for gateway, mark in networks.flows.present.items()}
        if any(one.prefixlen == 0 for one in networks.own):
            gateways[0] = self._own  # flows that leave here have no mark
        waiting = [flow for flow, _ in self._kept_flows.values() if flow.source in client.addresses]
        try:
            found = await flows_of(client.addresses, gateways) if gateways else []
        except FlowsError as error:
            _log.warning("access: the flows of %s cannot be told: %s", mac, error)
            found = []
        inside = (*networks.own, *networks.grants)
        by_ends = {flow.ends: flow for flow in (*waiting, *found)}
        return [flow for flow in by_ends.values() if is_outside(flow.target, inside)][:FLOWS_MAX]

    # --- what follows from it ---

    async def _follow(self) -> None:
        while True:
            waits, hands = self._waiting.values(), self._handing.values()
            ends = (*(one[2] for one in waits), *(one[1] for one in hands), *self._leaving.values())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(ends, default=None)):
                    await self._dirty.wait()
            self._dirty.clear()
            await self._apply()

    async def _apply(self) -> None:
        """Set the ways first: what the engine and the router make of it takes longer, and is not waited for."""
        now = self._loop.time()
        served, elsewhere = self.clients.served, self.clients.elsewhere
        self._prune(now)
        self._waiting = {mac: one for mac, one in self._waiting.items() if one[2] > now}
        handed = {address: node for address, (node, _) in self._handing.items()}
        marks = self.known.networks.flows.present
        flows = {flow: marks[flow.gateway] for flow, _ in self._kept_flows.values() if flow.gateway in marks}
        senders = (client for client in served if client.mac not in self._waiting)
        if not await self.kernel.serve(served, handed, senders, flows):
            self._loop.call_later(AGAIN, self._dirty.set)
        here = dict.fromkeys((one for client in served for one in client.addresses), self._own)
        self._uses.post(ClientsSet({host(address): node for address, node in (elsewhere | here).items()}))
        addresses = dict.fromkeys((*here, *self._leaving))
        self._uses.announce([*self.settings.networks, *map(host, addresses)])
        self._uses.names(self.holders.settle(served))
        await self._write_hosts()

    def _prune(self, now: float) -> None:
        in_use, here = self.known.networks.in_use, {one for client in self.clients.served for one in client.addresses}
        self._handing = {
            address: (node, until)
            for address, (node, until) in self._handing.items()
            if until > now and address not in here and in_use.get(host(address)) != node
        }
        self._leaving = {one: until for one, until in self._leaving.items() if until > now and one not in here}
        self._kept_flows = {
            ends: (flow, until)
            for ends, (flow, until) in self._kept_flows.items()
            if until > now and flow.source in here
        }

    async def _write_hosts(self) -> None:
        text = dnsmasq.hosts(self.clients)
        if text == self._hosts:
            return
        try:
            files.make_directory(self._hosts_file.parent)
            await asyncio.to_thread(files.write, self._hosts_file, text.encode(), 0o644)
        except files.FileError as error:
            self._fails("addresses", str(error))
        else:
            self._hosts = text
            self._fails("addresses", "")

    async def _tell_all(self) -> None:
        """Say from time to time who is here, and forget who has left."""
        while True:
            await asyncio.sleep(PERIOD)
            if len(self.refused) >= REFUSALS_MAX:
                self.refused.clear()
            for change in self.clients.forget(self._loop.time()):
                self._changed(change)
            for client in self.clients.served:
                self.talk.mention(client, self.talk.peers)
            self._dirty.set()

    async def _keep(self, name: str, part: Callable[[Callable[[], None]], Coroutine[None, None, None]]) -> None:
        """Run a part, and again after a failure. It calls back when it works."""
        while True:
            try:
                await part(lambda: self._fails(name, ""))
            except (SightingsError, PeerDatagramsError) as error:
                self._fails(name, str(error))
            await asyncio.sleep(AGAIN)

    def _fails(self, name: str, problem: str) -> None:
        """Note what is wrong with a part; empty: nothing."""
        if problem and problem != self.failures.get(name):
            _log.warning("access: %s", problem)
        self.failures[name] = problem


def _has_left(mac: str, access_point: Path) -> None:
    """Tell an access point, which would take a client that comes back for present and ask it first, for a second.

    See IEEE 802.11-2020, section 11.13. A client that walks leaves without a word.
    """
    try:
        hostapd.forget(access_point, mac)
    except hostapd.HostapdError as error:
        _log.warning("access: %s", error)
