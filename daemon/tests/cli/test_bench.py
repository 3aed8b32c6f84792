"""``meshsec bench`` on this machine: real openssl and cyclictest, and what is kept when a run ends early."""

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree as ET

import click
import jsonschema
import pytest
from click.testing import Result

from children import child
from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError
from meshsec.adapters.sockets.bench_talk import Talk, TalkError
from meshsec.cli.bench import command as group
from meshsec.cli.bench import crypto as module
from meshsec.cli.bench import flows
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.kept import Place, again, finish
from meshsec.cli.bench.serve import Service
from meshsec.cli.bench.steps import Step, finished, measure
from meshsec.core.bench import svg
from meshsec.core.bench.openssl import CIPHERS
from meshsec.core.bench.pictures import pictures
from meshsec.core.bench.record import Record, Taken

pytestmark = pytest.mark.thorough

if TYPE_CHECKING:
    from meshsec.cli.client import Client

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-measurement-1.json"

_IN_KERNEL = module._in_kernel
"""Says which ciphers the kernel has; ``short`` replaces it."""


def valid(text: str) -> Any:
    document = json.loads(text)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    return document


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a round of ``bench crypto`` take four seconds."""
    monkeypatch.setattr(module, "CIPHERS", CIPHERS[-1:])
    monkeypatch.setattr(module, "HASHES", ())
    monkeypatch.setattr(module, "SIZES", (50, 1500))
    monkeypatch.setattr(module, "OPERATIONS", {})
    monkeypatch.setattr(module, "_in_kernel", lambda: ([], []))


@pytest.mark.usefixtures("short")
def test_crypto_reports_what_it_keeps(meshsec: Meshsec, tmp_path: Path) -> None:
    result = meshsec("bench", "crypto", "--rounds", "1", "--into", str(tmp_path / "kept"), "--json")
    assert result.exit_code == 0, result.output
    shown = valid(result.stdout)
    assert [(one["key"]["what"], one["key"]["bytes"]) for one in shown["cells"]] == [
        ("encryption", 50),
        ("decryption", 50),
        ("encryption", 1500),
        ("decryption", 1500),
    ]
    assert all(one["median"] > 0 for one in shown["cells"])
    files = {path.suffix: path for path in (tmp_path / "kept").iterdir()}
    assert valid(files[".json"].read_text())["cells"] == shown["cells"]
    rows = [*csv.DictReader(files[".csv"].read_text().splitlines())]
    assert [float(row["value"]) for row in rows] == [one["samples"][0] for one in shown["cells"]]
    assert ET.parse(files[".svg"]).getroot().tag.endswith("svg")  # noqa: S314 - our own picture


@pytest.mark.usefixtures("short")
def test_what_the_kernel_and_openssl_lack_is_named(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_in_kernel", _IN_KERNEL)
    result = meshsec("bench", "crypto", "--rounds", "1", "--into", str(tmp_path / "kept"), "--json")
    assert result.exit_code == 0, result.output
    view = valid(result.stdout)
    measured = {one["key"]["algorithm"] for one in view["cells"] if one["key"].get("by") == "kernel"}
    said = " ".join(view["notes"])
    assert (CIPHERS[-1].name in measured) != (f"{CIPHERS[-1].name} of the kernel: not measured" in said)
    has_ml_kem = "ML-KEM-768" in measuring.run(["openssl", "list", "-kem-algorithms"], 10)
    assert has_ml_kem != ("ML-KEM-768 was not measured" in said)


@pytest.mark.usefixtures("short")
def test_a_failure_keeps_what_was_measured_and_a_later_run_goes_on(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    real, seen = module._speed, list[tuple[str, ...]]()

    def failing(*arguments: str) -> str:
        seen.append(arguments)
        if len(seen) == 3:
            raise click.ClickException("openssl: something")
        return real(*arguments)

    monkeypatch.setattr(module, "_speed", failing)
    broken = meshsec("bench", "crypto", "--rounds", "1", "--into", str(kept))
    (path,) = kept.glob("*.json")
    assert broken.exit_code == 1
    assert "openssl: something; the figures are those of 2 of 4 steps; to go on: meshsec" in broken.stderr
    assert f"--resume {path}" in broken.stderr
    before = valid(path.read_text())
    assert (before["steps"], before["cut_short"]) == (2, "openssl: something")
    whole = meshsec("bench", "crypto", "--rounds", "1", "--resume", str(path))
    assert whole.exit_code == 0, whole.output
    after = valid(path.read_text())
    assert (after["steps"], after["cut_short"], len(after["cells"])) == (4, "", 4)
    assert after["cells"][:2] == before["cells"]
    assert len(seen) == 5
    refused = meshsec("bench", "crypto", "--rounds", "1", "--resume", str(path))
    assert refused.exit_code == 1
    assert "came to its end" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    # Whoever runs the tests in the background may have them ignore these signals.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "signal.signal(signal.SIGHUP, signal.SIG_DFL); sys.argv[0] = 'meshsec'; "
    program += "from meshsec.cli import main; main()"
    kept = tmp_path / "kept"
    with child(
        subprocess.Popen(
            [sys.executable, "-c", program, "bench", "crypto", "--into", str(kept)], stderr=subprocess.PIPE, text=True
        )
    ) as process:
        end = time.monotonic() + 60
        while not any(json.loads(one.read_text())["steps"] for one in kept.glob("*.json")):
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    (path,) = kept.glob("*.json")
    found = valid(path.read_text())
    assert process.returncode == 1
    assert (found["cut_short"], found["steps"] >= 1) == ("interrupted", True)
    assert "interrupted; the figures are those of" in said


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "meshsec-measurement-1"}'])
def test_a_file_that_is_no_record_is_refused_and_stays(meshsec: Meshsec, tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    refused = meshsec("bench", "crypto", "--resume", str(path))
    assert refused.exit_code == 1
    assert f"cannot go on with {path}" in refused.stderr
    assert path.read_text() == content


def test_a_directory_that_cannot_be_written_is_named_before_anything_is_measured(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "_speed", None)
    refused = meshsec("bench", "crypto", "--into", str(tmp_path / "file" / "below"))
    assert refused.exit_code == 1
    assert "name another directory: --into DIRECTORY" in refused.stderr


def test_a_missing_program_is_named_with_its_package(meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for command, package in (
        ("crypto", "openssl"),
        ("latency", "rt-tests"),
        ("throughput boat", "iperf3"),
        ("serve boat", "iperf3"),
    ):
        refused = meshsec("bench", *command.split())
        assert refused.exit_code == 1
        assert f"apt install {package}" in refused.stderr


def test_the_command_to_measure_again_begins_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["meshsec", "bench", "crypto", "--resume", "a b.json", "--rounds", "2"])
    assert again() == "meshsec bench crypto --rounds 2"
    monkeypatch.setattr(sys, "argv", ["meshsec", "bench", "crypto", "--resume=a b.json", "--rounds", "2"])
    assert again() == "meshsec bench crypto --rounds 2"


def test_latency_measures_each_load_and_judges(meshsec: Meshsec, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("cyclictest needs root for its priority")
    kept = str(tmp_path / "kept")
    result = meshsec("bench", "latency", "--seconds", "1", "--rounds", "1", "--into", kept, "--json")
    assert result.exit_code == 0, result.output
    found = valid(result.stdout)["cells"]
    late = [one for one in found if "wake-ups" in one["key"]]
    cells = {(one["key"]["load"], one["key"]["wake-ups"]): one["median"] for one in late}
    assert {load for load, _ in cells} == {"idle", "hackbench"}
    for load in ("idle", "hackbench"):
        assert 0 < cells[load, "median"] <= cells[load, "p99"] <= cells[load, "p99.9"] <= cells[load, "latest"]
        counted = [one for one in found if one["unit"] == "wake-ups" and one["key"]["load"] == load]
        assert sum(one["median"] for one in counted) >= 500, "a wake-up in each millisecond"
        last = counted[-1]["key"]["late, us at most"]
        assert last / 2 < cells[load, "latest"] <= last
    cores = {one["key"]["core"] for one in found if one["key"].get("interruptions") == "longest"}
    assert cores == (os.sched_getaffinity(0) if len(os.sched_getaffinity(0)) > 1 else set())
    assert [one["median"] > 0 for one in found if "hackbench" in one["key"]] == [True]
    pictures_of = [one.read_text() for one in Path(kept).glob("*.svg")]
    assert any("late, us at most" in one for one in pictures_of)
    assert "of the 100 ms of the policy's deadline" in result.stderr
    assert not [path for path in Path("/proc").glob("[0-9]*/comm") if _text(path) == "hackbench"]


def test_a_load_that_ends_by_itself_is_no_load() -> None:
    with pytest.raises(MeasuringError, match="ended with status 0 before"), measuring.beside(["true"]):
        time.sleep(0.5)


def test_signals_that_were_ignored_stay_ignored_and_the_others_come_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with group._ending_in_order():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "as nohup(1) wants it"
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_load_ends_when_the_command_is_killed() -> None:
    program = "import time; from meshsec.adapters import measuring\n"
    program += "with measuring.beside(['sleep', '6061']): print('runs', flush=True); time.sleep(600)"
    with child(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        await_count("sleep\x006061\x00", 1)
        process.kill()
        process.wait()
        await_count("sleep\x006061\x00", 0)


def await_count(arguments: str, count: int) -> None:
    """Wait until as many processes have these arguments."""
    end = time.monotonic() + 30
    while len([path for path in Path("/proc").glob("[0-9]*/cmdline") if _text(path) == arguments]) != count:
        assert time.monotonic() < end
        time.sleep(0.05)


class Asked:
    """What a service asks of meshsecd."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def call(self, method: str, params: Any) -> None:
        self.calls.append((method, params))


def test_a_server_that_ended_by_itself_ends_neither_the_service_nor_leaves_the_flow_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = Asked()
    service = Service(cast("Client", asked), {"session": "s"}, "boat", time.monotonic() + 60, plain=False)
    service._running.enter_context(measuring.beside(["true"]))
    await_end_of_children()
    service.rest()
    assert asked.calls == [("bench_plane", {"session": "s", "plane": None})]
    assert "true ended with status 0" in capsys.readouterr().err


def await_end_of_children() -> None:
    """Wait until a program that was started has ended; it is not collected."""
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def test_a_peer_that_goes_on_asking_is_not_answered_after_the_time() -> None:
    ours, theirs = socket.socketpair()
    began = time.monotonic()
    service = Service(cast("Client", Asked()), {"session": "s"}, "boat", began + 0.5, plain=False)

    def ask() -> None:
        with contextlib.suppress(OSError):
            while time.monotonic() < began + 10:
                theirs.sendall(b'{"do": "nothing"}\n')
                time.sleep(0.005)

    thread = threading.Thread(target=ask)
    thread.start()
    with theirs:
        with Talk(ours) as talk, contextlib.suppress(TalkError):
            assert not service.attend(talk)
        # An answer that the peer does not read has 5 s.
        assert 0.4 < time.monotonic() - began < 8
        thread.join()


def test_probes_that_cannot_be_sent_end_the_run_and_keep_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Iterator[Taken]:
        with flows._probing("2001:db8::1", "2001:db8::2", 17186) as trips:
            yield Taken({}, "ms", [trips.lost])

    record, place = Record("throughput", {}), Place(tmp_path, "kept")
    taken = Taken({"plane": "ipsec"}, "ms", (1.0,))
    steps = [Step("one", 1.0, lambda: [taken]), Step("other", 1.0, fail)]
    measure(record, steps, place)
    said = "probes from UDP port 17186 of 2001:db8::1 to 2001:db8::2: Cannot assign requested address"
    assert (record.cut_short, [*record.cells]) == (said, [taken])
    with pytest.raises(click.ClickException, match=r"1 of 2 steps; to go on: .* --resume .*kept\.json"):
        finished(record, place, len(steps))
    assert json.loads((tmp_path / "kept.json").read_text())["steps"] == 1
    capsys.readouterr()


def test_a_load_that_ignores_the_signal_ends_all_the_same() -> None:
    with measuring.beside(["sh", "-c", "trap '' TERM; sleep 61 & wait; sleep 62"]):
        time.sleep(0.2)
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _text(path) == "sleep\x0062\x00"]


def test_what_a_program_complains_of_is_quoted() -> None:
    with pytest.raises(MeasuringError, match=r"sh -c .*: no such thing"):
        measuring.run(["sh", "-c", "echo no such thing >&2; exit 3"], 5.0)
    with pytest.raises(MeasuringError, match="timed out"):
        measuring.run(["sleep", "5"], 0.1)


def test_numbers_go_across_and_names_become_bars() -> None:
    record = Record("x", {}, {"machine": {"cpu": "<b>", "cores": 2, "kernel": "6"}})
    for size in (50, 1500):
        record.take(Taken({"algorithm": "a", "bytes": size}, "Mbit/s", [size * 1.0]))
    record.take(Taken({"algorithm": "a", "what": "signatures"}, "1/s", [3.0, 5.0]))
    lines, bars = (ET.fromstring(one) for one in pictures(record).values())  # noqa: S314
    texts = [
        ["".join(one.itertext()).strip() for one in tree.iter() if one.tag.endswith("}text")] for tree in (lines, bars)
    ]
    assert "bytes" in texts[0]
    assert "a, signatures" in texts[1]
    assert any("<b>, 2 cores" in one for one in texts[0])
    assert "1/s, median and the least to the greatest" in texts[1]
    assert [one.get("stroke") for one in bars.iter() if one.tag.endswith("}line")] == [svg._INTERVAL] * 3


def test_each_median_of_several_samples_is_drawn_with_its_interval() -> None:
    record = Record("x", {})
    for size, samples in ((50, range(10, 20)), (1500, range(1000, 1020)), (3000, [2000, 3000]), (5000, [1])):
        record.take(Taken({"algorithm": "a", "bytes": size}, "Mbit/s", [float(one) for one in samples]))
    tree = ET.fromstring(pictures(record)[".svg"])  # noqa: S314
    texts = ["".join(one.itertext()).strip() for one in tree.iter() if one.tag.endswith("}text")]
    assert "Mbit/s, median and 95 % interval, or the least to the greatest of under 6 samples" in texts
    assert "x, n = 1 to 20" in texts
    assert "3,000" in texts, "the axis has room for the end of an interval"
    strokes = [one for one in tree.iter() if one.tag.endswith("}line") and one.get("stroke") == svg.COLOURS[0]]
    upright = [one for one in strokes if one.get("x1") == one.get("x2")]
    heights = [float(one.get("y1", "")) - float(one.get("y2", "")) for one in upright]
    per_unit = heights[2] / 1000
    assert heights == pytest.approx([7 * per_unit, 9 * per_unit, 1000 * per_unit], abs=0.11)


def test_a_run_names_each_file_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Record("x", {})
    for unit in ("ms", "% lost", "1/s"):
        record.take(Taken({"hop": 1}, unit, [1.0]))
    finish(record, Place(tmp_path, "x-1"))
    assert capsys.readouterr().err == f"written: {tmp_path}/x-1.json (every sample), .csv, .svg, -2.svg, -3.svg\n"
    ends = (".json", ".csv", ".svg", "-2.svg", "-3.svg")
    assert {path.name for path in tmp_path.iterdir()} == {f"x-1{end}" for end in ends}


def test_a_table_has_the_interval_of_a_median_and_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    few, many, one = (Taken({}, "ms", [float(value) for value in range(count)]) for count in (3, 20, 1))
    assert spread(few, "{:.1f}".format, " ms") == "1.0 ms (0.0 to 2.0)"
    assert (spread(many), spread(one)) == ("9.5 (5 to 14)", "0")
    explain([one])
    assert not capsys.readouterr().out
    explain([many, one])
    assert capsys.readouterr().out == "in parentheses: 95 % interval\n"


@pytest.mark.usefixtures("short")
def test_the_table_of_ciphers_has_the_number_of_samples_and_each_interval(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter([1000, 2000, 1000, 2000, 1100, 2000, 1100, 2000, 900, 2000, 900, 2000])
    monkeypatch.setattr(module, "_speed", lambda *_: f"+F:22:AES-256-CCM:{next(rates) * 1e6 / 8}\n")
    result = meshsec("bench", "crypto", "--into", str(tmp_path / "kept"))
    assert result.exit_code == 0, result.output
    _, *lines = result.stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["AES-256-CCM", "encryption", "3", "1000", "1000"],
        ["-10", "+10", "-10", "+10"],
        ["AES-256-CCM", "decryption", "3", "2000", "2000"],
        ["+0", "+0", "+0", "+0"],
        ["below", "each", "median,", "in", "per", "cent", "from", "it:", "the", "least", "to", "the", "greatest"],
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip("\n")
    except OSError:
        return ""
