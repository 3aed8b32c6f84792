"""A meshsecd that answers the command line as a test says, in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meshsec.adapters.sockets.control import ControlServer

Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the answer to a method with its parameters, or raises ControlError."""


@contextmanager
def answering(path: Path, answer: Answer) -> Iterator[None]:
    """Answer at a socket until the block is left."""
    started = threading.Event()
    loop = asyncio.new_event_loop()

    async def answered(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return answer(method, params)

    server = ControlServer(path, answered)

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(server.close())
        for task in asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert started.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
