"""The rig of bench-kernels and bench-sa-setup-guest, inside the guest: a line a - b - c, cold set-ups between its ends.

    python -m rt.kernels.rig [--radio] [--pause S] SAMPLES CASE...    for each case /results gets CASE.json

The guest has one processor, whose time follows the executed instructions, and three nodes share it. So that the load
meets one node only, the daemons of the other nodes, the benchmark and what it runs are above in a real-time class, as
if they had processors of their own. What they compute still takes its time: a set-up lasts as long as the work of both
ends and of the relay together.

``--radio`` joins the nodes by radios on an air that takes time (airmedium) in place of cables. All links share that
air, and so does the load's stream. cyclictest runs during the set-ups: how late a thread of the highest priority wakes
up meanwhile.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rt.kernels.capture import LateCapture
from rt.kernels.cases import Case
from rt.loads import light
from rt.measure import cores
from rt.sa_setup.block import Block, Sample, paired
from rt.sa_setup.policy import POLICY, SUITES, allow_lab_policies
from rt.sa_setup.times import setups
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.node.slices import short_slices
from tests.lab.radio import airmedium, medium

RESULTS = Path("/results")
PRIORITY = 40
"""Of what is not the loaded node's (round robin): above all that a profile gives, below threaded interrupts."""
SAMPLE_TIMEOUT = 30.0
"""Seconds of the guest for one set-up, and for whatever else must happen while it is measured."""
SETTLING, GOVERNED_SETTLING = 0.5, 3.0
"""Seconds from the load's begin to the first set-up: a governor that has just met the load is another question."""
UNDISTURBED = 0.1
"""Seconds after the begin of a set-up in which nobody asks meshsecd for its state, which would delay it."""
WITHIN = 20.0
"""Seconds of the guest after which a block takes no further sample, however many were planned."""
CHANNEL = medium.Channel("air", 2412, 24)
"""One rate, as the paper's radio had its best one: the encoder's 4 Mbit/s leave room."""
SNR = 40.0
_FIRST, _SECOND = "192.0.2.1", "192.0.2.2"
"""Addresses of the load's stream, which the policy's bypass names (RFC 5737)."""


@dataclass(frozen=True)
class Line:
    """The nodes by their roles, and the names of their interfaces."""

    lab: Lab
    initiator: Node
    responder: Node
    radio: bool

    @property
    def relay(self) -> Node:
        """Return the node between the ends."""
        return self.lab["b"]

    def interface(self, node: Node, other: Node) -> str:
        """Return the interface of a node that leads to a neighbour."""
        return "mesh0" if self.radio else self.lab.end_of(node.name, other.name).interface


def main() -> int:
    """Measure every case."""
    options = _options()
    if capabilities.probe().esp != "kernel":
        raise RuntimeError("this kernel has no ESP")
    allow_lab_policies()
    (RESULTS / "release").write_text(os.uname().release, encoding="ascii")
    with cores.nice_counts(), short_slices(), _lab(radio=options.radio) as lab:
        nodes = _started(lab, radio=options.radio)
        before: Case | None = None
        for case in options.cases:
            _say(str(case))
            if before is None or (before.profile, before.suite, before.place) != (case.profile, case.suite, case.place):
                _use(nodes, case)
            before = case
            found = _block(nodes, case, options.samples, options.pause)
            (RESULTS / f"{case}.json").write_text(json.dumps(found), encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    flags.add_argument("--radio", action="store_true")
    flags.add_argument("--pause", type=float, default=0.0)
    flags.add_argument("samples", type=int)
    flags.add_argument("cases", nargs="+", type=Case.of)
    return flags.parse_args()


@contextmanager
def _lab(*, radio: bool) -> Iterator[Lab]:
    """Open the line; on radio the air runs above everything, because it waits for nobody."""
    nodes, options = names(3), Options(policy=POLICY)
    if not radio:
        with Lab("kernels", line(nodes), options, report=_say) as lab:
            yield lab
        return
    if obstacle := medium.obstacle():
        raise RuntimeError(obstacle)
    air = medium.Air(CHANNEL)
    with Lab("kernels", line(nodes), options, report=_say, medium=air) as lab:
        place = airmedium.line(nodes, SNR)
        with airmedium.AirMedium(RESULTS, air.radios, place) as running:
            _set_class(running.pid, PRIORITY + 1)
            yield lab


def _say(text: str) -> None:
    print(text, flush=True)


def _started(lab: Lab, *, radio: bool) -> Line:
    """Start the initiator and the responder; the relay only routes."""
    a, b, c = (lab[name] for name in ("a", "b", "c"))
    lab.set_up()
    a.install_card(c)
    c.install_card(a)
    b.assign_addresses()
    lab.start("router", nodes=[b])
    lab.start(nodes=[a, c])
    entry = a.wait_state(c, "protected")
    c.wait_state(a, "protected")
    initiator, responder = (a, c) if entry["initiator"] else (c, a)
    nodes = Line(lab, initiator, responder, radio)
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    for (node, other), address in zip(((b, responder), (responder, b)), (_FIRST, _SECOND), strict=True):
        device = nodes.interface(node, other)
        run(["ip", "-n", node.namespace, "address", "add", f"{address}/30", "dev", device])
    return nodes


def _set_class(pid: int, priority: int) -> None:
    """Put every thread into round robin with this priority, or with 0 back; later threads inherit it.

    What is in that class is as if it had a processor of its own.
    """
    policy = os.SCHED_RR if priority else os.SCHED_OTHER
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))


def _use(nodes: Line, case: Case) -> None:
    """Give the ends the suite, and let the daemons of one node alone share a processor with the load.

    A receiver that shares none gets no profile: its daemons are above everything that a profile gives.
    """
    ends = (nodes.initiator, nodes.responder)
    loaded = {"relay": nodes.relay, "receiver": nodes.responder}[case.place]
    for node in ends:
        profile = case.profile if node is loaded else "stock"
        options = replace(node.options, scheduling=profile, policy={**POLICY, **SUITES[case.suite]})
        above = os.sched_getscheduler(node.daemons.charon.pid) != os.SCHED_OTHER
        if options != node.options or (node is loaded and above):
            node.reconfigure(options)
            node.daemons.agent.stop()
            node.daemons.charon.stop()
            nodes.lab.start("charon", "meshsecd", nodes=[node])
    nodes.initiator.wait_state(nodes.responder, "protected")
    nodes.responder.wait_state(nodes.initiator, "protected")
    _set_class(nodes.relay.daemons.router.pid, 0 if loaded is nodes.relay else PRIORITY)
    for node in ends:
        if node is not loaded:
            for daemon in node.daemons.all():
                _set_class(daemon.pid, PRIORITY)


def _block(nodes: Line, case: Case, samples: int, pause: float) -> dict[str, Any]:
    """Return what so many cold set-ups gave, after one that is not counted."""
    block, made = Block(), list[Sample]()
    with ExitStack() as stack:
        latency = stack.enter_context(_cyclictest())
        # Before the load: the kernel begins to stamp packets in a worker, which a load of nice -20 would starve.
        interface = nodes.interface(nodes.initiator, nodes.relay)
        capture = stack.enter_context(LateCapture(nodes.initiator.namespace, interface))
        knocks = _program(nodes.initiator, "knock", nodes.initiator.address, nodes.responder.address)
        _set_class(stack.enter_context(knocks).pid, PRIORITY)
        _set_up_anew(nodes)
        counted: dict[str, int] = {}
        if case.nice is not None:
            counted = stack.enter_context(_loaded(nodes, case))
            time.sleep(GOVERNED_SETTLING if case.profile == "governor" else SETTLING)
        begin = time.time()
        while len(made) < samples and time.time() - begin < WITHIN:
            try:
                made.append(_set_up_anew(nodes))
            except NotInTimeError:
                block.overdue += 1
                break
            time.sleep(pause)
    counted_ones = [times for times in setups(capture.pcap) if times.begin >= begin]
    block.samples, block.capture_alone = paired(made, counted_ones)
    return {"block": block.as_dict(), "stream": counted, "cyclictest": latency}


def _set_up_anew(nodes: Line) -> Sample:
    """Close the SA and wait for the next one. Raises NotInTimeError."""
    initiator, peer = nodes.initiator, nodes.responder
    seconds = SAMPLE_TIMEOUT / patient(1)
    initiator.wait_state(peer, "protected", seconds)
    begin = time.time()
    attempts = initiator.control.ask("renegotiate", peer=peer.name)["attempts"]
    time.sleep(UNDISTURBED)

    def established() -> bool:
        status = initiator.control.peer(peer.name)
        return bool(status["state"] == "protected" and status["attempts"] > attempts)

    initiator.wait_for("a new SA", established, seconds)
    return Sample(begin, time.time(), {})


@contextmanager
def _cyclictest() -> Iterator[dict[str, Any]]:
    """Run cyclictest; its report is complete when the context closes."""
    path = RESULTS / "cyclictest.json"
    argv = ["cyclictest", "--quiet", "--mlockall", "--policy=fifo", "--priority=95", "--interval=1000"]
    process = subprocess.Popen([*argv, "--histogram=100000", f"--json={path}"], stdout=subprocess.DEVNULL)
    report: dict[str, Any] = {}
    try:
        while _classes(process.pid).count(os.SCHED_FIFO) < 1:
            time.sleep(0.01)
        yield report
        process.send_signal(signal.SIGINT)
        process.wait(SAMPLE_TIMEOUT)
        report.update(json.loads(path.read_text(encoding="utf-8")))
    finally:
        process.kill()
        process.wait()


def _classes(pid: int) -> list[int]:
    """Return the classes of all threads of a process. Raises ProcessLookupError when it has ended."""
    return [os.sched_getscheduler(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


@contextmanager
def _loaded(nodes: Line, case: Case) -> Iterator[dict[str, int]]:
    """Run the encoder, whose stream goes to the neighbour; yield what is counted until the context closes.

    The neighbour's own stream, 20 Mbit/s, is of cables alone: a radio has no room for it.
    """
    counted: dict[str, int] = {}
    ends = [(nodes.relay, _FIRST), (nodes.responder, _SECOND)]
    (source, own), (viewer, other) = ends if case.place == "relay" else reversed(ends)
    assert case.nice is not None
    with ExitStack() as stack:
        running = {}
        if not nodes.radio:
            running["sender"] = stack.enter_context(_program(viewer, "send", other, own))
            _set_class(running["sender"].pid, PRIORITY)
        running["encoder"] = stack.enter_context(_program(source, "encode", own, other))
        os.setpriority(os.PRIO_PROCESS, running["encoder"].pid, case.nice)
        yield counted
        for name, process in reversed(running.items()):
            process.terminate()
            said, _ = process.communicate(timeout=SAMPLE_TIMEOUT)
            counted.update({f"{name}_{what}": number for what, number in json.loads(said).items()})


@contextmanager
def _program(node: Node, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run one role of light, from its first packet on."""
    process = _start(node, [sys.executable, "-S", light.__file__, *arguments])
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{arguments}: it did not start")
        yield process
    finally:
        process.kill()
        process.wait()


def _start(node: Node, argv: Sequence[str]) -> subprocess.Popen[str]:
    """``ip netns exec`` becomes the program, so that the PID is its own."""
    return subprocess.Popen(
        ["ip", "netns", "exec", node.namespace, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
