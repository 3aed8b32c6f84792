"""The rig of bench-kernels, inside the guest: a line a - b - c, cold set-ups between its ends, a load on the receiver.

    python -m rt.kernels.rig SAMPLES    for each profile and load /results gets PROFILE-LOAD.json

The guest has one processor, whose time follows the executed instructions, and three nodes share it. So that the load
meets the receiver only, the daemons of the other nodes, the benchmark and what it runs are above in a real-time
class, as if they had processors of their own. What they compute still takes its time: a set-up lasts as long as the
work of both ends and of the relay together.

cyclictest runs during the set-ups: how late a thread of the highest priority wakes up meanwhile.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rt.kernels.capture import LateCapture
from rt.loads import light
from rt.measure import cores
from rt.sa_setup.policy import POLICY, allow_lab_policies
from rt.sa_setup.times import setups
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.node.slices import short_slices

RESULTS = Path("/results")
PROFILES = ("stock", "governor")
LOADS = ("none", "loaded")
NICE = -20
PRIORITY = 40
"""Of what is not the receiver's (round robin): above all that a profile gives, below threaded interrupts."""
SAMPLE_TIMEOUT = 30.0
"""Seconds of the guest for one set-up, and for whatever else must happen while it is measured."""
SETTLING = 3.0
"""Seconds from the load's begin to the first set-up: a governor that has just met the load is another question."""
_FIRST, _SECOND = "192.0.2.1", "192.0.2.2"
"""Addresses of the load's stream, which the policy's bypass names (RFC 5737)."""


def main() -> int:
    """Measure every profile under every load."""
    samples = int(sys.argv[1])
    if capabilities.probe().esp != "kernel":
        raise RuntimeError("this kernel has no ESP")
    allow_lab_policies()
    (RESULTS / "release").write_text(os.uname().release, encoding="ascii")
    with (
        cores.nice_counts(),
        short_slices(),
        Lab("kernels", line(names(3)), Options(policy=POLICY), report=_say) as lab,
    ):
        ends = _started(lab)
        for profile in PROFILES:
            _use(lab, ends, profile)
            for load in LOADS:
                _say(f"{profile}, {load}")
                found = _block(lab, ends, load, samples)
                (RESULTS / f"{profile}-{load}.json").write_text(json.dumps(found), encoding="utf-8")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _started(lab: Lab) -> tuple[Node, Node]:
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
    for daemon in (b.daemons.router, *initiator.daemons.all()):
        _raise(daemon.pid)
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    link = f"mesh-{responder.name}", "mesh-b"
    for (node, interface), address in zip(((b, link[0]), (responder, link[1])), (_FIRST, _SECOND), strict=True):
        run(["ip", "-n", node.namespace, "address", "add", f"{address}/30", "dev", interface])
    return initiator, responder


def _raise(pid: int) -> None:
    """Put every thread into the class of what has a processor of its own; later threads inherit it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(PRIORITY))


def _use(lab: Lab, ends: tuple[Node, Node], profile: str) -> None:
    """Start the receiver's daemons with a scheduling profile."""
    initiator, responder = ends
    if responder.options.scheduling != profile:
        responder.reconfigure(replace(responder.options, scheduling=profile))
        responder.daemons.agent.stop()
        responder.daemons.charon.stop()
        lab.start("charon", "meshsecd", nodes=[responder])
    initiator.wait_state(responder, "protected")
    responder.wait_state(initiator, "protected")


def _block(lab: Lab, ends: tuple[Node, Node], load: str, samples: int) -> dict[str, Any]:
    """So many cold set-ups, after one that is not counted."""
    initiator, responder = ends
    with ExitStack() as stack:
        latency = stack.enter_context(_cyclictest())
        capture = stack.enter_context(LateCapture(initiator.namespace, "mesh-b"))
        knocks = stack.enter_context(_program(initiator, "knock", initiator.address, responder.address))
        _raise(knocks.pid)
        counted = stack.enter_context(_loaded(lab["b"], responder)) if load == "loaded" else {}
        time.sleep(SETTLING)
        for _ in range(samples + 1):
            _set_up_anew(initiator, responder)
    times = [asdict(each) for each in setups(capture.pcap)]
    return {"set_ups": times[1:], "stream": counted, "cyclictest": latency}


def _set_up_anew(initiator: Node, responder: Node) -> None:
    attempts = initiator.control.ask("renegotiate", peer=responder.name)["attempts"]

    def established() -> bool:
        status = initiator.control.peer(responder.name)
        return bool(status["state"] == "protected" and status["attempts"] > attempts)

    initiator.wait_for("a new SA", established, SAMPLE_TIMEOUT / patient(1))


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
def _loaded(relay: Node, receiver: Node) -> Iterator[dict[str, int]]:
    """Run the encoder on the receiver and its neighbour's stream; yield what they count until the context closes."""
    counted: dict[str, int] = {}
    with ExitStack() as stack:
        sender = stack.enter_context(_program(relay, "send", _FIRST, _SECOND))
        encoder = stack.enter_context(_program(receiver, "encode", _SECOND, _FIRST))
        _raise(sender.pid)
        os.setpriority(os.PRIO_PROCESS, encoder.pid, NICE)
        yield counted
        for name, process in (("encoder", encoder), ("sender", sender)):
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
