"""The client of olsrv2d's change stream against a scripted daemon on a real socket, with olsrv2d's own lines."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Self

import pytest

from meshsec.adapters.routing import olsrv2d as module
from meshsec.adapters.routing.mapped import LocalNetwork
from meshsec.adapters.routing.olsrv2d import Olsrv2d
from meshsec.adapters.routing.olsrv2d_commands import PORTION
from meshsec.adapters.routing.olsrv2d_networks import PORTION as NETWORKS_PORTION
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    RouterDown,
    RouteRemoved,
    RouterEvent,
    RouteSet,
    RoutesReset,
)
from meshsec.core.values.networks import Announcement
from meshsec.core.values.refusals import Refusal, Source

FAR = IPv6Network("fd00::c/128")
HELLO: dict[str, Any] = {
    "type": "hello",
    "schema": 1,
    "software": "olsrv2d",
    "version": "0.1.0",
    "originators": ["fd00::a", "10.77.0.1"],
    "pid": 7,
}
ROUTE: dict[str, Any] = {
    "destination": "fd00::b/128",
    "next_hop": "fe80::2",
    "interface": "mesh0",
    "source": "fd00::a",
    "metric": 4096,
    "hops": 1,
    "originator": "fd00::b",
    "next_originator": "fd00::b",
    "last_originator": "fd00::a",
    "installed": True,
}
NEIGHBOUR: dict[str, Any] = {
    "originator": "fd00::b",
    "symmetric": True,
    "mpr_of_us": False,
    "our_mpr": True,
    "metric_in": 4096,
    "metric_out": None,
    "addresses": ["fe80::2"],
}
SNAPSHOT: dict[str, Any] = {
    "type": "snapshot",
    "seq": 3,
    "time_us": 1_000_000,
    "neighbours": [NEIGHBOUR, {**NEIGHBOUR, "originator": None}],
    "links": [{"interface": "mesh0", "address": "fe80::2", "status": "symmetric", "originator": "fd00::b"}],
    "nodes": [{"originator": "fd00::b", "ansn": 12}],
    "edges": [{"from": "fd00::b", "to": "fd00::a", "metric": 4096}],
    "attached": [],
    "routes": [ROUTE, {**ROUTE, "destination": "fd00::d/128", "installed": False}],
    "counters": {"packets_received": 1},
}


def change(kind: str, op: str, **fields: object) -> dict[str, Any]:
    return {"type": "change", "seq": 4, "time_us": 2_500_000, "object": kind, "op": op, **fields}


class Daemon:
    """A UNIX socket that sends each client the script from its beginning."""

    def __init__(self, path: Path, *lines: Any) -> None:
        self.path = path
        self.lines = lines
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        self.hang_up()
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._write(writer, self.lines)
        while line := await reader.readline():
            self.heard.put_nowait(json.loads(line))

    def say(self, *lines: Any) -> None:
        for writer in self._writers:
            self._write(writer, lines)

    def _write(self, writer: asyncio.StreamWriter, lines: tuple[Any, ...]) -> None:
        for line in lines:
            writer.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()


class Listener:
    """Runs the client and keeps its events."""

    def __init__(self, path: Path) -> None:
        self.client = Olsrv2d(path)
        self.events: asyncio.Queue[RouterEvent] = asyncio.Queue()
        self.networks: list[AnnouncementsReset] = []
        """The networks of each snapshot."""
        self.task = asyncio.create_task(self.client.run(self._take))

    def _take(self, event: RouterEvent) -> None:
        if isinstance(event, AnnouncementsReset):
            self.networks.append(event)
        else:
            self.events.put_nowait(event)

    async def next(self) -> RouterEvent:
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "changes.sock"


def test_the_snapshot_gives_the_routes_that_the_kernel_has(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT):
            event = await Listener(path).next()
            assert isinstance(event, RoutesReset)
            (route,) = event.routes.values()
            assert route.destination == IPv6Network("fd00::b/128")
            assert (route.next_hop, route.interface, route.hops) == (ip_address("fe80::2"), "mesh0", 1)
            assert route.first_hop == ip_address("fd00::b")
            assert (route.originator, route.last_hop) == (ip_address("fd00::b"), ip_address("fd00::a"))
            assert route.decided_at is None

    run(scenario)


def test_the_kernel_says_which_process_it_is(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            assert listener.client.pid == 0
            await listener.next()
            assert listener.client.pid == os.getpid() != HELLO["pid"]
            daemon.hang_up()
            assert isinstance(await listener.next(), RouterDown)
            assert listener.client.pid == 0

    run(scenario)


def test_changes_of_routes_become_events_with_the_time_of_the_decision(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            daemon.say(change("route", "set", **{**ROUTE, "destination": str(FAR), "hops": 2}))
            found = await listener.next()
            assert isinstance(found, RouteSet)
            assert (found.route.destination, found.route.hops, found.route.decided_at) == (FAR, 2, 2.5)
            daemon.say(change("route", "del", destination=str(FAR)))
            assert await listener.next() == RouteRemoved(FAR)

    run(scenario)


def test_a_route_that_the_kernel_refused_is_no_route(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            daemon.say(change("route", "set", **{**ROUTE, "destination": str(FAR), "installed": False}))
            assert await listener.next() == RouteRemoved(FAR)

    run(scenario)


def test_the_topology_follows_the_changes(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            before = listener.client.topology
            assert before.software == "olsrv2d 0.1.0"
            assert before.originators == (ip_address("fd00::a"), ip_address("10.77.0.1"))
            assert [(one.originator, one.is_mpr, one.selected_us) for one in before.neighbours] == [
                (ip_address("fd00::b"), True, False)
            ]
            assert (len(before.nodes), len(before.edges)) == (1, 1)
            assert not before.signs(ip_address("fd00::b"))
            assert not before.edges[0].confirmed
            daemon.say(
                change("neighbour", "del", **NEIGHBOUR),
                change("node", "set", originator="fd00::c", ansn=1),
                change("edge", "del", **{"from": "fd00::b", "to": "fd00::a", "metric": 4096}),
                change("link", "set", interface="mesh0", address="fe80::2", status="lost", originator=None),
                change("attached", "set", prefix="::/0", originator="fd00::b", distance=1, metric=1),
                {"type": "event", "time_us": 1, "name": "duplicate_originator", "address": "fd00::b"},
                change("route", "del", destination=str(FAR)),
            )
            await listener.next()
            after = listener.client.topology
            assert after.neighbours == ()
            assert after.nodes == (ip_address("fd00::b"), ip_address("fd00::c"))
            assert after.edges == ()
            assert after.warnings == ("duplicate_originator",)

    run(scenario)


def test_who_signs_and_what_is_confirmed_follow_the_changes(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            near, far, gone = map(ip_address, ("fd00::b", "fd00::c", "fd00::d"))
            daemon.say(
                change("neighbour", "set", **{**NEIGHBOUR, "signs": True}),
                change("node", "set", originator=str(far), ansn=1, signs=True),
                change("node", "set", originator=str(gone), ansn=1, signs=True),
                change("node", "del", originator=str(gone), ansn=1, signs=True),
                change("edge", "set", **{"from": str(far), "to": str(near), "metric": 1, "confirmed": True}),
                change("route", "set", **{**ROUTE, "destination": str(FAR), "confirmed": True}),
            )
            found = await listener.next()
            assert isinstance(found, RouteSet)
            assert found.route.confirmed
            known = listener.client.topology
            assert (known.signs(near), known.signs(far), known.signs(gone)) == (True, True, False)
            assert {one.source: known.is_confirmed(one) for one in known.edges} == {near: True, far: True}
            daemon.say(
                change("node", "set", originator=str(far), ansn=2, signs=False),
                change("neighbour", "set", **{**NEIGHBOUR, "signs": False}),
                change("route", "set", **{**ROUTE, "destination": str(FAR), "confirmed": False}),
            )
            found = await listener.next()
            assert isinstance(found, RouteSet)
            assert not found.route.confirmed
            known = listener.client.topology
            assert not any(map(known.signs, (near, far, gone)))
            assert {one.source: known.is_confirmed(one) for one in known.edges} == {near: False, far: True}

    run(scenario)


def test_a_restarted_daemon_is_an_outage_followed_by_a_snapshot(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT):
            listener = Listener(path)
            await listener.next()
        down = await listener.next()
        assert isinstance(down, RouterDown)
        assert "closed the connection" in down.reason
        assert listener.client.topology.software == ""
        async with Daemon(path, HELLO, SNAPSHOT):
            while isinstance(event := await listener.next(), RouterDown):
                assert str(path) in event.reason
            assert isinstance(event, RoutesReset)

    run(scenario)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([{**HELLO, "schema": 2}], "speaks schema 2; 1 is needed"),
        ([SNAPSHOT], "no hello"),
        ([HELLO, HELLO], "no snapshot"),
        ([HELLO, {**SNAPSHOT, "routes": [{"next_hop": "fe80::2"}]}], "destination"),
        ([HELLO, {**SNAPSHOT, "routes": [{**ROUTE, "destination": "fd00::b/64"}]}], "host bits"),
        ([HELLO, {**SNAPSHOT, "routes": [{**ROUTE, "hops": "two"}]}], "hops"),
        ([b"not json\n"], "malformed"),
        ([b"\xff\xff\n"], ""),
        ([b"[1]\n"], "object"),
        ([b"x" * 5000], "more than 4096 octets"),
    ],
    ids=["schema", "no hello", "no snapshot", "missing", "prefix", "type", "json", "utf-8", "array", "long"],
)
def test_a_stream_that_breaks_its_schema_is_an_outage_with_the_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any], reason: str
) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 4096)

    async def scenario() -> None:
        async with Daemon(path, *lines):
            event = await Listener(path).next()
            assert isinstance(event, RouterDown)
            assert reason in event.reason

    run(scenario)


def test_a_silent_daemon_is_an_outage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELLO_TIMEOUT", 0.05)

    async def scenario() -> None:
        async with Daemon(path, HELLO):
            event = await Listener(path).next()
            assert isinstance(event, RouterDown)
            assert "no snapshot in time" in event.reason

    run(scenario)


def test_the_trusted_addresses_are_sent_on_each_connection_and_after_each_change(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.trust([ip_address("fd00::b"), ip_address("10.77.0.2")])
            said = {"command": "trust", "addresses": ["10.77.0.2", "fd00::b"], "more": False}
            assert await daemon.heard.get() == said
            listener.client.others.trust([ip_address("10.77.0.2"), ip_address("fd00::b")])  # no change: nothing is said
            daemon.hang_up()
            assert await daemon.heard.get() == said
            listener.client.others.trust([])
            assert await daemon.heard.get() == {**said, "addresses": []}

    run(scenario)


def test_before_the_trusted_addresses_are_known_the_client_sends_none(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.trust([ip_address("fd00::b")])
            assert (await daemon.heard.get())["addresses"] == ["fd00::b"]
            assert daemon.heard.empty()

    run(scenario)


def test_thousands_of_trusted_addresses_go_in_portions(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.trust([ip_address(n) for n in range(1, 2 * PORTION + 2)])
            told = [await daemon.heard.get() for _ in range(3)]
            assert [len(one["addresses"]) for one in told] == [PORTION, PORTION, 1]
            assert [one["more"] for one in told] == [True, True, False]
            assert [one["portion"] for one in told] == [0, 1, 2]

    run(scenario)


def test_keys_are_sent_and_who_signs_may_not_be_spoken_for_unsigned_any_more(path: Path) -> None:
    def said(*signing: bool) -> dict[str, Any]:
        keys = zip(("fd00::b", "fd00::c"), ("0b" * 32, "0c" * 32), signing, strict=True)
        listed = [{"address": address, "key": key, "signs": signs} for address, key, signs in keys]
        return {"command": "keys", "keys": listed, "more": False}

    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.believe({ip_address("fd00::b"): b"\x0b" * 32, ip_address("fd00::c"): b"\x0c" * 32})
            assert await daemon.heard.get() == said(False, False)
            daemon.say(change("node", "set", originator="fd00::99", ansn=1, signs=True))  # nobody's card
            daemon.say(change("node", "set", originator="fd00::c", ansn=1, signs=True))
            assert await daemon.heard.get() == said(False, True)
            daemon.say(change("node", "set", originator="fd00::c", ansn=2, signs=False))
            daemon.say(change("neighbour", "set", originator="fd00::b", symmetric=True, signs=True))
            assert await daemon.heard.get() == said(True, True), "what was seen once stays"
            listener.client.others.believe({ip_address("fd00::b"): b"\x0d" * 32})
            renewed = {"address": "fd00::b", "key": "0d" * 32, "signs": False}
            assert await daemon.heard.get() == {"command": "keys", "keys": [renewed], "more": False}

    run(scenario)


def test_all_that_are_seen_to_sign_at_a_time_are_said_at_once(path: Path) -> None:
    peers = [ip_address((0xFD00 << 112) + number) for number in range(1, 101)]

    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.believe(dict.fromkeys(peers, bytes(32)))
            assert not any(one["signs"] for one in (await daemon.heard.get())["keys"])
            daemon.say(*(change("node", "set", originator=str(peer), ansn=1, signs=True) for peer in peers))
            assert all(one["signs"] for one in (await daemon.heard.get())["keys"])
            assert daemon.heard.empty()

    run(scenario)


def test_the_relays_to_avoid_are_sent_at_once_and_on_each_connection_with_the_time_that_is_left(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            now = asyncio.get_running_loop().time()
            relay = ip_address("fd00::b")
            listener.client.others.avoid(
                {relay: now + 29.5, ip_address("fd00::c"): now + 9999, ip_address("fd00::d"): now - 1}
            )
            left = [{"address": "fd00::b", "seconds": 30}, {"address": "fd00::c", "seconds": 600}]
            assert await daemon.heard.get() == {"command": "avoid", "neighbours": left}
            daemon.hang_up()
            assert (await daemon.heard.get())["neighbours"][0]["seconds"] in range(20, 31)
            listener.client.others.avoid({})
            assert await daemon.heard.get() == {"command": "avoid", "neighbours": []}

    run(scenario)


def test_what_is_said_without_a_connection_is_sent_at_the_next(path: Path) -> None:
    async def scenario() -> None:
        listener = Listener(path)
        listener.client.others.trust([ip_address("fd00::b")])
        listener.client.others.avoid({ip_address("fd00::c"): asyncio.get_running_loop().time() + 600})
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            assert [(await daemon.heard.get())["command"] for _ in range(2)] == ["trust", "avoid"]

    run(scenario)


def test_networks_of_other_routers_become_events_and_a_mapped_one_is_ipv4(path: Path) -> None:
    behind_b = {"prefix": "fd01::/64", "originator": "fd00::b", "distance": 1, "metric": 16}
    mapped = {"prefix": "::ffff:10.1.0.0/112", "originator": "fd00::b", "distance": 0, "metric": 1}
    shown = Announcement(IPv6Network("fd01::/64"), ip_address("fd00::b"), 1, 16)

    async def scenario() -> None:
        async with Daemon(path, HELLO, {**SNAPSHOT, "attached": [behind_b]}) as daemon:
            listener = Listener(path)
            await listener.next()
            assert listener.networks == [AnnouncementsReset((shown,))]
            daemon.say(change("attached", "set", **mapped), change("attached", "del", **behind_b))
            network = IPv4Network("10.1.0.0/16")
            assert await listener.next() == AnnouncementSet(Announcement(network, ip_address("fd00::b"), 0, 1))
            assert await listener.next() == AnnouncementRemoved(shown.network, shown.originator)

    run(scenario)


def local(prefix: str, distance: int = 1, *, configured: bool = False) -> dict[str, Any]:
    """Return a network that olsrv2d says it announces."""
    return {"prefix": prefix, "distance": distance, "metric": 1, "configured": configured}


def test_only_the_networks_that_lack_are_attached_and_those_of_the_file_are_left_alone(path: Path) -> None:
    announced = [local("fd01::/64"), local("fd09::/64"), local("fd0f::/64", configured=True)]

    async def scenario() -> None:
        async with Daemon(path, HELLO, {**SNAPSHOT, "local_attached": announced}) as daemon:
            listener = Listener(path)
            await listener.next()
            one, four = IPv6Network("fd01::/64"), IPv4Network("10.1.0.0/16")
            listener.client.announce([LocalNetwork(one, 1, 1), LocalNetwork(four, 2, 8)])
            mapped = {"prefix": "::ffff:10.1.0.0/112", "distance": 2, "metric": 8}
            assert await daemon.heard.get() == {"command": "attach", "networks": [mapped]}
            assert await daemon.heard.get() == {"command": "withdraw", "prefixes": ["fd09::/64"]}
            daemon.say(
                change("local_attached", "set", **mapped, configured=False),
                change("local_attached", "del", **local("fd09::/64")),
                change("route", "del", destination=str(FAR)),
            )
            await listener.next()
            listener.client.announce([LocalNetwork(one, 2, 1), LocalNetwork(four, 2, 8)])
            again = {"prefix": "fd01::/64", "distance": 2, "metric": 1}
            assert await daemon.heard.get() == {"command": "attach", "networks": [again]}

    run(scenario)


def test_what_is_announced_is_said_again_to_a_router_that_restarted(path: Path) -> None:
    wanted = LocalNetwork(IPv6Network("fd01::/64"), 1, 1)
    said = {"command": "attach", "networks": [{"prefix": "fd01::/64", "distance": 1, "metric": 1}]}

    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.announce([wanted])
            assert await daemon.heard.get() == said
            daemon.hang_up()
            assert await daemon.heard.get() == said

    run(scenario)


def test_before_it_is_known_what_to_announce_nothing_of_a_predecessor_is_withdrawn(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, {**SNAPSHOT, "local_attached": [local("fd09::/64")]}) as daemon:
            listener = Listener(path)
            await listener.next()
            listener.client.others.trust([ip_address("fd00::b")])
            assert (await daemon.heard.get())["command"] == "trust"
            assert daemon.heard.empty()
            listener.client.announce([])
            assert await daemon.heard.get() == {"command": "withdraw", "prefixes": ["fd09::/64"]}

    run(scenario)


def test_many_networks_are_attached_in_portions(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            networks = (IPv6Network((n << 64, 64)) for n in range(1, NETWORKS_PORTION + 2))
            listener.client.announce(LocalNetwork(one, 1, 1) for one in networks)
            told = [await daemon.heard.get() for _ in range(2)]
            assert [len(one["networks"]) for one in told] == [NETWORKS_PORTION, 1]

    run(scenario)


def test_the_client_asks_what_the_router_refused(path: Path) -> None:
    source = {"interface": "mesh0", "address": "fe80::66", "count": 4}
    claim = {**source, "originator": "fd00::7"}
    refusal = {"counter": "over_limit", "count": 5, "seconds_ago": 1, "sources": [source], "further_sources": 2}
    older = {**refusal, "counter": "forged"}

    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            assert await listener.client.refusals() == ()
            await listener.next()
            asked = asyncio.create_task(listener.client.refusals())
            assert await daemon.heard.get() == {"command": "refusals"}
            daemon.say({"type": "refusals", "time_us": 1, "refusals": [{**refusal, "claims": [claim]}, older]})
            sources = (Source("mesh0", "fe80::66", 4),)
            claims = (Source("mesh0", "fe80::66", 4, "fd00::7"),)
            assert await asked == (
                Refusal("over_limit", 5, sources, 2, claims),
                Refusal("forged", 5, sources, 2),
            )
            asked = asyncio.create_task(listener.client.refusals())
            await daemon.heard.get()
            daemon.hang_up()
            assert await asked == ()

    run(scenario)


def test_the_client_asks_what_the_router_counted(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            assert await listener.client.counters() == {}
            await listener.next()
            asked = asyncio.create_task(listener.client.counters())
            assert await daemon.heard.get() == {"command": "counters"}
            daemon.say({"type": "counters", "time_us": 1, "counters": {"tcs_sent": 7}})
            assert await asked == {"tcs_sent": 7}
            asked = asyncio.create_task(listener.client.counters())
            await daemon.heard.get()
            daemon.hang_up()
            assert await asked == {}

    run(scenario)


def test_a_router_that_does_not_know_the_question_delays_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_TIMEOUT", 0.05)

    async def scenario() -> None:
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            listener = Listener(path)
            await listener.next()
            assert await listener.client.refusals() == ()
            daemon.say({"type": "refused", "reason": "no such command"}, change("route", "del", destination=str(FAR)))
            await listener.next()
            assert listener.client.topology.warnings == ("it refuses what meshsecd says: no such command",)

    run(scenario)


def test_unknown_fields_and_objects_of_later_versions_are_passed_over(path: Path) -> None:
    async def scenario() -> None:
        async with Daemon(path, {**HELLO, "more": 1}, {**SNAPSHOT, "stations": []}) as daemon:
            listener = Listener(path)
            await listener.next()
            daemon.say(change("station", "set", mac="x"), change("route", "set", **{**ROUTE, "colour": "red"}))
            assert isinstance(await listener.next(), RouteSet)

    run(scenario)
