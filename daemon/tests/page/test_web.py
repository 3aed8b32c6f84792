"""The page's server by HTTP: what it shows, what it refuses, and how it bears clients that mean no good."""

import asyncio
import gzip
import json
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from meshsec.core.page import document
from meshsec.page import connection, web
from meshsec.page.connection import Connection
from page.served import Answer, Served, read_head, serve

pytestmark = pytest.mark.thorough


def test_the_page_and_its_files_are_served_compressed_and_from_here_alone(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
            answer = await served.ask(path)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(kind)
            assert gzip.decompress(answer.body).startswith(b"content of ")
            assert_confined(answer)
            again = await served.ask(path, if_none_match=answer.headers["etag"])
            assert (again.status, again.body) == (304, b"")

    serve(tmp_path, scenario)


def assert_confined(answer: Answer) -> None:
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", ["/../etc/passwd", "/page.js/../served.py", "/%2e%2e/x", "/api", "/index.html", "//"])
def test_there_is_nothing_else(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask(path)
        assert answer.status == 404
        assert_confined(answer)

    serve(tmp_path, scenario)


def test_the_document_is_what_meshsecd_knows(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.meshsecd.was_asked.wait()
        assert {method for method, _ in served.meshsecd.asked} <= {"status", "watch"}, "nobody looks yet"
        whole = await served.document()
        assert whole["document"]["meshsecd"] == {"up": True}
        assert set(whole["document"]["peers"]) == {"b", "d"}
        assert "a b" in whole["document"]["graph"]["edges"], "the first who looks gets all of it"
        assert whole["document"]["doctor"]["verdict"] == "ok"

    serve(tmp_path, scenario)


class Stream:
    """A browser that follows changes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, served: Served, after: int, **headers: str) -> "Stream":
        reader, writer = await served.connect()
        writer.write(served.request(f"/api/changes?after={after}", **headers))
        status, found = await read_head(reader)
        assert status == 200
        assert found["content-type"].startswith("text/event-stream")
        return cls(reader, writer)

    async def next(self) -> tuple[str, Any]:
        """Return the id and the data of the next event; the name in place of the id for one that has a name."""
        async with asyncio.timeout(20):
            while True:
                block = await self._block()
                if "data" in block:
                    return block.get("event", block.get("id", "")), json.loads(block["data"])

    async def _block(self) -> Mapping[str, str]:
        lines = []
        while True:
            line = (await self.reader.readuntil(b"\n")).decode().strip()
            if ": " in line and not line.startswith(":"):
                lines.append(line)
            elif not line and lines:
                return dict(line.split(": ", 1) for line in lines)


def test_a_change_reaches_a_browser_at_once(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole = await served.document()
        stream = await Stream.open(served, whole["version"])
        served.meshsecd.answers["status"]["peers"][0].update(state="failed", reason="for the test")
        served.control.publish({"kind": "channel", "peer": "b", "state": "failed", "reason": "for the test"})
        number, patch = await stream.next()
        assert int(number) == whole["version"] + 1
        assert patch["peers"]["b"] | {"since": None} == {"state": "failed", "reason": "for the test", "since": None}
        assert patch["events"][-1]["reason"] == "for the test"
        stream.writer.close()

    serve(tmp_path, scenario)


def test_a_browser_that_comes_back_gets_what_it_missed_or_begins_again(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole = await served.document()
        stream = await Stream.open(served, whole["version"])
        served.control.publish({"kind": "channel", "peer": "b", "state": "", "reason": ""})
        number, _ = await stream.next()
        stream.writer.close()
        back = await Stream.open(served, 0, last_event_id=str(whole["version"]))
        assert (await back.next())[0] == number
        back.writer.close()
        for strange in (99_999, 0):
            lost = await Stream.open(served, strange)
            assert (await lost.next())[0] == ("again" if strange else "1")
            lost.writer.close()

    serve(tmp_path, scenario)


@pytest.mark.parametrize("after", ["", "x", "-1", "1e9", "²", "9" * 16])
def test_a_version_that_is_no_number_is_refused(tmp_path: Path, after: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask(f"/api/changes?after={quote(after)}")
        assert answer.status == 400
        assert answer.json["code"] == "bad_params"

    serve(tmp_path, scenario)


def test_when_meshsecd_ends_the_page_says_so_and_it_comes_back(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole = await served.document()
        stream = await Stream.open(served, whole["version"])
        await served.control.close()
        while "meshsecd" not in (patch := (await stream.next())[1]):
            pass
        assert patch["meshsecd"]["up"] is False
        assert "systemctl start" in patch["meshsecd"]["reason"]
        await served.control.start()
        while "meshsecd" not in (patch := (await stream.next())[1]):
            pass
        assert patch["meshsecd"] == {"up": True, "reason": None}
        stream.writer.close()

    serve(tmp_path, scenario)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8269", 200),
        ("[fc2c:d554:e8b3:edac:8c74:6d10:1cbf:d28]:8269", 200),
        ("localhost", 200),
        ("rescue-1:8269", 421),
        ("boat.mesh", 421),
        ("Rescue-1.mesh", 200),
        ("evil.example", 421),
        ("rescue-1.evil.example:8269", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 400),
        ("[", 421),
    ],
)
def test_only_this_nodes_own_names_are_served(tmp_path: Path, host: str, status: int) -> None:
    """A page whose own name leads here could read what this one shows (DNS rebinding)."""

    async def scenario(served: Served) -> None:
        assert (await served.ask("/api/document", host=host)).status == status

    serve(tmp_path, scenario)


CHANGE = {"method": "peer_remove", "params": {"name": "boat"}}


def test_a_login_makes_a_change(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask("/api/login", method="POST", body={"token": "good"})
        assert answer.status == 200
        assert_confined(answer)
        bearer = f"Bearer {answer.json['session']}"
        answer = await served.ask("/api/change", method="POST", body=CHANGE, authorization=bearer)
        assert answer.json == {"name": "boat"}
        assert ("change", {"session": "good", **CHANGE}) in served.meshsecd.asked

    serve(tmp_path, scenario)


@pytest.mark.parametrize(
    ("status", "path", "body", "headers"),
    [
        (401, "/api/change", CHANGE, {}),
        (401, "/api/change", CHANGE, {"authorization": "Basic Z29vZA=="}),
        (401, "/api/change", CHANGE, {"cookie": "session=good"}),
        (401, "/api/change", CHANGE, {"authorization": "Bearer bad"}),
        (409, "/api/login", {"token": "bad"}, {}),
        (400, "/api/login", {}, {}),
        (400, "/api/login", b"[]", {}),
        (400, "/api/login", b"{", {}),
        (400, "/api/login", b"[" * 10_000, {}),
        (413, "/api/login", b" " * (web.MAX_BODY + 1), {}),
        (415, "/api/login", {"token": "good"}, {"content_type": "text/plain"}),
        (415, "/api/login", {"token": "good"}, {"content_type": "application/x-www-form-urlencoded"}),
        (403, "/api/change", CHANGE, {"authorization": "Bearer good", "origin": "http://evil.example"}),
        (403, "/api/change", CHANGE, {"authorization": "Bearer good", "origin": "null"}),
        (403, "/api/change", CHANGE, {"authorization": "Bearer good", "sec_fetch_site": "cross-site"}),
        (403, "/api/change", CHANGE, {"authorization": "Bearer good", "sec_fetch_site": "same-site"}),
    ],
)
def test_a_change_without_a_login_or_from_another_page_is_refused(
    tmp_path: Path, status: int, path: str, body: Any, headers: dict[str, str]
) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask(path, method="POST", body=body, **headers)
        assert answer.status == status
        assert answer.json["message"]
        assert_confined(answer)
        assert ("change", {"session": "good", **CHANGE}) not in served.meshsecd.asked

    serve(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/api/login", "/api/logout", "/api/change"])
def test_a_change_is_never_made_by_get(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.ask(path, authorization="Bearer good")).status == 405

    serve(tmp_path, scenario)


def test_who_is_no_peer_sees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "is_protected", lambda _, address: address != "127.0.0.1")

    async def scenario(served: Served) -> None:
        for path in ("/", "/page.js", "/api/document", "/api/changes?after=0", "/api/explain?peer=b"):
            answer = await served.ask(path)
            assert (answer.status, answer.json["code"]) == (403, "not_a_peer")
            assert_confined(answer)

    serve(tmp_path, scenario)


def test_who_is_no_peer_cannot_log_in_where_he_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "is_protected", lambda _, address: address != "127.0.0.1")

    async def scenario(served: Served) -> None:
        for path in ("/api/login", "/api/change", "/api/logout"):
            answer = await served.ask(path, method="POST", body={"token": "good"}, authorization="Bearer good")
            assert (answer.status, answer.json["code"]) == (403, "read_only")
        assert (await served.ask("/api/document")).status == 200

    serve(tmp_path, scenario, clients=[ip_network("127.0.0.0/30")])


@pytest.mark.parametrize(("allowed", "here", "status"), [(True, True, 200), (True, False, 403), (False, True, 403)])
def test_a_client_logs_in_where_the_configuration_allows_it_and_he_is_at_this_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool, here: bool, status: int
) -> None:
    monkeypatch.setattr(document, "is_protected", lambda _, address: address != "127.0.0.1")

    async def scenario(served: Served) -> None:
        client = {"mac": "02:00:00:00:00:01", "addresses": ["127.0.0.1"], "here": here, "node": None}
        served.meshsecd.answers["clients"]["clients"] = [client]
        await served.document()
        assert (await served.ask("/api/login", method="POST", body={"token": "good"})).status == status

    serve(tmp_path, scenario, clients=[ip_network("127.0.0.0/30")], clients_log_in=allowed)


def test_a_client_that_has_gone_cannot_log_in_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has its address now may be elsewhere; the page's document would know 15 s later, or not at all."""
    monkeypatch.setattr(document, "is_protected", lambda _, address: address != "127.0.0.1")

    async def scenario(served: Served) -> None:
        client = {"mac": "02:00:00:00:00:01", "addresses": ["127.0.0.1"], "here": True, "node": None}
        for clients, status in (([client], 200), ([client | {"here": False}], 403), ([client], 200), ([], 403)):
            served.meshsecd.answers["clients"]["clients"] = clients
            assert (await served.ask("/api/login", method="POST", body={"token": "good"})).status == status
            changed = await served.ask("/api/change", method="POST", body={}, authorization="Bearer good")
            assert changed.status == status
        await served.control.close()
        assert (await served.ask("/api/login", method="POST", body={"token": "good"})).status == 503

    serve(tmp_path, scenario, clients=[ip_network("127.0.0.0/30")], clients_log_in=True)


def test_who_is_neither_a_client_nor_behind_a_node_sees_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the page is open to clients, a host at the uplink reaches its addresses too."""
    monkeypatch.setattr(document, "is_protected", lambda _, address: address != "127.0.0.1")
    behind = False
    monkeypatch.setattr(document, "is_behind", lambda *_: behind)

    async def scenario(served: Served) -> None:
        nonlocal behind
        assert (await served.ask("/api/document")).status == 403
        behind = True
        assert (await served.ask("/api/document")).status == 200

    serve(tmp_path, scenario, clients=[ip_network("10.130.0.0/16"), ip_network("fd12::/64")])


def test_a_browser_that_may_look_no_longer_is_told_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "PULSE_SECONDS", 0.05)
    trusted = True
    monkeypatch.setattr(document, "is_protected", lambda *_: trusted)

    async def scenario(served: Served) -> None:
        nonlocal trusted
        whole = await served.document()
        reader, writer = await served.connect()
        writer.write(served.request(f"/api/changes?after={whole['version']}"))
        await read_head(reader)
        async with asyncio.timeout(20):
            await reader.readuntil(b": still here")
            trusted = False
            await reader.read()
        writer.close()

    serve(tmp_path, scenario)


def test_what_happens_after_that_is_not_sent_to_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = True
    monkeypatch.setattr(document, "is_protected", lambda *_: trusted)

    async def scenario(served: Served) -> None:
        nonlocal trusted
        stream = await Stream.open(served, (await served.document())["version"])
        served.control.publish({"kind": "channel", "peer": "b", "state": "", "reason": "before"})
        assert "before" in str(await stream.next())
        trusted = False
        served.control.publish({"kind": "channel", "peer": "b", "state": "", "reason": "after"})
        async with asyncio.timeout(20):
            assert b"after" not in await stream.reader.read()
        stream.writer.close()

    serve(tmp_path, scenario)


# --- clients that mean no good ---


def test_a_request_that_does_not_come_is_not_awaited_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(web, "BODY_SECONDS", 0.3)

    async def scenario(served: Served) -> None:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
            reader, writer = await served.connect()
            writer.write(begun)
            async with asyncio.timeout(10):
                assert await ended(reader)
            writer.close()
        answer = await served.ask("/api/login", method="POST", body=b"{", content_length="100")
        assert answer.status == 408

    serve(tmp_path, scenario)


def test_the_next_request_on_a_connection_is_not_awaited_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.5)

    async def scenario(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(served.request("/page.css", connection="keep-alive"))
        _, headers = await read_head(reader)
        await reader.readexactly(int(headers["content-length"]))
        async with asyncio.timeout(10):
            while not reader.at_eof():
                writer.write(b"G")
                await asyncio.sleep(0.1)
        writer.close()

    serve(tmp_path, scenario)


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


def test_one_address_cannot_take_all_connections(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        held = [await served.connect() for _ in range(connection.MOST_FROM_ONE)]
        reader, writer = await served.connect()
        async with asyncio.timeout(10):
            assert await ended(reader)
        writer.close()
        for _, other in held:
            other.close()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await served.ask("/page.css")).status == 200
                except (ConnectionError, asyncio.IncompleteReadError):
                    await asyncio.sleep(0.05)
                else:
                    break

    serve(tmp_path, scenario)


def test_others_cannot_keep_this_machines_operator_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here 127.0.0.1 is somebody else."""
    monkeypatch.setattr(connection, "is_own", lambda address: address == "127.0.0.2")
    monkeypatch.setattr(connection, "MOST", 3)
    monkeypatch.setattr(web, "MAX_STREAMS", 2)
    monkeypatch.setattr(web, "OWN_STREAMS", 1)

    async def scenario(served: Served) -> None:
        version = (await served.document())["version"]
        others = [await served.connect() for _ in range(2)]
        others[0][1].write(served.request(f"/api/changes?after={version}"))
        assert (await read_head(others[0][0]))[0] == 200
        assert (await served.ask(f"/api/changes?after={version}")).status == 503
        others.append(await served.connect())
        fourth, writer = await served.connect()
        async with asyncio.timeout(10):
            assert await ended(fourth)
            reader, own = await asyncio.open_connection("127.0.0.1", served.port, local_addr=("127.0.0.2", 0))
            own.write(served.request(f"/api/changes?after={version}"))
            assert (await read_head(reader))[0] == 200
        for one in (writer, own, *(other for _, other in others)):
            one.close()

    serve(tmp_path, scenario)


def test_a_browser_that_does_not_read_is_let_go_and_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_SECONDS", 0.5)

    async def scenario(served: Served) -> None:
        whole = await served.document()
        deaf = await Stream.open(served, whole["version"])
        transport = deaf.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        other = await Stream.open(served, whole["version"])
        async with asyncio.timeout(40):
            for number in range(1000):
                served.meshsecd.answers["status"]["peers"][0]["reason"] = f"{number} " * 200_000
                served.control.publish({"kind": "channel", "peer": "b", "state": "", "reason": ""})
                while f"{number} " not in str((await other.next())[1].get("peers"))[:80]:
                    pass
                if Connection._open["127.0.0.1"] == 1:
                    break
        transport.abort()
        other.writer.close()

    serve(tmp_path, scenario)


def test_only_so_many_follow_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_STREAMS", 2)

    async def scenario(served: Served) -> None:
        whole = await served.document()
        streams = [await Stream.open(served, whole["version"]) for _ in range(2)]
        for stream in streams:
            await stream.next()
        answer = await served.ask(f"/api/changes?after={whole['version']}")
        assert (answer.status, answer.json["code"]) == (503, "busy")
        for stream in streams:
            stream.writer.close()

    serve(tmp_path, scenario)


def test_requests_that_are_none_are_refused(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for octets in (b"\x16\x03\x01\x02\x00\x01\n\n", b"GET\r\n\r\n", b"x" * 70_000):
            reader, writer = await served.connect()
            writer.write(octets)
            async with asyncio.timeout(20):
                status, _ = await read_head(reader)
            assert status == 400
            writer.close()
        assert (await served.ask("/")).status == 200

    serve(tmp_path, scenario)
