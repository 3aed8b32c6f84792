"""Reading the CPU load from /proc: of real processes that compete for a processor, and of kernels that report less."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import child
from meshsec.adapters.scheduler import pressure
from meshsec.adapters.scheduler.pressure import Runs
from meshsec.agent.sides.contention import STARVED, ContentionWatch
from namespaces import wait_for

SPIN = "import os; os.sched_setaffinity(0, {%d}); print(flush=True)\nwhile True: pass"


@pytest.fixture
def rivals() -> Iterator[list[int]]:
    """Give two busy processes on the same processor."""
    cpu = min(os.sched_getaffinity(0))
    argv = [sys.executable, "-c", SPIN % cpu]
    processes = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    yield [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def needs_schedstat() -> None:
    if pressure.runs(os.getpid()) is None:
        pytest.skip("this kernel counts no run-queue delay (CONFIG_SCHED_INFO)")


def test_the_cpu_clock_of_a_busy_process_advances_and_a_dead_one_has_none(rivals: list[int]) -> None:
    before = pressure.cpu_seconds(rivals[0])
    assert before is not None
    wait_for(lambda: (pressure.cpu_seconds(rivals[0]) or 0.0) > before, "CPU time")
    dead = subprocess.Popen(["true"])
    dead.wait()
    assert pressure.cpu_seconds(dead.pid) is None
    assert pressure.runs(dead.pid) is None
    assert pressure.runnable(dead.pid) == frozenset()


def test_a_pinned_process_has_one_processor(rivals: list[int]) -> None:
    assert len(pressure.processors(rivals[0])) == 1
    assert pressure.processors(os.getpid()) == os.sched_getaffinity(0)


def test_two_rivals_are_seen_waiting_for_each_other(rivals: list[int]) -> None:
    needs_schedstat()

    def waited() -> bool:
        found = pressure.runs(rivals[0])
        return found is not None and sum(one.waited for one in found.values()) > 0.01

    wait_for(waited, "run-queue delay")
    wait_for(lambda: pressure.runnable(rivals[0]) == {rivals[0]}, "a runnable thread")


def test_a_watch_reports_the_delay_between_two_polls(rivals: list[int]) -> None:
    needs_schedstat()
    watch = ContentionWatch(rivals[0], 0.0)
    first = watch.waited
    assert first is not None
    looks = itertools.count(1.0)

    def delayed() -> bool:
        return (watch.poll(next(looks)).delay or 0.0) > 0

    wait_for(delayed, "a delay")
    assert watch.waited is not None
    assert watch.waited > first
    assert "run-queue delay of charon's threads" in watch.source


def test_a_process_that_sleeps_does_not_starve() -> None:
    needs_schedstat()
    with child(subprocess.Popen(["sleep", "60"])) as sleeper:
        wait_for(lambda: pressure.runs(sleeper.pid) is not None, "the first run")
        watch = ContentionWatch(sleeper.pid, 0.0)
        looks = itertools.count(1.0)

        def asleep() -> bool:  # until then it may wait for the disk or a processor, again and again
            seen = watch.poll(next(looks), queued=2)
            return (seen.delay, seen.starving, seen.queued) == (None, 0, 2)

        wait_for(asleep, "sleep is asleep")
        sleeper.kill()


# --- kernels that tell less ---

TID = 42


def fake(proc: Path, schedstat: str | None, state: str = "S") -> Path:
    task = proc / f"{TID}/task/{TID}"
    task.mkdir(parents=True, exist_ok=True)
    (task / "stat").write_text(f"{TID} (a) R (b) {state} 1 1")
    if schedstat is not None:
        (task / "schedstat").write_text(schedstat)
    return proc


@pytest.mark.parametrize("text", [None, "", "0 0 0\n", "1 2\n", "a b c\n", "-1 -1 -1\n"])
def test_a_kernel_that_does_not_count_is_told_from_one_where_nobody_waits(tmp_path: Path, text: str | None) -> None:
    assert pressure.runs(TID, fake(tmp_path, text)) is None


def test_schedstat_has_nanoseconds_and_runs(tmp_path: Path) -> None:
    assert pressure.runs(TID, fake(tmp_path, "1500000000 2000000 7\n")) == {TID: Runs(1.5, 0.002, 7)}


def test_the_state_is_found_after_a_name_with_any_character(tmp_path: Path) -> None:
    assert pressure.runnable(TID, fake(tmp_path, None)) == frozenset()
    assert pressure.runnable(TID, fake(tmp_path, None, "R")) == {TID}


def test_psi_has_microseconds_of_the_line_some(tmp_path: Path) -> None:
    file = tmp_path / "cpu"
    assert pressure.stalled_seconds(file) is None
    file.write_text(
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\nsome avg10=1.0 avg60=1.0 avg300=1.0 total=2500000\n"
    )
    assert pressure.stalled_seconds(file) == 2.5
    file.write_text("some total=x\n")
    assert pressure.stalled_seconds(file) is None


def test_the_own_groups_pressure_is_preferred_to_the_systems(tmp_path: Path) -> None:
    fake(tmp_path, None)
    (tmp_path / "self").mkdir()
    mount = tmp_path / "groups"
    (tmp_path / "self/mountinfo").write_text(f"30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / f"{TID}/cgroup").write_text("1:cpu:/x\n0::/ike.service\n")
    assert pressure.pressure_file(TID, tmp_path) == pressure.SYSTEM_PRESSURE
    (mount / "ike.service").mkdir(parents=True)
    own = mount / "ike.service/cpu.pressure"
    own.write_text("some avg10=0 avg60=0 avg300=0 total=0\n")
    assert pressure.pressure_file(TID, tmp_path) == own


# --- looks at a scripted process ---


def scripted(monkeypatch: pytest.MonkeyPatch, *looks: tuple[dict[int, Runs] | None, set[int], float | None]) -> None:
    """Let the kernel report these values at each poll."""
    feeds = {
        "runs": iter([runs for runs, _, _ in looks]),
        "runnable": iter([frozenset(tids) for runs, tids, _ in looks if runs is not None]),
        "stalled_seconds": iter([stalled for _, _, stalled in looks]),
    }
    for name, feed in feeds.items():
        monkeypatch.setattr(pressure, name, lambda _, feed=feed: next(feed))


def test_a_runnable_thread_that_did_not_run_between_two_polls_starves(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, moving = Runs(1.0, 0.5, 10), Runs(1.0, 0.0, 10)
    moved = Runs(1.1, 0.2, 14)
    scripted(
        monkeypatch,
        ({1: stuck, 2: moving}, {1, 2}, 0.0),
        ({1: stuck, 2: moved}, {1, 2}, 1.0),
        ({1: stuck, 2: moved}, {1}, 1.0),
    )
    watch = ContentionWatch(os.getpid(), 0.0)
    found = watch.poll(2.0)
    assert (found.starving, found.delay, found.pressure) == (1, 0.2 / 4, 0.5)
    assert watch.poll(2.0 + STARVED / 2).starving == 0, "too soon to tell"


def test_the_waiting_time_of_ended_threads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(
        monkeypatch,
        ({1: Runs(1.0, 0.5, 10), 2: Runs(1.0, 0.25, 10)}, set(), None),
        ({1: Runs(1.0, 0.5, 10)}, set(), None),
        (None, set(), None),
    )
    watch = ContentionWatch(os.getpid(), 0.0)
    watch.poll(1.0)
    assert watch.waited == 0.75
    watch.poll(2.0)
    assert watch.source.count("(no ") == 2, watch.source
    assert "no schedstat" in watch.source
    assert "no PSI" in watch.source
