"""The lab itself: nodes, links and daemons for the time of a ``with`` block."""

import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ClassVar, Self

from tests.lab.basics import programs
from tests.lab.basics.places import BUILD
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance
from tests.lab.net.links import Cables, End, Link, Medium
from tests.lab.net.topology import Pair
from tests.lab.node import capabilities
from tests.lab.node.artifacts import artifacts
from tests.lab.node.node import Node
from tests.lab.node.options import Options

KINDS = ("charon", "pluto", "overlayd", "meshsecd", "signer", "router", "clients", "dnsmasq", "dns-sd", "page")
"""The daemons of a node in the order in which they start: the router is last, so that no node is announced too early.
"""
Report = Callable[[str], None]


class Lab:
    """Nodes as namespaces, joined by a medium. Leaving the block ends everything, also on SIGINT and SIGTERM."""

    running: ClassVar[list["Lab"]] = []
    """The labs whose block is entered; a failing test saves their artifacts."""

    def __init__(
        self,
        label: str,
        pairs: Sequence[Pair],
        options: Options | None = None,
        report: Report | None = None,
        medium: Medium | None = None,
    ) -> None:
        """``medium``: what joins the nodes, by default veth pairs."""
        self.label = label
        self.options = options or Options()
        self.nodes: dict[str, Node] = {}
        self.links: dict[frozenset[str], Link] = {}
        self._pairs = pairs
        self._medium = medium or Cables()
        self._report = report or (lambda _: None)
        self._kept = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if missing := capabilities.probe().missing():
            raise programs.ProgramMissingError(f"the lab needs {', '.join(missing)}")
        self._instance = Instance()
        self._directory = self._instance.own_directory(BUILD / "lab", self.label)
        self._catch_signals()
        self.running.append(self)
        try:
            for name in dict.fromkeys(name for pair in self._pairs for name in pair):
                self._add_node(name)
            for first, second in self._pairs:
                self._add_link(first, second)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self.save_artifacts()
        if not self._kept:
            self._end()

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def link(self, first: str, second: str) -> Link:
        """Return the link between two nodes."""
        return self.links[frozenset((first, second))]

    def end_of(self, node: str, other: str) -> End:
        """Return a node's end of its link with another."""
        return next(end for end in self.link(node, other).ends if end.namespace == self[node].namespace)

    def outsider(self, name: str) -> str:
        """Make a namespace that is no node of the mesh and is deleted with the lab. Return its name."""
        namespace = self._instance.namespace(name)
        namespaces.create(namespace)
        return namespace

    def set_up(self, options: Mapping[str, Options] | None = None) -> Self:
        """Give every node its key and configuration."""
        self._each(lambda node: node.set_up((options or {}).get(node.name, self.options)), self.nodes.values())
        return self

    def trust(self, *names: str) -> Self:
        """Give each of these nodes the cards of the others."""
        for first, second in permutations(names, 2):
            self[first].install_card(self[second])
        return self

    def trust_all(self) -> Self:
        """Give every node the cards of all others."""
        return self.trust(*self.nodes)

    def start(self, *kinds: str, nodes: Iterable[Node] | None = None) -> Self:
        """Start daemons (``KINDS``; by default all that the nodes have) and wait until they are ready.

        A router comes with its signer, as on a machine with systemd.
        """
        chosen = list(nodes or self.nodes.values())
        wanted = {*kinds, "signer"} if "router" in kinds else set(kinds) or set(KINDS)
        for kind in KINDS:
            daemons = [daemon for node in chosen if (daemon := node.daemons.get(kind))]
            if kind == "signer":
                daemons = [daemon for daemon in daemons if not daemon.running]
            if not daemons or kind not in wanted:
                continue
            self._report(f"starting {kind} on {len(daemons)} nodes")
            for daemon in daemons:
                daemon.start()
            for daemon in daemons:
                daemon.wait_ready(60)
        return self

    def wait_full_mesh(self, seconds: float = 120.0) -> None:
        """Wait for a protected channel between each pair of nodes."""
        for node in self.nodes.values():
            for other in self.nodes.values():
                if other is not node:
                    node.wait_protected(other, seconds)

    def heal(self) -> None:
        """Fix all links and start the daemons that do not run. Tests that share a lab begin with it."""
        for link in self.links.values():
            link.fix()
            link.up()
        for kind in KINDS:
            nodes = [(node, daemon) for node in self.nodes.values() if (daemon := node.daemons.get(kind))]
            if missing := [node for node, daemon in nodes if not daemon.running]:
                self.start(kind, nodes=missing)

    def keep(self) -> None:
        """Leave everything running when the block ends."""
        self._kept = True
        self._instance.keep()

    def save_artifacts(self) -> Path:
        """Save what explains a failure in a directory named after the running test. Return the directory."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("/")[2]
        kept = BUILD / "artifacts" / re.sub(r"[^\w.-]+", "_", test) / self.label
        shutil.rmtree(kept, ignore_errors=True)
        for node in self.nodes.values():
            (kept / node.name).mkdir(parents=True)
            for name, text in artifacts(node):
                (kept / node.name / name).write_text(text, encoding="utf-8")
            if (captures := node.directory / "capture").exists():
                shutil.copytree(captures, kept / node.name / "capture")
        return kept

    def _add_node(self, name: str) -> None:
        namespace = self._instance.namespace(name)
        namespaces.create(namespace)
        self.nodes[name] = Node(name, len(self.nodes) + 1, namespace, self._directory / name, self._instance.run / name)
        self._medium.equip(self.nodes[name])

    def _add_link(self, first: str, second: str) -> None:
        self.links[frozenset((first, second))] = self._medium.join(self[first], self[second])

    @staticmethod
    def _each(work: Callable[[Node], object], nodes: Iterable[Node]) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, nodes))

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        # SIGINT too: a shell starts background jobs with SIGINT ignored.
        for number in _Uninterrupted.SIGNALS:
            self._handlers[number] = signal.signal(number, _interrupt)

    def _end(self) -> None:
        with _Uninterrupted():
            for node in self.nodes.values():
                for daemon in node.daemons.all():
                    daemon.kill()
            self._medium.end()
            self._instance.end()
            self.running.remove(self)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


class _Uninterrupted:
    """Holds signals back, because a second SIGINT must not leave half of the lab behind."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self.SIGNALS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise what SIGINT raises: a test runner stops at it and does not count it as a failed test."""
    raise KeyboardInterrupt
