"""The olsrd2 adapter with recorded answers from a real socket, and the daemon's known traps."""

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Self

import pytest

from meshsec.adapters.routing import olsrd2 as module
from meshsec.adapters.routing.olsrd2 import Olsrd2
from meshsec.core.channels.events import (
    AnnouncementsReset,
    RouterDown,
    RouterEvent,
    RoutesReset,
)
from meshsec.core.values.model import Network
from olsrd2_program import Program

VECTORS = Path(__file__).parents[3] / "tests/vectors/olsrd2"
RECORDED = {
    "/netjsoninfo route": "line-1-netjsoninfo-route.json",
    "/olsrv2info json originator": "line-1-olsrv2info-originator.json",
    "/nhdpinfo json neighbor": "line-1-nhdpinfo-neighbor.json",
    "/olsrv2info json node": "line-1-olsrv2info-node.json",
    "/olsrv2info json edge": "line-1-olsrv2info-edge.json",
    "/olsrv2info json attached_network": "line-1-olsrv2info-attached_network.json",
}
DESTINATIONS: list[Network] = [ip_network(f"{host}") for host in ("10.77.0.2", "10.77.0.3", "fd77::2", "fd77::3")]


def recordings() -> dict[str, bytes]:
    return {command: (VECTORS / name).read_bytes() for command, name in RECORDED.items()}


class Telnet:
    """olsrd2's port: it answers a line that begins with a slash and closes, or serves a session until ``quit``."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.program = Program()
        self.asked: list[str] = []
        self.silent = False
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()

    @property
    def port(self) -> int:
        assert self._server
        return int(self._server.sockets[0].getsockname()[1])

    async def until_asked(self, command: str, times: int) -> None:
        while self.asked.count(command) < times:
            self._news.clear()
            await self._news.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode().strip()
            if line.startswith("/"):
                await self._answer(line, reader, writer)
            while line and not line.startswith("/") and line != "quit":
                writer.write(f"> {self.program.execute(line)}".encode())
                line = (await reader.readline()).decode().strip()
        finally:
            writer.close()

    async def _answer(self, command: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(command)
        self._news.set()
        if self.silent:
            await reader.read()
        answer = self.answers.get(command, b"Error, unknown command\n")
        for start in range(0, len(answer), 700):
            writer.write(answer[start : start + 700])
            await asyncio.sleep(0)


class Listener:
    """Runs the adapter and keeps its events."""

    def __init__(self, port: int, kernel: Collection[Network] = DESTINATIONS) -> None:
        self.kernel = set(kernel)
        self.adapter = Olsrd2("127.0.0.1", port, self._kernel)
        self.events: asyncio.Queue[RouterEvent] = asyncio.Queue()
        self.task = asyncio.create_task(self.adapter.run(self.events.put_nowait))

    async def _kernel(self) -> Collection[Network]:
        return self.kernel

    async def next(self) -> RouterEvent:
        """Return the next event that is no snapshot of no announcements."""
        while (event := await self.next_of_all()) == AnnouncementsReset(()):
            pass
        return event

    async def next_of_all(self) -> RouterEvent:
        async with asyncio.timeout(60):
            return await self.events.get()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def ended() -> None:
        await scenario()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0.01)  # closed transports let go of their sockets

    asyncio.run(ended())


def test_the_recorded_routes_of_both_families_arrive() -> None:
    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            event = await Listener(telnet.port).next()
            assert isinstance(event, RoutesReset)
            assert set(event.routes) == set(DESTINATIONS)
            far = event.routes[IPv6Network("fd77::3")]
            assert (far.hops, far.interface, far.metric) == (2, "e2", 7978496)
            assert far.next_hop == ip_address("fe80::b04f:3eff:fe5f:802a")
            assert far.last_hop == ip_address("fd77::2")
            assert event.routes[IPv4Network("10.77.0.2")].hops == 1

    run(scenario)


def test_the_released_olsrd2_names_its_list_of_routes_otherwise() -> None:
    async def scenario() -> None:
        said = recordings()
        said["/netjsoninfo route"] = said["/netjsoninfo route"].replace(b'"routes"', b'"route"')
        async with Telnet(said) as telnet:
            event = await Listener(telnet.port).next()
            assert isinstance(event, RoutesReset)
            assert set(event.routes) == set(DESTINATIONS)

    run(scenario)


def test_the_recorded_topology_is_shown() -> None:
    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            listener = Listener(telnet.port)
            await listener.next()
            topology = listener.adapter.topology
            assert topology.originators == (ip_address("10.77.0.1"), ip_address("fd77::1"))
            assert [(str(one.originator), one.symmetric, one.is_mpr) for one in topology.neighbours] == [
                ("fd77::2", True, True),
                ("10.77.0.2", True, True),
            ]
            assert len(topology.edges) == 4
            assert ip_address("fd77::3") in topology.nodes
            assert topology.warnings == ()

    run(scenario)


def test_the_command_that_crashes_the_daemon_is_never_sent() -> None:
    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            await Listener(telnet.port).next()
            await telnet.until_asked("/olsrv2info json attached_network", 1)
            assert not [command for command in telnet.asked if command.startswith("/route")]
            assert set(telnet.asked) == set(RECORDED)

    run(scenario)


def test_a_route_that_the_kernel_lacks_is_left_out_and_reported() -> None:
    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            listener = Listener(telnet.port, DESTINATIONS[:3])
            event = await listener.next()
            assert isinstance(event, RoutesReset)
            assert set(event.routes) == set(DESTINATIONS[:3])
            assert listener.adapter.topology.warnings == ("the kernel lacks olsrd2's route to fd77::3/128",)

    run(scenario)


def test_a_change_of_the_kernels_routes_causes_a_poll_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 60.0)
    monkeypatch.setattr(module, "POLL_PAUSE", 0.01)

    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            listener = Listener(telnet.port)
            await listener.next()
            listener.kernel.discard(DESTINATIONS[0])
            listener.adapter.poll_now()
            event = await listener.next()
            assert isinstance(event, RoutesReset)
            assert DESTINATIONS[0] not in event.routes

    run(scenario)


def test_a_poll_without_news_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.02)
    monkeypatch.setattr(module, "POLL_PAUSE", 0.01)

    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            listener = Listener(telnet.port)
            await listener.next()
            assert await listener.next_of_all() == AnnouncementsReset(())
            await telnet.until_asked("/netjsoninfo route", 4)
            assert listener.events.empty()

    run(scenario)


ROUTES = json.loads(recordings()["/netjsoninfo route"])


def altered(**changes: object) -> bytes:
    """Return the recorded routes with some fields of the first one changed."""
    document = json.loads(json.dumps(ROUTES))
    document["collection"][0]["routes"][0].update(changes)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "answer",
    [
        altered(destination="10.77.0.300"),
        altered(destination=None),
        altered(properties={}),
        altered(properties="none"),
        altered(cost="infinite"),
        altered(next="nowhere"),
    ],
    ids=["address", "null", "no hops", "no object", "metric", "next hop"],
)
def test_a_malformed_entry_does_not_hide_the_others(answer: bytes) -> None:
    async def scenario() -> None:
        async with Telnet(recordings() | {"/netjsoninfo route": answer}) as telnet:
            listener = Listener(telnet.port)
            event = await listener.next()
            assert isinstance(event, RoutesReset)
            assert set(event.routes) == set(DESTINATIONS[1:])
            assert listener.adapter.topology.warnings == ("olsrd2 lists 1 routes that make no sense",)

    run(scenario)


@pytest.mark.parametrize(
    "wrapped",
    [b'{"memory": [{"x": 1}]}%s', b"%s{}", b'%s{"memory": [{"count": 1.000.5}]}', b"> %s\n> "],
    ids=["another before", "another behind", "a broken one behind", "prompts"],
)
def test_two_documents_in_one_answer_are_separated(wrapped: bytes) -> None:
    async def scenario() -> None:
        answer = wrapped % recordings()["/netjsoninfo route"]
        async with Telnet(recordings() | {"/netjsoninfo route": answer}) as telnet:
            event = await Listener(telnet.port).next()
            assert isinstance(event, RoutesReset)
            assert len(event.routes) == 4

    run(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        recordings()["/netjsoninfo route"][:-40],
        b"",
        b"Error, unknown command 'netjsoninfo'\n",
        b'{"collection": "none"}',
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe{",
    ],
    ids=["cut", "empty", "error", "no list", "deep lists", "braces", "deep objects", "no utf-8"],
)
def test_an_answer_without_routes_is_an_outage_and_not_an_empty_mesh(answer: bytes) -> None:
    async def scenario() -> None:
        async with Telnet(recordings() | {"/netjsoninfo route": answer}) as telnet:
            event = await Listener(telnet.port).next()
            assert isinstance(event, RouterDown)
            assert "no 'collection'" in event.reason

    run(scenario)


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 5000)

    async def scenario() -> None:
        async with Telnet(recordings() | {"/netjsoninfo route": b" " * 9000}) as telnet:
            event = await Listener(telnet.port).next()
            assert isinstance(event, RouterDown)
            assert "more than 5000 octets" in event.reason

    run(scenario)


def test_a_hung_daemon_is_an_outage_and_its_return_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUERY_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.05)
    monkeypatch.setattr(module, "POLL_PAUSE", 0.01)

    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            telnet.silent = True
            listener = Listener(telnet.port)
            down = await listener.next()
            assert isinstance(down, RouterDown)
            assert "no answer within" in down.reason
            telnet.silent = False
            assert isinstance(await listener.next(), RoutesReset)

    run(scenario)


def test_a_daemon_that_is_not_there_is_an_outage() -> None:
    async def scenario() -> None:
        async with Telnet({}) as telnet:
            port = telnet.port
        event = await Listener(port).next()
        assert isinstance(event, RouterDown)
        assert f"127.0.0.1:{port}" in event.reason

    run(scenario)


def test_a_missing_part_of_the_topology_costs_no_route() -> None:
    async def scenario() -> None:
        answers = recordings() | {"/nhdpinfo json neighbor": b""}
        async with Telnet(answers) as telnet:
            listener = Listener(telnet.port)
            assert isinstance(await listener.next(), RoutesReset)
            (warning,) = listener.adapter.topology.warnings
            assert "/nhdpinfo json neighbor" in warning

    run(scenario)
