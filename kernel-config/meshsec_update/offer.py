"""Gives this node's update to peers, by HTTP on its mesh address, which only protected channels reach."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv6Address
from socket import AF_INET6

from meshsec_update.store import Offer, Part

PORT = 17188
"""TCP port, after those of meshsecd and its benchmarks (ADR 0104)."""
_AT_A_TIME = 4
"""Requests that are answered at a time; whoever asks beyond that gets 503 and may ask again."""
_BLOCK = 1 << 16
_SECONDS = 30.0
"""A peer that takes nothing for so long is left."""


class Server(ThreadingHTTPServer):
    """Answers peers with what ``offer`` returns at that moment."""

    address_family = AF_INET6
    daemon_threads = True

    def __init__(self, address: IPv6Address, offer: Callable[[], Offer | None], port: int = PORT) -> None:
        super().__init__((str(address), port), _Handler)
        self.offer = offer
        self.places = threading.BoundedSemaphore(_AT_A_TIME)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _SECONDS
    server_version, sys_version = "meshsec-update", ""

    def do_GET(self) -> None:
        """Send a file of the update, from where the peer asks."""
        if not self.server.places.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            offer = self.server.offer()
            part = offer.parts.get(self.path.removeprefix("/")) if offer else None
            if offer is None or part is None:
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                self._send(part, offer.age)
        finally:
            self.server.places.release()

    def _send(self, part: Part, age: int) -> None:
        start = self._start()
        if start > part.size:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        self.send_header("Content-Length", str(part.size - start))
        self.send_header("Age", str(age))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{part.size - 1}/{part.size}")
        self.end_headers()
        with part.path.open("rb") as file:
            file.seek(start)
            left = part.size - start
            while left and (block := file.read(min(left, _BLOCK))):
                self.wfile.write(block)
                left -= len(block)

    def _start(self) -> int:
        asked = self.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        return int(asked) if asked.isascii() and asked.isdigit() else 0
