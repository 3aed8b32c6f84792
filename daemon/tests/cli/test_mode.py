"""``mode`` asks meshsecd and prints its answer."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from meshsec.adapters.sockets.control import ControlError, ControlServer

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-mode-1.json"
PEERS = [
    {"name": "boat", "plane": "overlay", "override": True, "carries": "overlay"},
    {"name": "truck", "plane": "ipsec", "override": False, "carries": None},
]


class Daemon:
    """A server that answers ``mode`` and keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.overlay: Mapping[str, Any] = {"enabled": True, "up": True, "reason": None}
        self.peers = PEERS

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return meshsecd's answer."""
        assert method == "mode"
        self.asked.append(params)
        if params.get("peer") == "nobody":
            raise ControlError("unknown_peer", "nobody is not a peer")
        return {"schema": "meshsec-mode-1", "default": "ipsec", "overlay": self.overlay, "peers": self.peers}


@pytest.fixture
def daemon(meshsec: Meshsec, tmp_path: Path) -> Iterator[Daemon]:
    made, started = Daemon(), threading.Event()
    loop = asyncio.new_event_loop()
    server = ControlServer(tmp_path / "a/run/control.sock", made.answer)

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(server.close())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert started.wait(30)
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], {}),
        (["overlay"], {"plane": "overlay"}),
        (["ipsec", "boat"], {"plane": "ipsec", "peer": "boat"}),
        (["default", "boat"], {"plane": None, "peer": "boat"}),
    ],
)
def test_the_request_has_peer_and_mode(
    meshsec: Meshsec, daemon: Daemon, arguments: list[str], asked: dict[str, Any]
) -> None:
    assert meshsec("mode", *arguments).exit_code == 0
    assert daemon.asked == [asked]


def test_json_obeys_the_schema(meshsec: Meshsec, daemon: Daemon) -> None:
    view = json.loads(meshsec("mode", "--json").stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))
    assert view["peers"] == PEERS


def test_the_table_has_each_peers_choice_and_present_data_plane(meshsec: Meshsec, daemon: Daemon) -> None:
    lines = meshsec("mode").stdout.splitlines()
    assert lines[0] == "This node: ipsec    overlay: runs"
    assert [line.split() for line in lines[2:]] == [
        ["boat", "overlay", "this", "peer", "overlay"],
        ["truck", "ipsec", "all", "-"],
    ]


@pytest.mark.parametrize(
    ("overlay", "told"),
    [
        ({"enabled": False, "up": False, "reason": None}, "overlay: not enabled ([overlay] enabled = true"),
        ({"enabled": True, "up": False, "reason": "connection refused"}, "overlay: IS AWAY: connection refused"),
    ],
)
def test_a_missing_overlay_is_reported(meshsec: Meshsec, daemon: Daemon, overlay: Mapping[str, Any], told: str) -> None:
    daemon.overlay, daemon.peers = overlay, []
    done = meshsec("mode")
    assert done.exit_code == 0
    assert told in done.stdout
    assert "No peers." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["plain"], 2, "'plain' is not one of"),
        (["default"], 2, "needs a PEER"),
        (["overlay", "nobody"], 1, "nobody is not a peer"),
    ],
)
def test_bad_arguments_are_refused(
    meshsec: Meshsec, daemon: Daemon, arguments: list[str], status: int, told: str
) -> None:
    done = meshsec("mode", *arguments)
    assert done.exit_code == status
    assert told in done.stderr
