"""The demo reports the truth, and leaves nothing behind however it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.__main__ import REPORT
from tests.demo.report import RelayChange, Report, Sa
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import RUN
from tests.lab.node import capabilities


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the demo with SIGINT's default action: in the background a shell starts a test run with SIGINT ignored."""
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "tests.demo", *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(pid: int) -> list[str]:
    """Return the namespaces, run directories and processes that a finished demo has left."""
    prefix = f"{pid}."
    processes = [entry.name for entry in Path("/proc").glob("[0-9]*") if _mentions(entry, f"/{prefix}")]
    directories = [path.name for path in RUN.glob(f"{prefix}*")]
    return namespaces.existing(namespaces.PREFIX + prefix) + directories + processes


def _mentions(process: Path, text: str) -> bool:
    try:
        found = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
    return process.name != str(os.getpid()) and text.encode() in found


@pytest.mark.timeout(290)
def test_the_demo_runs_to_its_end_and_reports_what_it_saw() -> None:
    demo = start()
    output, _ = demo.communicate(timeout=280)
    assert demo.returncode == 0, output
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert report["ok"], report
    assert report["nodes"] == 3
    assert report["hops"] == 2
    assert report["data_plane"] == "ipsec"
    assert report["esp_ground"] == capabilities.probe().esp
    assert report["relay_packets"]["clear"] == 0
    for kind in ("ike", "esp", "olsr"):
        assert report["relay_packets"][kind] > 0
    assert report["relay_change"]["before"] != report["relay_change"]["after"]
    assert report["relay_change"]["same_spis"]
    assert set(report["setup_ms"]) == {"ike_sa_init", "ike_auth", "child"}
    assert all(value is None or value > 0 for value in report["setup_ms"].values()), "unknown, or a time"
    assert report["route_to_protected_ms"] > 0
    wait_until("nothing is left behind", lambda: not left_behind(demo.pid), [], 30, lambda: left_behind(demo.pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["starting charon", "ping"])
def test_a_demo_that_is_interrupted_leaves_nothing_behind(number: signal.Signals, moment: str) -> None:
    demo = start()
    assert demo.stdout is not None
    while moment not in (line := demo.stdout.readline()):
        assert line, "the demo ended before it could be interrupted"
    assert left_behind(demo.pid), "the detector sees a running demo"
    demo.send_signal(number)
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode not in (0, None), output
    wait_until("nothing is left behind", lambda: not left_behind(demo.pid), [], 30, lambda: left_behind(demo.pid))


def good() -> Report:
    sa = Sa("a", "c", "protected", 2, "ipsec", {"ike_sa_init": 3.0, "ike_auth": 4.0, "child": None}, 20.0)
    packets = {"ike": 8, "esp": 100, "olsr": 20, "control": 10, "clear": 0}
    change = RelayChange("b", "spare", 100, 1, 50.0, same_spis=True)
    pings = "5 packets transmitted, 5 received, 0% packet loss"
    return Report(3, "libipsec", [sa], [], packets, 0, pings, 100.0, change)


def test_a_good_run_is_called_good() -> None:
    assert good().as_dict()["ok"] is True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("missing", ["a - c"]),
        ("relay_packets", {"esp": 100, "clear": 1}),
        ("relay_packets", {"esp": 0, "clear": 0}),
        ("relay_packets", {}),
        ("captures_lost", 1),
        ("pings", "5 packets transmitted, 0 received, 100% packet loss"),
        ("relay_change", RelayChange("b", "spare", same_spis=False)),
        ("relay_change", RelayChange("b", "b", same_spis=True)),
        ("broken_off", "not within 60 s"),
    ],
)
def test_a_run_with_a_fault_is_called_failed(field: str, value: object) -> None:
    report = good()
    setattr(report, field, value)
    assert report.as_dict()["ok"] is False
    assert report.problems()
