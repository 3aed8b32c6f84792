"""The routing daemon's side of the agent: olsrv2d's change stream, or polling of olsrd2."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from meshsec.adapters.kernel import netlink
from meshsec.adapters.routing.mapped import LocalNetwork
from meshsec.adapters.routing.olsrd2 import Olsrd2
from meshsec.adapters.routing.olsrv2d import Olsrv2d
from meshsec.agent.sides.signers import SignersFile
from meshsec.core.channels.events import Event, RouterDown, RouterEvent
from meshsec.core.config.routing_settings import AttachedNetwork, Endpoint, RoutingDaemon, RoutingSettings, Signatures
from meshsec.core.explain import signing
from meshsec.core.networks.networks import originators
from meshsec.core.values.model import Address, Card, Neighbour, Network, Route
from meshsec.core.values.refusals import Refusal
from meshsec.core.values.topology import Topology
from meshsec.streams import listener

ROUTE_PROTOCOL = 100
"""The rtnetlink protocol number of both daemons' routes."""

_log = logging.getLogger(__name__)


class _Local(Protocol):
    def lacking(self) -> Mapping[Any, LocalNetwork]: ...


class _Router(Protocol):
    @property
    def topology(self) -> Topology: ...

    @property
    def local(self) -> _Local: ...

    def announce(self, networks: Iterable[LocalNetwork]) -> None: ...

    async def run(self, on_event: Callable[[RouterEvent], None]) -> None: ...


class Routing:
    """Follow the configured routing daemon."""

    def __init__(self, settings: RoutingSettings, signers: Path, post: Callable[[Event], None]) -> None:
        """Prepare the side. ``signers`` is the file that keeps which peers' routers have been seen to sign."""
        self._post = post
        self.signers = SignersFile(signers)
        self._signer = Path(settings.signer)
        self.signatures = settings.signing
        """How unsigned messages of other routers are treated."""
        self._networks: tuple[AttachedNetwork, ...] | None = None
        self._clients: tuple[Network, ...] | None = None
        self._olsrd2: Olsrd2 | None = None
        self._router: _Router
        if settings.daemon is RoutingDaemon.OLSRD2:
            endpoint = settings.telnet or Endpoint()
            self._router = self._olsrd2 = Olsrd2(endpoint.host, endpoint.port, kernel_destinations)
        else:
            self._router = Olsrv2d(Path(settings.socket))
        self.down_reason = "not reached yet"
        """Why the routing daemon does not answer; empty while it does."""

    async def load(self) -> None:
        """Take over who was seen to sign before meshsecd's start; forget it where signatures are off."""
        if self.signatures is Signatures.OFF:
            self.signers.forget()
        elif isinstance(self._router, Olsrv2d):
            self._router.others.remember(await self.signers.load())
            self._router.others.on_signers = self.signers.keep

    @property
    def pid(self) -> int:
        """PID of olsrv2d; 0 while it does not answer, and for olsrd2, which is asked over TCP."""
        return self._router.pid if isinstance(self._router, Olsrv2d) else 0

    def signer_pid(self) -> int:
        """Return the PID of the process that signs for the router; 0 while there is none, and where none is asked."""
        return 0 if self.signatures is Signatures.OFF else listener(self._signer)

    @property
    def topology(self) -> Topology:
        """Return what the routing daemon knows beside its routes."""
        return self._router.topology

    def neighbours(self) -> tuple[Neighbour, ...]:
        """Return the neighbours that the routing daemon knows."""
        return self.topology.neighbours

    def trust(self, cards: Iterable[Card]) -> None:
        """Set whose entries keep their place in olsrv2d's full tables, and whose keys it believes; olsrd2 cannot."""
        if isinstance(self._router, Olsrv2d):
            keys = {address: card.public_key for card in cards for address in originators(card)}
            self._router.others.trust(keys)
            if self.signatures is not Signatures.OFF and self._router.others.believe(keys):
                self._note_signing(self._router, keys)

    def _note_signing(self, router: Olsrv2d, addresses: Iterable[Address]) -> None:
        """Note who of these signs already; olsrv2d says it again only when something of the router changes.

        An IPv6 address here is the hash of its key, so it is this key that has signed. IPv4 must be heard again.
        """
        topology = router.topology
        for address in addresses:
            if address.version == 6 and topology.signs(address):
                router.others.signs(address)

    def announce(self, networks: Iterable[AttachedNetwork]) -> None:
        """Set the networks behind this node that the router announces, beside those of its configuration file."""
        self._networks = tuple(networks)
        self._announce()

    def announce_clients(self, networks: Iterable[Network]) -> None:
        """Set the networks of clients, and the addresses of those who are here, that the router announces."""
        self._clients = tuple(networks)
        self._announce()

    def _announce(self) -> None:
        """Announce nothing before both are known: what a predecessor announced stays until then."""
        if self._networks is None or self._clients is None:
            return
        networks = [LocalNetwork(one.prefix, one.distance, one.metric or 1) for one in self._networks]
        self._router.announce([*networks, *(LocalNetwork(one, 1, 1) for one in self._clients)])

    def avoid(self, relays: Mapping[Address, float]) -> None:
        """Set which neighbours olsrv2d avoids as relays, each until a time of the loop."""
        if isinstance(self._router, Olsrv2d):
            self._router.others.avoid(relays)

    @property
    def avoids_nobody(self) -> str:
        """Why no relay can be avoided; empty: olsrv2d can."""
        return "" if isinstance(self._router, Olsrv2d) else "olsrd2 cannot be told which relay to avoid"

    def unannounced(self) -> tuple[Network, ...]:
        """Return the networks behind this node that the router is to announce and does not."""
        return tuple(one.network for one in self._router.local.lacking().values())

    def use(self, networks: Collection[Network]) -> None:
        """Set the networks of peers, to which olsrd2 is to set no routes; olsrv2d sets none that its file lacks."""
        if self._olsrd2:
            self._olsrd2.local.use(networks)

    async def refusals(self) -> tuple[Refusal, ...]:
        """Return what olsrv2d refused lately; olsrd2 does not report it."""
        return await self._router.refusals() if isinstance(self._router, Olsrv2d) else ()

    async def sentences(self, card: Card, route: Route | None) -> list[str]:
        """Return what ``explain`` says of signatures on the way to a peer. An outage is reported elsewhere."""
        if self.down_reason or self.signatures is Signatures.OFF:
            return []
        refused = await self.refusals()
        return [*signing.sentences(self.signatures, self.topology, originators(card), route, refused)]

    async def counters(self) -> Mapping[str, int]:
        """Return what olsrv2d has counted since its start, by name; olsrd2 does not report it."""
        return await self._router.counters() if isinstance(self._router, Olsrv2d) else {}

    async def run(self) -> None:
        """Follow the daemon until cancelled."""
        if self._olsrd2:
            with netlink.route_changes(self._olsrd2.poll_now):
                await self._router.run(self._on_event)
        else:
            await self._router.run(self._on_event)

    def _on_event(self, event: RouterEvent) -> None:
        reason = event.reason if isinstance(event, RouterDown) else ""
        if isinstance(event, RouterDown) and reason == self.down_reason:
            return
        if reason:
            _log.warning("routing daemon: %s", reason)
        elif self.down_reason:
            _log.info("routing daemon: %s", self.topology.software)
        self.down_reason = reason
        self._post(event)


async def kernel_destinations() -> frozenset[Network]:
    """Return the destinations of the routing daemon's routes in the kernel."""
    return frozenset(route.destination for route in await netlink.routes(ROUTE_PROTOCOL))
