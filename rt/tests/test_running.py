"""Tests of benchmarks that signals end, with real ones."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rt.papers.running import HEEDED, Benchmarks

TOLD = "trap 'kill $!; exit 3' INT; sleep 60 & kill -{signal} $PPID; wait"
"""A benchmark that sends a signal to the program that runs it, and ends in order when it is interrupted itself."""


class Told(list[float]):
    """When somebody was told that a benchmark is waited for."""

    def __call__(self) -> None:
        self.append(time.monotonic())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def benchmarks(told: Told) -> Iterator[Benchmarks]:
    handlers = [signal.getsignal(one) for one in HEEDED]
    found = Benchmarks(told)
    with found.heeding():
        yield found
    assert [signal.getsignal(one) for one in HEEDED] == handlers


def test_a_benchmark_has_the_environment_it_is_given_and_its_status_counts(benchmarks: Benchmarks) -> None:
    environment = {"PATH": os.environ["PATH"], "QUICK": "1"}
    assert benchmarks.run('test "$QUICK" = 1', environment)
    assert not benchmarks.run('test "$QUICK" = 2', environment)
    assert benchmarks.asked == 0


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_is_passed_on_as_an_interruption(benchmarks: Benchmarks, told: Told, name: str) -> None:
    assert not benchmarks.run(TOLD.format(signal=name), os.environ)
    assert (benchmarks.asked, len(told)) == (1, 1)


def test_the_second_signal_kills_a_benchmark_that_ignores_the_first(
    benchmarks: Benchmarks, told: Told, tmp_path: Path
) -> None:
    ignoring = f"trap '' INT; kill -INT $PPID; sleep 0.2; touch {tmp_path}/goes-on; kill -TERM $PPID; sleep 60"
    assert not benchmarks.run(ignoring, os.environ)
    assert (tmp_path / "goes-on").exists()
    assert (benchmarks.asked, len(told)) == (2, 1)


def test_a_signal_that_comes_while_a_benchmark_starts_is_not_lost(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def interrupted(*argv: object, **how: object) -> "subprocess.Popen[bytes]":
        started: subprocess.Popen[bytes] = start(*argv, **how)  # type: ignore[call-overload]
        os.kill(os.getpid(), signal.SIGINT)
        return started

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert not benchmarks.run("exec sleep 60", os.environ)
    assert benchmarks.asked == 1


def test_a_hang_up_that_nohup_ignores_stays_ignored(told: Told) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        benchmarks = Benchmarks(told)
        with benchmarks.heeding():
            assert benchmarks.run("kill -HUP $PPID", os.environ)
        assert (benchmarks.asked, [*told]) == (0, [])
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nothing_goes_on_when_the_wait_for_it_fails(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def fail(benchmark: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        waited.append(benchmark.pid)
        if len(waited) == 1:
            raise TimeoutError
        return real(benchmark, timeout)

    real = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", fail)
    with pytest.raises(TimeoutError):
        benchmarks.run("exec sleep 60", os.environ)
    assert waited == [waited[0]] * 2
    assert not Path(f"/proc/{waited[0]}").exists()
