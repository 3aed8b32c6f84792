"""A listener who asks two peers for SAs, each in the other's name, and uses the cookies that he overhears."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.lab.forge import ike
from tests.lab.forge.ike import Listener, Message, Reach
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import spis


def two_peers(label: str) -> Lab:
    """Return a lab with the line of a, b and c, of which b is a relay."""
    return Lab(label, line(names(3)), Options(ipv4=True))


def prepare(lab: Lab) -> None:
    """Have a and c trust each other without starting any daemon."""
    lab.set_up().trust("a", "c")


def limit(node: Node, **limits: int) -> None:
    """Change the limits of a node's charon before it starts (strongswan.conf(5))."""
    path = node.etc / "strongswan.conf"
    text = path.read_text(encoding="utf-8")
    for name, value in limits.items():
        text, count = re.subn(rf"\b{name} = \d+", f"{name} = {value}", text)
        assert count == 1, name
    path.write_text(text, encoding="utf-8")


class Asker:
    """Asks a and c from b's place, each in the other's name, and returns the cookies that it overhears."""

    def __init__(self, lab: Lab, rate: int) -> None:
        self._lab, self._rate = lab, rate
        self._reach = Reach(lab, "b", ("a", "c"))
        self._template: Message | None = None
        self._asked: dict[bytes, Message] = {}
        self.cookies = 0
        self.admitted = 0
        """First messages that a responder accepted: it has a half-open IKE_SA for each."""
        self._may_ask = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_asking, daemon=True)

    @contextmanager
    def running(self, *, only_listening: bool = False) -> Iterator["Asker"]:
        """Listen, and ask as soon as a first message was heard, or with ``only_listening`` from ``ask`` on."""
        if not only_listening:
            self.ask()
        with self._reach, Listener(self._reach.ends, self._hear, only_inbound=True):
            self._thread.start()
            try:
                yield self
            finally:
                self._over.set()
                self._thread.join()

    def ask(self) -> None:
        self._may_ask.set()

    def _hear(self, heard: Message) -> None:
        if heard.is_opening and heard.spi_i not in self._asked:
            self._template = heard
        forged = self._asked.get(heard.spi_i)
        if forged is None:
            return
        if cookie := ike.cookie_in(heard):
            self.cookies += 1
            self._reach.send(ike.opening(forged, forged.spi_i, cookie))
        elif heard.flags & ike.RESPONSE and heard.first == ike.SA:
            self.admitted += 1

    def _keep_asking(self) -> None:
        while not self._over.wait(1 / self._rate):
            if self._template is not None and self._may_ask.is_set():
                for source, target in (("a", "c"), ("c", "a")):
                    self._send(self._lab[source], self._lab[target])

    def _send(self, source: Node, target: Node) -> None:
        assert self._template is not None
        by_locator = self._template.source.startswith("fd")
        ends = [node.locator if by_locator else node.address for node in (source, target)]
        forged = ike.opening(replace(self._template, source=ends[0], target=ends[1]), os.urandom(8))
        self._asked[forged.spi_i] = forged
        self._reach.send(forged)


def renegotiate(lab: Lab, seconds: float) -> float:
    """Have the pair lose its SA. Return the seconds until the next one."""
    a, c = lab["a"], lab["c"]
    before = spis(a, c)
    began = time.monotonic()
    a.charon.terminate(c.name, force=True)
    a.wait_for("other SPIs", lambda: (spis(a, c) or before) != before, seconds)
    a.wait_protected(c, seconds)
    return time.monotonic() - began
