"""overlayd's client against a scripted node on a real socket, with overlayd's own lines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.adapters.overlay.overlayd import Overlayd, OverlaydError, OverlayEvent
from meshsec.core.channels.events import OverlayDown, OverlayObserved, OverlayUp

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schema" / "overlayd-control-1.json").read_text()
)
OWN, PEER, OTHER = (IPv6Address(f"fc00::{suffix}") for suffix in ("a", "b", "c"))
DEVICE = "overlay0"
HELLO: dict[str, Any] = {"type": "hello", "schema": 1, "software": "overlayd", "version": "0.1.0", "pid": 7}
STATUS: dict[str, Any] = {
    "type": "status",
    "time_us": 1,
    "address": str(OWN),
    "key": f"{'0' * 52}.k",
    "permit": {"by": "control", "addresses": 0},
    "kept": [],
    "tun": {
        "name": DEVICE,
        "index": 3,
        "mtu": 1304,
        "packets_in": 0,
        "pieces_in": 0,
        "packets_out": 0,
        "pieces_out": 0,
        "malformed": 0,
        "refused": 0,
    },
    "interfaces": [],
    "peers": [],
    "sessions": [],
    "forwarded": 0,
    "delivered": 0,
    "sent": 0,
    "dropped": {"not-permitted": 2},
}
DONE = {"type": "done", "command": "permit", "count": 1}
REFUSED = {"type": "refused", "command": "permit", "reason": "on purpose"}


def status(*kept: IPv6Address, sessions: tuple[IPv6Address, ...] = (), **changes: Any) -> dict[str, Any]:
    listed = [session(address) for address in sessions]
    return {**STATUS, "kept": [{"address": str(one), "up": True} for one in kept], "sessions": listed, **changes}


def session(address: IPv6Address, packets: int = 0) -> dict[str, Any]:
    fixed = {"key": STATUS["key"], "ready": True, "way": None, "used_us": 0}
    return {**fixed, "address": str(address), "packets_in": packets}


def event(name: str, address: IPv6Address) -> dict[str, Any]:
    return {"type": "event", "time_us": 2, "name": name, "address": str(address)}


def observed(*kept: IPv6Address, linked: tuple[IPv6Address, ...] = ()) -> OverlayObserved:
    return OverlayObserved(frozenset(kept), frozenset(linked))


class Node:
    """A UNIX socket that greets as the script says, and then sends what the test gives it."""

    def __init__(self, path: Path, *greeting: Any) -> None:
        self.path = path
        self.greeting = greeting
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.say(*self.greeting)
        while line := await reader.readline():
            self.heard.put_nowait(line.decode().strip())

    def say(self, *lines: Any) -> None:
        for line in lines:
            self._writers[-1].write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()


class Client:
    """The adapter with a queue of its events."""

    def __init__(self, path: Path) -> None:
        self.overlayd = Overlayd(path, OWN, DEVICE)
        self.told: asyncio.Queue[OverlayEvent] = asyncio.Queue()

    async def next(self) -> OverlayEvent:
        async with asyncio.timeout(30):
            return await self.told.get()

    async def down(self) -> str:
        """Return the reason of the next event that overlayd is down."""
        while not isinstance(told := await self.next(), OverlayDown):
            pass
        return told.reason


@asynccontextmanager
async def connected(tmp_path: Path, *greeting: Any) -> AsyncIterator[tuple[Node, Client]]:
    node = Node(tmp_path / "control.sock", *(greeting or (HELLO, STATUS)))
    server = await asyncio.start_unix_server(node.serve, node.path)
    client = Client(node.path)
    running = asyncio.create_task(client.overlayd.run(client.told.put_nowait))
    try:
        yield node, client
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        node.hang_up()
        server.close()


def run(tmp_path: Path, claim: Callable[[Node, Client], Awaitable[None]], *greeting: Any) -> None:
    async def main() -> None:
        async with connected(tmp_path, *greeting) as (node, client):
            await claim(node, client)

    asyncio.run(main())


@pytest.mark.parametrize("line", [HELLO, DONE, REFUSED, event("kept-up", PEER)])
def test_the_scripted_lines_are_valid_against_the_schema(line: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(line)


def test_each_field_that_is_read_of_a_status_is_in_the_schema() -> None:
    assert STATUS.keys() <= SCHEMA["$defs"]["status"]["properties"].keys()


def test_a_connection_begins_with_the_present_state(tmp_path: Path) -> None:
    async def claim(_: Node, client: Client) -> None:
        assert [await client.next(), await client.next()] == [OverlayUp(), observed(PEER, linked=(PEER, OTHER))]
        assert (client.overlayd.version, client.overlayd.pid) == ("0.1.0", 7)
        assert client.overlayd.dropped == {"not-permitted": 2}

    run(tmp_path, claim, HELLO, status(PEER, sessions=(PEER, OTHER)))


def test_each_change_is_reported_once_and_a_status_corrects_it(tmp_path: Path) -> None:
    async def claim(node: Node, client: Client) -> None:
        assert [await client.next(), await client.next()] == [OverlayUp(), observed()]
        node.say(event("session-up", OTHER), event("way-found", OTHER), event("kept-up", PEER), event("kept-up", PEER))
        assert await client.next() == observed(linked=(OTHER,))
        assert await client.next() == observed(PEER, linked=(OTHER,))
        node.say(event("kept-down", PEER))
        assert await client.next() == observed(linked=(OTHER,))
        node.say(status(PEER))
        assert await client.next() == observed(PEER)

    run(tmp_path, claim)


def test_a_peer_that_sends_user_data_differs_from_one_with_a_session(tmp_path: Path) -> None:
    async def claim(node: Node, client: Client) -> None:
        assert [await client.next(), await client.next()] == [OverlayUp(), observed()]
        node.say(status(sessions=(PEER, OTHER)))
        assert await client.next() == observed(linked=(PEER, OTHER))
        assert client.overlayd.talking == frozenset()
        node.say({**status(PEER), "sessions": [session(PEER, packets=3), session(OTHER)]})
        assert await client.next() == observed(PEER, linked=(PEER, OTHER))
        assert client.overlayd.talking == {PEER}

    run(tmp_path, claim)


def test_commands_are_valid_against_the_schema_and_answered_in_order(tmp_path: Path) -> None:
    async def claim(node: Node, client: Client) -> None:
        await client.next()
        asked = [
            asyncio.create_task(client.overlayd.permit({PEER, OTHER})),
            asyncio.create_task(client.overlayd.keep({PEER})),
        ]
        said = [json.loads(await node.heard.get()) for _ in asked]
        assert said == [
            {"type": "permit", "addresses": [str(PEER), str(OTHER)]},
            {"type": "keep", "addresses": [str(PEER)]},
        ]
        for line in said:
            jsonschema.Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": "#/$defs/command"}]}).validate(line)
        node.say(DONE, REFUSED)
        await asked[0]
        with pytest.raises(OverlaydError, match="refused: on purpose"):
            await asked[1]

    run(tmp_path, claim)


def test_a_list_too_long_for_a_line_is_sent_in_portions(tmp_path: Path) -> None:
    many = [IPv6Address(int(OWN) + number) for number in range(2050)]

    async def claim(node: Node, client: Client) -> None:
        await client.next()
        asked = asyncio.create_task(client.overlayd.permit(many))
        said = [json.loads(await node.heard.get()) for _ in range(3)]
        assert [address for line in said for address in line["addresses"]] == [str(address) for address in many]
        assert [(line.get("portion"), line.get("more")) for line in said] == [(None, True), (1, True), (2, None)]
        for line in said:
            jsonschema.Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": "#/$defs/command"}]}).validate(line)
        node.say(DONE, DONE)
        node.say(event("session-up", OTHER))
        assert await client.next() == observed()
        assert await client.next() == observed(linked=(OTHER,))
        assert not asked.done(), "a part was taken for the whole"
        node.say(REFUSED)
        with pytest.raises(OverlaydError, match="refused: on purpose"):
            await asked

    run(tmp_path, claim)


def test_a_status_follows_the_sessions_that_are_kept(tmp_path: Path) -> None:
    async def claim(node: Node, client: Client) -> None:
        assert [await client.next(), await client.next()] == [OverlayUp(), observed()]
        keeping = asyncio.create_task(client.overlayd.keep({PEER}))
        await node.heard.get()
        node.say({"type": "done", "command": "keep", "count": 1})
        await keeping
        assert await node.heard.get() == "status"
        node.say(status(PEER))
        assert await client.next() == observed(PEER)

    run(tmp_path, claim)


def test_after_overlayds_death_open_commands_fail_and_the_client_reconnects(tmp_path: Path) -> None:
    async def claim(node: Node, client: Client) -> None:
        await client.next()
        asked = asyncio.create_task(client.overlayd.permit({PEER}))
        await node.heard.get()
        node.hang_up()
        assert "it closed the connection" in await client.down()
        with pytest.raises(OverlaydError, match="closed the connection"):
            await asked
        assert await client.next() == OverlayUp()
        assert await client.next() == observed()

    run(tmp_path, claim)


def test_without_a_connection_a_command_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(OverlaydError, match="not connected"):
        asyncio.run(Overlayd(tmp_path / "none.sock", OWN, DEVICE).permit({PEER}))


def test_a_missing_overlayd_is_reported_with_its_path(tmp_path: Path) -> None:
    async def main() -> str:
        client = Client(tmp_path / "none.sock")
        running = asyncio.create_task(client.overlayd.run(client.told.put_nowait))
        try:
            return await client.down()
        finally:
            running.cancel()

    assert "none.sock: " in asyncio.run(main())


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        ((HELLO, status(address=str(PEER))), r"its address is fc00::b, and not this node's fc00::a"),
        ((HELLO, status(tun=None)), r"its TUN device is none, and not overlay0"),
        ((HELLO, status(tun={**STATUS["tun"], "name": "tun9"})), r"its TUN device is tun9, and not overlay0"),
        ((HELLO, status(permit="anybody")), r'permit = "control" is needed'),
        ((HELLO, status(permit={"by": "file", "addresses": 1})), r'permit = "control" is needed'),
        (({**HELLO, "schema": 2}, STATUS), r"it speaks schema 2; 1 is needed"),
        ((STATUS, STATUS), r"its first line is no hello"),
        ((HELLO, HELLO), r"its second line is no status"),
        ((HELLO, STATUS, HELLO), r"a second hello"),
        ((HELLO, STATUS, DONE), r"an answer to nothing"),
        ((HELLO, "{"), r"truncated|expected|malformed"),
        ((HELLO, STATUS, event("kept-up", PEER) | {"address": "nobody"}), r"nobody"),
        ((HELLO, STATUS, {"type": "novelty"}), r"novelty"),
    ],
)
def test_an_overlayd_with_another_version_address_or_device_is_not_used(
    tmp_path: Path, greeting: tuple[Any, ...], why: str
) -> None:
    async def claim(_: Node, client: Client) -> None:
        reason = await client.down()
        assert reason.startswith(f"overlayd at {tmp_path}/control.sock: ")
        jsonschema.validate(reason, {"pattern": why})

    run(tmp_path, claim, *greeting)
