"""The control socket with real clients, well behaved and not."""

import asyncio
import grp
import json
import os
import stat
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meshsec.adapters.sockets import control as module
from meshsec.adapters.sockets.control import ControlError, ControlServer


async def handler(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    if method == "fail":
        raise ControlError("refused", "for the test")
    if method == "big":
        return {"text": "x" * int(params["size"])}
    return {"method": method, "params": dict(params)}


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, path: Path) -> "Client":
        return cls(*await asyncio.open_unix_connection(path, limit=1 << 24))

    def send(self, octets: bytes) -> None:
        self.writer.write(octets)

    async def ask(self, **request: object) -> dict[str, Any]:
        self.send(json.dumps(request).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            answer: dict[str, Any] = json.loads(await self.reader.readuntil(b"\n"))
            return answer

    async def is_closed(self) -> bool:
        async with asyncio.timeout(60):
            try:
                await self.reader.read()
            except ConnectionError:
                return True
            return self.reader.at_eof()


Scenario = Callable[[ControlServer, Path], Coroutine[Any, Any, None]]


def serve(tmp_path: Path, scenario: Scenario) -> None:
    async def run() -> None:
        path = tmp_path / "run" / "control.sock"
        server = ControlServer(path, handler)
        await server.start()
        try:
            await scenario(server, path)
        finally:
            await server.close()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*rest, return_exceptions=True)
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_requests_are_answered_in_order_with_their_number(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        client = await Client.open(path)
        client.send(b'{"id": 1, "method": "status"}\n{"id": "b", "method": "plan", "params": {"x": 1}}\n')
        assert await client.answer() == {"id": 1, "result": {"method": "status", "params": {}}}
        assert await client.answer() == {"id": "b", "result": {"method": "plan", "params": {"x": 1}}}
        client.writer.close()

    serve(tmp_path, scenario)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense\n", "malformed"),
        (b"[]\n", "object"),
        (b'{"id": 1}\n', "method"),
        (b'{"method": 1}\n', "str"),
        (b'{"method": "x", "params": []}\n', "object"),
        (b"\xff\n", "malformed"),
        (b"\n", "truncated"),
    ],
    ids=["json", "array", "no method", "type", "params", "utf-8", "empty"],
)
def test_a_request_that_cannot_be_read_is_answered_and_the_next_one_served(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        client = await Client.open(path)
        client.send(line)
        error = (await client.answer())["error"]
        assert error["code"] == "bad_request"
        assert reason in error["message"]
        assert "result" in await client.ask(id=2, method="status")
        client.writer.close()

    serve(tmp_path, scenario)


def test_a_socket_is_given_to_its_own_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid={"lookers": 4711}[name]))
    monkeypatch.setattr(os, "chown", lambda path, _user, group: given.append((path.name, group)))

    async def run() -> None:
        server = ControlServer(tmp_path / "view.sock", handler, "lookers")
        await server.start()
        assert stat.S_IMODE((tmp_path / "view.sock").stat().st_mode) == 0o660
        await server.close()

    asyncio.run(run())
    assert given == [("view.sock", 4711)]


def test_a_refusal_carries_code_and_message(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        client = await Client.open(path)
        answer = await client.ask(id=5, method="fail")
        assert answer == {"id": 5, "error": {"code": "refused", "message": "for the test"}}
        client.writer.close()

    serve(tmp_path, scenario)


def test_an_endless_line_ends_the_connection(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        client = await Client.open(path)
        client.send(b"x" * (3 * module.MAX_REQUEST))
        assert "octets" in (await client.answer())["error"]["message"]
        assert await client.is_closed()
        client.writer.close()

    serve(tmp_path, scenario)


def test_events_reach_those_who_watch_and_nobody_else(tmp_path: Path) -> None:
    async def scenario(server: ControlServer, path: Path) -> None:
        watcher, other = await Client.open(path), await Client.open(path)
        assert "result" in await watcher.ask(id=1, method="watch")
        assert server.is_watched
        server.publish({"kind": "channel", "peer": "boat"})
        assert await watcher.answer() == {"event": {"kind": "channel", "peer": "boat"}}
        assert (await other.ask(id=1, method="ping"))["result"]["method"] == "ping"
        watcher.writer.close()
        other.writer.close()
        while server.is_watched:  # noqa: ASYNC110  (the server tells nobody of it)
            await asyncio.sleep(0.001)

    serve(tmp_path, scenario)


def test_a_watcher_that_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNREAD", 100_000)

    async def scenario(server: ControlServer, path: Path) -> None:
        slow, quick = await Client.open(path), await Client.open(path)
        await slow.ask(id=1, method="watch")
        await quick.ask(id=1, method="watch")
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(600):
            server.publish({"number": number, "text": "x" * 1000})
            assert (await quick.answer())["event"]["number"] == number
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert await slow.is_closed()
        assert server.is_watched
        slow.writer.close()
        quick.writer.close()

    serve(tmp_path, scenario)


def test_a_client_too_many_is_refused_and_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)

    async def scenario(_: ControlServer, path: Path) -> None:
        served = [await Client.open(path) for _ in range(2)]
        for client in served:
            await client.ask(id=1, method="ping")
        third = await Client.open(path)
        assert (await third.answer())["error"]["code"] == "busy"
        assert await third.is_closed()
        assert "result" in await served[0].ask(id=2, method="ping")
        for client in [*served, third]:
            client.writer.close()

    serve(tmp_path, scenario)


def test_a_large_answer_arrives_whole(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        client = await Client.open(path)
        answer = await client.ask(id=1, method="big", params={"size": 3_000_000})
        assert len(answer["result"]["text"]) == 3_000_000
        client.writer.close()

    serve(tmp_path, scenario)


def test_the_socket_is_for_owner_and_group_and_goes_with_its_server(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        mode = (await asyncio.to_thread(path.stat)).st_mode
        assert (stat.S_IMODE(mode), stat.S_ISSOCK(mode)) == (0o660, True)

    serve(tmp_path, scenario)
    assert not (tmp_path / "run/control.sock").exists()


def test_the_socket_of_a_dead_predecessor_is_replaced(tmp_path: Path) -> None:
    async def scenario(_: ControlServer, path: Path) -> None:
        successor = ControlServer(path, handler)
        await successor.start()
        client = await Client.open(path)
        assert "result" in await client.ask(id=1, method="ping")
        client.writer.close()
        await successor.close()

    serve(tmp_path, scenario)
