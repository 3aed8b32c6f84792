"""The agent: one event loop that connects the outside systems, the engine and the control socket.

The path of a topology event: ``Routing`` gets it from the routing daemon and posts it. ``Driver`` passes it to the
engine, and the turn at the end of the loop's round starts the engine's actions. ``IkeActions`` carries out ``Initiate``
through VICI. After charon's events ``Readback`` reads the SAs back and posts them. The engine decides that the channel
is protected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from meshsec.adapters.ike import client
from meshsec.adapters.kernel import netlink, xfrm
from meshsec.adapters.sockets.control import VIEW_GROUP, ControlServer, publisher
from meshsec.adapters.sockets.listeners import Keeper
from meshsec.adapters.sockets.notify import Notifier, watchdog_interval
from meshsec.agent.control.page_requests import PageRequests
from meshsec.agent.control.requests import Requests
from meshsec.agent.control.sides import Sides
from meshsec.agent.driver import Driver
from meshsec.agent.sides import access, bench, leftovers, levels
from meshsec.agent.sides.access import AccessSide
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.configuration import ConfigurationFile
from meshsec.agent.sides.fleet import FleetSide
from meshsec.agent.sides.gateway import GatewaySide, Uses
from meshsec.agent.sides.gateway_watch import GatewayWatch
from meshsec.agent.sides.ike import IkeSide
from meshsec.agent.sides.ike_daemon import Outside
from meshsec.agent.sides.ike_ports import IkePorts
from meshsec.agent.sides.island_connections import Uses as IslandUses
from meshsec.agent.sides.islands import IslandsSide
from meshsec.agent.sides.joining import JoiningSide
from meshsec.agent.sides.joining import Surroundings as JoiningSurroundings
from meshsec.agent.sides.kernel import KernelSide, watch
from meshsec.agent.sides.keys import Keys
from meshsec.agent.sides.modes import ModeChoice
from meshsec.agent.sides.names import NamesSide
from meshsec.agent.sides.networks import NetworksSide
from meshsec.agent.sides.offered import OfferedFile
from meshsec.agent.sides.overlay import OverlaySide
from meshsec.agent.sides.paths import PathsSide
from meshsec.agent.sides.paths import Uses as PathUses
from meshsec.agent.sides.peer_talk import PeerTalk
from meshsec.agent.sides.positions import PositionsSide
from meshsec.agent.sides.routing import Routing
from meshsec.agent.sides.scheduling import CharonSide, Scheduling
from meshsec.agent.sides.services import ServicesSide, Takers
from meshsec.agent.sides.surroundings import Around
from meshsec.agent.sides.trust import Trust
from meshsec.agent.sides.twins import TwinsSide
from meshsec.agent.start import Start, configured_engine, offered
from meshsec.core.channels.actions import Action, Side
from meshsec.core.channels.desired import endpoint
from meshsec.core.channels.events import Event, IkeDaemonDown, IkeDaemonUp, RoutesReset
from meshsec.core.config.networks import configured_networks
from meshsec.core.config.settings import Settings
from meshsec.core.explain import views
from meshsec.core.explain.channel_status import Shown, shown
from meshsec.core.ike.guard import Contest
from meshsec.core.networks.mtu import inner_mtu
from meshsec.core.scheduling.profiles import SIGNER
from meshsec.core.values.failures import Cause
from meshsec.core.values.host_names import ClientName

LINGER = 10.0
"""Seconds that an ended key's address stays; charon repeats unconfirmed messages for about as long."""

_log = logging.getLogger(__name__)


def _namer(here: NamesSide, peers: ServicesSide) -> Callable[[tuple[ClientName, ...]], None]:
    """Return a function that says here and to peers what the clients of this node are called."""

    def name(names: tuple[ClientName, ...]) -> None:
        here.of_this_node(names)
        peers.client_names.tell(names)

    return name


class Agent:
    """Run until cancelled. SAs, rules and addresses then stay in place."""

    def __init__(self, start: Start) -> None:
        """Prepare the agent. Call this in the event loop in which it will run."""
        settings, card, backend = start.settings, start.card, start.esp.backend
        self.start = start
        self._notifier = Notifier()
        overlay_device = settings.overlay.device if settings.overlay.enabled else ""
        networks = configured_networks(settings.routing, settings.policy, settings.access, settings.links)
        engine = configured_engine(start, networks, overlay_device)
        self.driver = Driver(engine, self._carry_out, self._on_turn, self._spawn)
        self.trust = Trust(
            Path(settings.paths.peers), card, self.driver.post, Around(settings, start.cards).poll, start.sides
        )
        self.names = NamesSide(Path(settings.paths.names), start.cards, engine.known)
        self.trust.on_peers = self.names.follow
        self.fleet = FleetSide(card.address, self.trust, self._spawn)
        keys = Keys(Path(settings.paths.key), is_changing=len(start.cards) > 1)
        self.port = ClearPort(endpoint(card, backend), self.driver.rules_in_force)
        self.twins = TwinsSide(self.port, keys, engine.known)
        asking = endpoint(card, backend), keys, engine.known.routes, self.port, self._spawn
        self.joining = JoiningSide(JoiningSurroundings(card, partial(offered, start), *asking), self.trust)
        outside = Outside(
            self._on_ike, self._spawn, self._on_ended, self._contest, self._in_reach, engine.known.peer_at
        )
        daemon = client.make(settings.ike, asyncio.get_running_loop().time, xfrm.packets)
        self.ike = IkeSide(daemon, keys, outside)
        self.islands = IslandsSide(settings.links, card, engine.known, IslandUses(self.ike.actions, self._spawn))
        self.ports = IkePorts(settings.ike.daemon.traits)
        self.routing = Routing(settings.routing, Path(settings.paths.signers), self._on_router)
        self.kernel = KernelSide(start.cards, backend, settings.routing.interfaces, self.driver.post, self._notifier)
        self.kernel.ending = start.ended
        self.overlay = OverlaySide(settings.overlay, card.address, self.driver.post)
        room = partial(inner_mtu, links=settings.routing.interfaces, backend=backend, overlay=overlay_device)
        self.networks = NetworksSide(card, room, settings.routing.interfaces, self.driver.post, engine.known.networks)
        self.gateway = GatewaySide(
            settings.gateway,
            Path(settings.paths.gateway),
            card,
            networks,
            Uses(self.routing.announce, self.driver.post, self.driver.rules_in_force),
        )
        self.offered = OfferedFile(Path(settings.paths.services))
        self.talk = PeerTalk(card.address, engine.known)
        self.services = ServicesSide(
            settings.services,
            engine.known,
            self.talk,
            Takers(self.names.of_peer, self.offered.follow if settings.access.networks else None),
            serves=bool(settings.access.networks),
        )
        self.positions = PositionsSide(card.address, settings.position, engine.known, self.talk)
        self.paths = PathsSide(
            engine.known,
            self.talk,
            PathUses(self.ike.sas, self.routing.neighbours, self.routing.avoid, self.routing.avoids_nobody),
        )
        self.levels = levels.LevelsSide(
            keys.path, engine.known, levels.Uses(self.driver.post, self.positions.own, self.twins.is_doubled)
        )
        self.access = AccessSide(
            settings.access,
            settings.paths,
            card.address,
            engine.known,
            access.Uses(
                self.routing.announce_clients,
                self.driver.post,
                self._spawn,
                _namer(self.names, self.services),
                self.names.remembered,
                settings.page.port_for_clients,
            ),
        )
        self.gateway_watch = GatewayWatch(engine.known, card.address, self.driver.post)
        self.modes = ModeChoice(Path(settings.paths.modes), self.driver.post)
        self.bench = bench.BenchSide(
            engine.known,
            bench.Uses(self.driver.post, self.driver.rules_in_force, self.kernel.beside_rules, self._spawn, self.modes),
        )
        self.configuration = ConfigurationFile(start.config, settings)
        self._page = PageRequests(self._answer, asyncio.get_running_loop().time, lambda: self._keeper.places)
        self._keeper = Keeper(Path(settings.paths.page_socket), self._page.end_all)
        self._control = ControlServer(Path(settings.paths.control_socket), self._answer)
        self._view = ControlServer(Path(settings.paths.view_socket), self._page.answer, VIEW_GROUP)
        self._publish = publisher(self._control, self._view)
        self.scheduling = self._make_scheduling(settings)
        self._sides: Mapping[Side, Callable[[Any], Awaitable[Cause | None]]] = {
            Side.KERNEL: self.kernel.apply_rules,
            Side.IKE: self.ike.actions.carry_out,
            Side.OVERLAY: self.overlay.carry_out,
            Side.NETWORKS: self.networks.carry_out,
        }
        self._requests = Requests(
            Sides(
                start,
                self.driver,
                self.configuration,
                self.trust,
                self.names,
                self.fleet,
                self.joining,
                self.port,
                self.twins,
                self.ike,
                self.ports,
                self.routing,
                self.kernel,
                self.overlay,
                self.networks,
                self.gateway,
                self.gateway_watch,
                self.access,
                self.talk,
                self.services,
                self.positions,
                self.paths,
                self.levels,
                self.islands,
                self.modes,
                self.bench,
                self.scheduling,
                self.reload,
            ),
            self._page,
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._told: dict[str, Shown] = {}

    def _make_scheduling(self, settings: Settings) -> Scheduling:
        governor = replace(settings.scheduling.governor, deadline=settings.policy.deadline_ms / 1000)
        scheduling = replace(settings.scheduling, governor=governor)
        journal, interfaces = Path(settings.paths.scheduling_journal), settings.routing.interfaces
        charon = CharonSide(self._queued, self.ike.look_soon, self.ike.poll)
        side = Scheduling(scheduling, journal, interfaces, self._publish, charon)
        side.classes.follow(SIGNER, self.routing.signer_pid)
        return side

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if the control socket cannot be made."""
        await self._control.start()
        try:
            await self._view.start()
            self._keeper.start()
            self.scheduling.start()
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await self.kernel.assign_addresses()
                self.driver.learn(await self.gateway.load())
                found = (
                    *await self.kernel.predecessors_rules(),
                    *await self.overlay.found(),
                    *await self.networks.found(),
                )
                self.driver.learn(await self.modes.load())
                self.driver.learn(await self.levels.load())
                await self.names.load()
                await self.routing.load()
                await self.trust.reload()
                for event in found:  # in one turn with the peers, so that the first rules contain both
                    self.driver.post(event)
                for work in self._works():
                    tasks.create_task(work)
                await self.kernel.tried.wait()
                self._notifier.ready()
                _log.info("ready")
        finally:
            self._notifier.stopping()
            self._notifier.close()
            self.driver.close()
            self.bench.close()
            self.scheduling.close()
            self._keeper.close()
            await self._view.close()
            await self._control.close()

    def _works(self) -> Iterator[Coroutine[None, None, None]]:
        """Yield what runs until the end."""
        yield self.kernel.watch_addresses()
        yield watch(netlink.address_changes, self.trust.look_around)
        yield self._give_back()
        yield self.kernel.watch_rules()
        yield self.overlay.watch_routes()
        yield self.networks.watch_routes()
        yield self.gateway.run()
        yield self.access.run()
        yield self.talk.run()
        yield self.positions.run()
        yield self.paths.run()
        yield self.levels.run()
        yield self.services.client_names.run()
        if self.access.enabled:
            yield self.offered.run()
        yield self.islands.run()
        yield self.gateway_watch.run()
        yield self.overlay.run()
        yield self.routing.run()
        yield self.routing.signers.run()
        yield self.fleet.run()
        yield self.names.run()
        yield self.port.run()
        yield self.twins.run()
        yield self.joining.run()
        yield self.scheduling.run()
        yield self.ike.run()
        yield self.ike.watch_health(self._feed_watchdog)

    async def _give_back(self) -> None:
        """Remove the address of an ended key after its SAs' ends were reported from it."""
        if self.start.ended:
            await asyncio.sleep(LINGER)
            await self.kernel.give_back(self.start.ended)

    def reload_soon(self) -> None:
        """Start ``reload`` from a signal handler."""
        self._spawn(self._reload())

    async def _reload(self) -> None:
        await self.reload()

    async def reload(self) -> tuple[str, ...]:
        """Read the trust store and the configuration again and return the problems; empty if there are none.

        The trust store takes effect at once. A changed configuration is only checked; it takes effect after a restart.
        """
        self._notifier.reloading()
        await self.configuration.poll()
        if self.configuration.problem:
            _log.warning("configuration: %s", self.configuration.problem)
        problems = await self.trust.reload()
        self._notifier.ready()
        return (*problems, self.configuration.problem) if self.configuration.problem else problems

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        if self._tasks:
            self._tasks.create_task(work)

    async def _carry_out(self, action: Action) -> Cause | None:
        return await self._sides[action.side](action)

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._requests.answer(method, params)

    def _on_ike(self, event: Event) -> None:
        """Report charon's start and end to scheduling first, because the next events may cause negotiations."""
        if (rest := self.islands.without_links(event)) is None:
            return
        event = rest
        if isinstance(event, IkeDaemonUp) and self.ike.daemon.facts:
            self.scheduling.charon_up(self.ike.daemon.facts.identity.pid)
            self._spawn(self.ports.settle(self.ike.daemon.facts.identity.pid))
            if event.daemon_restarted:
                self._spawn(leftovers.clear(self.ike.sas, self.kernel.own_addresses))
        elif isinstance(event, IkeDaemonDown):
            self.scheduling.charon_gone()
            self.ports.gone()
        self.driver.post(event)

    def _on_ended(self, peer: str) -> None:
        """Note the end of an IKE_SA. A peer in reach may begin another at once, before the engine wants one."""
        channel = self.driver.engine.known.channel(peer)
        if channel is not None and channel.route is not None:
            self.scheduling.expect(peer)

    async def _contest(self, peer: str) -> Contest | None:
        """Return what more than one end answered this node's first messages in the name of the peer."""
        channel = self.driver.engine.known.channel(peer)
        connection = channel.connection if channel is not None else None
        return None if connection is None else (await self.kernel.contested()).get(connection.remote_address)

    def _in_reach(self, peer: str) -> bool:
        channel = self.driver.engine.known.channel(peer)
        return channel is not None and channel.route is not None

    def _on_router(self, event: Event) -> None:
        if isinstance(event, RoutesReset):
            self.scheduling.router_up(self.routing.pid)
        self.driver.post(event)

    def _queued(self) -> int | None:
        return self.ike.daemon.facts.queued if self.ike.daemon.facts else None

    def _on_turn(self) -> None:
        self.scheduling.follow(self.driver.engine.known.channels())
        self.islands.follow()
        self.access.follow()
        self.talk.follow()
        self.names.settle()
        self.fleet.follow(self.driver.engine.known.channels())
        self.joining.follow(self.driver.engine.known.channels())
        self.twins.follow()
        self.routing.trust(channel.card for channel in self.driver.engine.known.channels() if channel.card)
        self.routing.use(self.driver.engine.known.networks.grants.keys())
        self._tell_watchers()

    def _feed_watchdog(self) -> None:
        if watchdog_interval() is not None:
            self._notifier.alive()

    def _tell_watchers(self) -> None:
        """Send what changed since the last turn to those who watch; without watchers this costs nothing."""
        if not (self._control.is_watched or self._view.is_watched):
            return
        engine = self.driver.engine
        now = {channel.title: shown(engine, channel) for channel in engine.known.channels()}
        for name, seen in now.items():
            if self._told.get(name) != seen:
                self._publish(views.change(name, seen))
        for name in self._told.keys() - now.keys():
            self._publish({"kind": "removed", "peer": name, "state": "", "reason": "it is trusted no longer"})
        self._told = now
