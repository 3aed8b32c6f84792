"""A meshsecd that answers the page from a record: a mesh as large, or names as hostile, as no lab makes them."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meshsec.adapters.sockets.control import ControlServer
from tests.lab.basics.places import REPOSITORY

ANSWERS = REPOSITORY / "tests/vectors/page/answers.json"
Answers = dict[str, Any]


def answers() -> Answers:
    """Return the record, which a test may change."""
    found: Answers = json.loads(ANSWERS.read_text())
    return found


def large(nodes: int) -> Answers:
    """Return the answers of a node in a mesh of that many peers, of which each has about six neighbours."""
    made = answers()
    model = next(peer for peer in made["status"]["peers"] if peer["name"] == "d")
    numbers = range(1, nodes + 1)
    made["status"]["peers"] = [
        {**model, "name": f"node-{number}", "address": _address(number), "ipv4": None, "bytes_in": 977 * number}
        for number in numbers
    ]
    own = made["status"]["node"]["locator"]
    pairs = [
        (number, other) for number in numbers for other in (number + 1, number + 31, number + 32) if other <= nodes
    ]
    made["topology"] |= {
        "neighbours": [{**made["topology"]["neighbours"][1], "originator": _locator(number)} for number in (1, 2, 3)],
        "edges": [{"source": _locator(one), "target": _locator(other), "metric": 2113280} for one, other in pairs],
        "routes": [_route(number, _locator(number - 31) if number > 31 else own) for number in numbers],
    }
    return made


def _address(number: int) -> str:
    return f"fc00::{number:x}"


def _locator(number: int) -> str:
    return f"fd00::{number:x}"


def _route(number: int, last_hop: str) -> Mapping[str, object]:
    return {
        "destination": f"{_locator(number)}/128",
        "next_hop": "fe80::1",
        "interface": "mesh0",
        "hops": 1 + number // 31,
        "metric": 2113280,
        "last_hop": last_hop,
        "originator": _locator(number),
        "peer": f"node-{number}",
    }


@contextmanager
def answering(socket: Path, recorded: Answers) -> Iterator[None]:
    """Answer at this socket from the record."""

    async def answer(method: str, _params: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = recorded.get(method, {})
        return found

    started, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        server = ControlServer(socket, answer)
        await server.start()
        started.set()
        await ended.wait()
        await server.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(30)
        yield
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(30)
