"""Poll olsrd2 (OONF) through its telnet port every second, and at once when the kernel's routes change.

Its answers are not trusted. Each query has its own connection, time limit and size limit. Several documents in one
answer are accepted and trailing text is ignored, but each entry is checked; an invalid one is left out and counted.
Liveness comes from ``nhdpinfo`` alone, because ``olsrv2info`` keeps nodes that are gone. ``/route`` commands are never
sent, because they can crash the daemon.

Each poll also compares what olsrd2 announces with what it is to announce, and sets the difference
(``olsrd2_networks``).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from meshsec.adapters.routing.mapped import LocalNetwork
from meshsec.adapters.routing.olsrd2_answers import AnswerError, entries, entries_under, without_prompts
from meshsec.adapters.routing.olsrd2_networks import STATE, Heard, Olsrd2Networks
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    RouterDown,
    RouterEvent,
    RoutesReset,
)
from meshsec.core.values.model import Address, Edge, Neighbour, Network, Route
from meshsec.core.values.topology import Topology

POLL_INTERVAL = 1.0
"""Polling interval in seconds when nothing happens."""

POLL_PAUSE = 0.1
"""Shortest polling interval in seconds, however often the kernel's routes change."""

QUERY_TIMEOUT = 2.0
"""Deadline of one query in seconds, for a daemon that hangs."""

MAX_ANSWER = 16 * 1024 * 1024
"""Limit in bytes: the routes and edges of a mesh of 10,000 nodes."""

KernelDestinations = Callable[[], Awaitable[Collection[Network]]]


class Olsrd2:
    """A client of one olsrd2; ``topology`` is what it reported beside the routes."""

    def __init__(self, host: str, port: int, kernel_destinations: KernelDestinations) -> None:
        """Prepare the client; ``kernel_destinations`` returns the destinations of olsrd2's routes in the kernel."""
        self._host = host
        self._port = port
        self._kernel_destinations = kernel_destinations
        self._wake = asyncio.Event()
        self._last: RouterEvent | None = None
        self._heard: Heard | None = None
        """What others announce; None before the first answer of the present olsrd2."""
        self._uptime = 0.0
        self._complaints: list[str] = []
        """What was wrong with networks at the last poll."""
        self.local = Olsrd2Networks()
        self.topology = Topology()

    def poll_now(self) -> None:
        """Poll at once, because the kernel's routes changed."""
        self._wake.set()

    def announce(self, networks: Iterable[LocalNetwork]) -> None:
        """Set the networks that olsrd2 announces beside those of its file. They are set again where they lack."""
        self.local.want(networks)
        self.poll_now()

    async def run(self, on_event: Callable[[RouterEvent], None]) -> None:
        """Poll until cancelled; ``on_event`` is called only with news."""
        while True:
            event = await self._look()
            if event != self._last:
                self._last = event
                on_event(event)
            if isinstance(event, RoutesReset):
                for news in await self._networks(event.routes):
                    on_event(news)
            await asyncio.sleep(POLL_PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL - POLL_PAUSE):
                    await self._wake.wait()
            self._wake.clear()

    async def _look(self) -> RouterEvent:
        try:
            routes, problems = await self._routes()
            missing = set(routes) - set(await self._kernel_destinations())
            self.topology = await self._topology([*problems, *_missing_texts(missing), *self._complaints])
        except (OSError, EOFError, TimeoutError, AnswerError) as error:
            self.topology, self._heard = Topology(), None
            return RouterDown(f"olsrd2 at {self._host}:{self._port}: {_describe(error)}")
        return RoutesReset({destination: routes[destination] for destination in routes.keys() - missing})

    async def _networks(self, routes: Collection[Network]) -> list[RouterEvent]:
        """Set what olsrd2 is to announce, and return the news of what others announce."""
        self._complaints = []
        try:
            await self._settle()
            answer = await self._document("/olsrv2info json attached_network", "attached_network")
        except (OSError, EOFError, TimeoutError, AnswerError) as error:
            self._complaints = [f"olsrd2, networks: {_describe(error)}"]
            return []
        reached = {one.network_address for one in routes if one.prefixlen == one.max_prefixlen}
        heard, bad = self.local.heard(answer, reached)
        if bad:
            self._complaints = [f"olsrd2 lists {bad} networks that make no sense"]
        before, self._heard = self._heard, heard
        return [*_news(before, heard)]

    async def _settle(self) -> None:
        """Set what differs in olsrd2. Announcements of an olsrd2 that has just started are not compared with others."""
        uptime = self.local.take(await self._session(STATE))
        if uptime < self._uptime:
            self._heard = None
        self._uptime = uptime
        details = self.local.details()
        changes = self.local.changes(await self._session(details) if details else "", self.topology.originators)
        if changes and (complaint := (await self._session(changes)).strip()):
            raise AnswerError(complaint.splitlines()[0])

    async def _routes(self) -> tuple[dict[Network, Route], list[str]]:
        collection = await self._document("/netjsoninfo route", "collection")
        routes, bad = {}, 0
        for part in collection:
            for entry in entries(part.get("routes", part.get("route"))):  # the release 0.15.1 names it `route`
                try:
                    route = _to_route(entry)
                    routes[route.destination] = route
                except (KeyError, TypeError, ValueError):
                    bad += 1
        return routes, [f"olsrd2 lists {bad} routes that make no sense"] if bad else []

    async def _topology(self, warnings: list[str]) -> Topology:
        """Return the topology. A failed query loses the topology but not the routes."""
        parts: dict[str, list[Mapping[str, Any]]] = {}
        for command, key in (
            ("/olsrv2info json originator", "originator"),
            ("/nhdpinfo json neighbor", "neighbor"),
            ("/olsrv2info json node", "node"),
            ("/olsrv2info json edge", "edge"),
        ):
            try:
                parts[key] = await self._document(command, key)
            except (OSError, EOFError, TimeoutError, AnswerError) as error:
                parts[key] = []
                warnings.append(f"olsrd2 {command}: {_describe(error)}")
        return Topology(
            software="olsrd2",
            originators=tuple(_all(parts["originator"], lambda entry: ip_address(entry["originator"]))),
            neighbours=tuple(_all(parts["neighbor"], _to_neighbour)),
            nodes=tuple(_all(parts["node"], lambda entry: ip_address(entry["node"]))),
            edges=tuple(_all(parts["edge"], _to_edge)),
            warnings=tuple(warnings),
        )

    async def _document(self, command: str, key: str) -> list[Mapping[str, Any]]:
        """Return the list under ``key`` in the first JSON document of an answer that has it."""
        async with asyncio.timeout(QUERY_TIMEOUT):
            return entries_under(key, await self._ask(f"{command}\n"), command)

    async def _session(self, commands: Iterable[str]) -> str:
        """Return the answers to several commands, which may have slashes in their values."""
        async with asyncio.timeout(QUERY_TIMEOUT):
            return without_prompts(await self._ask("".join(f"{command}\n" for command in (*commands, "quit"))))

    async def _ask(self, lines: str) -> str:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(lines.encode())
            chunks, size = [], 0
            while chunk := await reader.read(65536):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_ANSWER:
                    raise AnswerError(f"more than {MAX_ANSWER} octets in answer to {lines.splitlines()[0]!r}")
            return b"".join(chunks).decode("utf-8", "replace")
        finally:
            writer.close()


def _news(before: Heard | None, now: Heard) -> Iterator[RouterEvent]:
    """Return what changed in the announcements: new ones first."""
    if before is None:
        yield AnnouncementsReset(tuple(now.values()))
        return
    yield from (AnnouncementSet(one) for key, one in now.items() if before.get(key) != one)
    yield from (AnnouncementRemoved(*key) for key in before if key not in now)


def _all(entries: list[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Any]) -> Iterator[Any]:
    for entry in entries:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            yield read(entry)


def _to_route(entry: Mapping[str, Any]) -> Route:
    """Decode one route of NetJSON's NetworkRoutes."""
    properties = entry.get("properties") or {}
    destination: Network = ip_network(entry["destination"])
    next_hop = entry.get("next")
    return Route(
        destination=destination,
        next_hop=ip_address(next_hop) if next_hop else destination.network_address,
        interface=str(entry["device"]),
        hops=int(properties["hops"]),
        metric=int(entry["cost"]),
        last_hop=_address(properties.get("last_router_addr")),
    )


def _to_neighbour(entry: Mapping[str, Any]) -> Neighbour:
    return Neighbour(
        originator=ip_address(entry["neighbor_originator"]),
        symmetric=_is_true(entry["neighbor_symmetric"]),
        metric_in=int(entry["domain_metric_in_raw"]),
        metric_out=int(entry["domain_metric_out_raw"]),
        is_mpr=_is_true(entry["domain_mpr_remote"]),
        selected_us=_is_true(entry["domain_mpr_local"]),
    )


def _to_edge(entry: Mapping[str, Any]) -> Edge:
    return Edge(ip_address(entry["node"]), ip_address(entry["edge"]), int(entry["domain_metric_out_raw"]))


def _is_true(value: object) -> bool:
    return value in (True, "true")


def _address(text: object) -> Address | None:
    return ip_address(text) if isinstance(text, str) and text not in ("", "-") else None


def _missing_texts(missing: Collection[Network]) -> list[str]:
    return [f"the kernel lacks olsrd2's route to {destination}" for destination in sorted(map(str, missing))[:8]]


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {QUERY_TIMEOUT:g} s"
    return str(error) or type(error).__name__
