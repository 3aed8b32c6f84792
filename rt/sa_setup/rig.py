"""The rig of bench-sa-setup: a line a - b - c in namespaces, cold set-ups between its ends, a stream from one node.

Each node's daemons stay on processors of their own: the loaded node, or the one that takes its place when there is
no load, on the last one, all others, with the benchmark, on the rest. So load is all that differs. Every sample closes
the IKE_SA and negotiates it from the beginning, on the end that initiates. The stream goes over the mesh link beside
the protected addresses, because user data between peers waits while there is no SA, and the stream is not what is set
up.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from rt.loads import encoder, light, on_demand
from rt.loads.place import Place
from rt.loads.stream import Delivered, Stream
from rt.measure import cores
from rt.measure.results import QUICK
from rt.sa_setup.block import Block, Sample, paired
from rt.sa_setup.policy import POLICY, allow_lab_policies
from rt.sa_setup.times import setups
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue
from tests.lab.node.slices import short_slices

STREAM_PORT = 5004
SETTLE_SECONDS = 0.5 if QUICK else 4.0
"""For which a load runs before anything is timed beside it: what a load does, not what its first moments do."""
SAMPLE_TIMEOUT = 30.0
"""Seconds for one set-up: with stock repetitions one may need several of four seconds and more."""
ARRANGE_TIMEOUT = 60.0
PHASES_TIMEOUT = 0.5
BLOCK_SECONDS = 5.0 if QUICK else 60.0
"""After which a block takes no further sample, however many were planned."""
PING_SIZE = 300
"""Octets, of the order of an IKE_SA_INIT and an IKE_AUTH message."""
PINGS = 20
_ENDS = {"a": "192.0.2.1", "c": "192.0.2.6"}
"""The addresses of the ends beside the mesh."""


@dataclass(frozen=True)
class Load:
    """A stream: from which node, at which nice value, of which kind."""

    node: str
    nice: int
    kind: str = "saturating"
    """One of ``rt.loads.encoder.PRESETS`` or ``rt.loads.on_demand.VIEWERS``."""


@dataclass(frozen=True)
class Circumstances:
    """What a block of samples is taken under."""

    profile: str = "stock"
    load: Load | None = None
    apart: str = "receiver"
    """The node that has a processor to itself; with a load that of the load."""
    loss: int = 0
    """Per cent of the packets on each of the two links, in each direction."""
    stock_retransmission: bool = False
    """strongSwan's own repetition (after 4 s) in place of ours."""
    policy: Mapping[str, PolicyValue] = field(default_factory=dict)


class Rig:
    """The line while the context is open."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        allow_lab_policies()
        self._lab = Lab("sa-setup", line(names(3)), Options(policy=POLICY))
        self._now: Circumstances | None = Circumstances()
        """None when the last visit failed: the daemons are restarted then, whatever the next one wants."""
        self.busy, self.others = cores.busy_and_others()
        self.nice_counts = False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # The daemons inherit this program's nice value, and theirs is what is measured.
            before = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            stack.callback(os.setpriority, os.PRIO_PROCESS, 0, before)
            self.nice_counts = stack.enter_context(cores.nice_counts())
            stack.enter_context(short_slices())
            stack.enter_context(self._lab)
            self._lab.set_up().trust_all().start()
            for name in ("a", "b", "c"):
                cores.pin(self._lab[name], self.others)
            _add_stream_addresses(self._lab)
            self._stack = stack.pop_all()
        self.initiator, self.responder = self._ends()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def relay(self) -> Node:
        """The node between the ends."""
        return self._lab["b"]

    def node(self, role: str) -> Node:
        """``initiator``, ``relay`` or ``receiver``."""
        return {"initiator": self.initiator, "relay": self.relay, "receiver": self.responder}[role]

    def take(
        self, circumstances: Circumstances, samples: int, *, interval: float = 0.0, within: float = BLOCK_SECONDS
    ) -> Block:
        """So many cold set-ups, at least ``interval`` seconds from one to the next; none begins after ``within``."""
        with self._arranged(circumstances) as stream:
            round_trips = [] if circumstances.loss or stream else _round_trips(self.initiator, self.responder)
            block = self._measure(stream, samples, interval, within)
        block.round_trips = round_trips
        return block

    def watch(self, circumstances: Circumstances, seconds: float) -> Delivered:
        """Watch the stream alone, without any negotiation."""
        with self._arranged(circumstances) as stream:
            assert stream is not None, "a stream that is watched needs a load"
            begin, before = time.monotonic(), stream.count()
            time.sleep(seconds)
            return Delivered(time.monotonic() - begin, stream.count() - before, stream.per_second)

    def _measure(self, stream: Stream | None, samples: int, interval: float, within: float) -> Block:
        block = Block()
        begin, before = time.monotonic(), stream.count() if stream else 0.0
        made: list[Sample] = []
        with self.initiator.capture("set-ups") as capture, _knocks(self.initiator, self.responder):
            for _ in range(samples):
                started = time.monotonic()
                if started - begin > within:
                    break
                sample = self._set_up_anew()
                if sample is None:
                    block.overdue += 1
                else:
                    made.append(sample)
                time.sleep(max(0.0, started + interval - time.monotonic()))
        if stream:
            block.delivered = Delivered(time.monotonic() - begin, stream.count() - before, stream.per_second)
        (file,) = capture.directory.glob("*.pcap")
        block.samples, block.capture_alone = paired(made, setups(file.read_bytes()))
        return block

    def _set_up_anew(self) -> Sample | None:
        """Return when it was and what meshsecd says of it; None when it was given up.

        Raises NotInTimeError if the SA of before is not there to be replaced.
        """
        self.initiator.wait_state(self.responder, "protected", ARRANGE_TIMEOUT)
        begin = time.time()
        try:
            attempts = self.initiator.control.ask("renegotiate", peer=self.responder.name)["attempts"]
        except LookupError as error:  # refused, because the SA went away just now: that is no set-up of ours
            raise NotInTimeError(f"no set-up could begin: {error}") from error

        def established() -> Mapping[str, float | None] | None:
            status = self.initiator.control.peer(self.responder.name)
            return status if status.get("state") == "protected" and status["attempts"] > attempts else None

        # The other end's meshsecd is not asked: under load it may wait longer for its charon than the set-up takes.
        try:
            status = self.initiator.wait_for("a new SA", established, SAMPLE_TIMEOUT)
        except NotInTimeError:
            return None
        end = time.time()
        return Sample(begin, end, status["setup_ms"] or self._phases())  # type: ignore[arg-type]

    def _phases(self) -> Mapping[str, float | None]:
        """Wait for the lines of charon's log, which may come after the SA; {} when none comes."""
        with suppress(NotInTimeError):
            found = self.initiator.wait_for(
                "the phases", lambda: self.initiator.control.peer(self.responder.name).get("setup_ms"), PHASES_TIMEOUT
            )
            return dict(found)
        return {}

    def _ends(self) -> tuple[Node, Node]:
        a, c = self._lab["a"], self._lab["c"]
        entry = a.wait_state(c, "protected")
        c.wait_state(a, "protected")
        return (a, c) if entry["initiator"] else (c, a)

    # --- circumstances ---

    @contextmanager
    def _arranged(self, wanted: Circumstances) -> Iterator[Stream | None]:
        """Bring about the circumstances. A visit that fails makes the next one restart the daemons."""
        before, self._now = self._now, None
        try:
            self._arrange(before, wanted)
        except ProcessLookupError as error:  # a daemon has died: the next try starts it
            raise NotInTimeError(str(error)) from error
        with self._loaded(wanted.load) as stream:
            yield stream
        self._now = wanted

    def _arrange(self, before: Circumstances | None, wanted: Circumstances) -> None:
        """Restart what has to take up another configuration; let the loss be on both links."""
        for link in self._lab.links.values():
            link.fix()
        apart = self.node(wanted.load.node if wanted.load else wanted.apart)
        if before is None or self._configuration(wanted) != self._configuration(before):
            self._reconfigure(wanted)
        for node in self._lab.nodes.values():
            cores.pin(node, self.busy if node is apart else self.others)
        self.initiator.wait_state(self.responder, "protected", ARRANGE_TIMEOUT)
        self.responder.wait_state(self.initiator, "protected", ARRANGE_TIMEOUT)
        if wanted.loss:
            for link in self._lab.links.values():
                link.lose(wanted.loss)

    @staticmethod
    def _configuration(circumstances: Circumstances) -> tuple[object, ...]:
        return circumstances.profile, circumstances.stock_retransmission, dict(circumstances.policy)

    def _reconfigure(self, wanted: Circumstances) -> None:
        """Restart meshsecd alone, which sets the classes: the relay's SAs stay."""
        ends = (self.initiator, self.responder)
        for node in self._lab.nodes.values():
            options = replace(node.options, scheduling=wanted.profile, policy={**POLICY, **wanted.policy})
            node.reconfigure(options)
            if wanted.stock_retransmission:
                _use_stock_retransmission(node)
            node.daemons.agent.stop()
        for node in ends:
            node.daemons.charon.stop()
        self._lab.start("charon", "meshsecd", nodes=ends)
        self._lab.start("meshsecd", nodes=[self.relay])

    @contextmanager
    def _loaded(self, load: Load | None) -> Iterator[Stream | None]:
        if load is None:
            yield None
            return
        source = self.node(load.node)
        viewer, own, theirs = _stream_way(self._lab, source)
        place = Place(source.namespace, self.busy, load.nice)
        with ExitStack() as stack:
            stream: Stream
            if load.kind in on_demand.VIEWERS:
                viewers = on_demand.Viewers(Place(viewer.namespace, self.others, last=True), f"mesh-{source.name}")
                stream = stack.enter_context(on_demand.on_demand(load.kind, place, own, viewers))
            else:
                stream = stack.enter_context(encoder.live(load.kind, place, (viewer.namespace, theirs, STREAM_PORT)))
            time.sleep(SETTLE_SECONDS)
            yield stream


@contextmanager
def _knocks(source: Node, target: Node) -> Iterator[None]:
    """User data that waits for the SA: the first of it is the first ESP packet. ping would spin while none answers."""
    argv = ["ip", "netns", "exec", source.namespace, sys.executable, "-S", light.__file__]
    argv += ["knock", source.address, target.address]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _round_trips(source: Node, target: Node) -> list[float]:
    """Return round trips on the path of IKE, without IKE, by the addresses beside the mesh."""
    argv = ["ping", "-c", str(PINGS), "-i", "0.01", "-s", str(PING_SIZE), _ENDS[target.name]]
    found = source.run(*argv)
    return [float(time) / 1000 for time in re.findall(r" time=([0-9.]+) ms", found.stdout)]


def _add_stream_addresses(lab: Lab) -> None:
    """Add two addresses on each link that the policy's bypass names (RFC 5737)."""
    for number, (first, second) in enumerate((("a", "b"), ("b", "c"))):
        for host, (node, other) in enumerate(((first, second), (second, first)), start=1):
            address = f"192.0.2.{4 * number + host}/30"
            run(["ip", "-n", lab[node].namespace, "address", "add", address, "dev", f"mesh-{other}"])
    lab["b"].run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    for node, gateway in (("a", "192.0.2.2"), ("c", "192.0.2.5")):
        lab[node].run("ip", "route", "add", "192.0.2.0/24", "via", gateway)


def _stream_way(lab: Lab, source: Node) -> tuple[Node, str, str]:
    """Return the neighbour that the stream of a node goes to, the node's address on that link, and the neighbour's."""
    ways = {
        "a": ("b", "192.0.2.1", "192.0.2.2"),
        "b": ("a", "192.0.2.2", "192.0.2.1"),
        "c": ("b", "192.0.2.6", "192.0.2.5"),
    }
    name, own, theirs = ways[source.name]
    return lab[name], own, theirs


def _use_stock_retransmission(node: Node) -> None:
    """strongSwan's defaults: the first repetition after 4 s, then 1.8 times as long each (strongswan.conf(5))."""
    path = node.etc / "strongswan.conf"
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [text for text in lines if not text.strip().startswith("retransmit_")]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
