"""The governor with real threads: it raises them for negotiations, restores them, and reports each change."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from children import child
from meshsec.adapters import scheduler
from meshsec.adapters.scheduler import pressure, threads
from meshsec.adapters.scheduler.pressure import Runs
from meshsec.agent.sides.classes import Classes
from meshsec.agent.sides.contention import poller
from meshsec.agent.sides.scheduling import CharonSide, Scheduling
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.config.scheduling_settings import SchedulingSettings
from meshsec.core.scheduling.governor_events import Contention, Crowding, StreamReported
from meshsec.core.scheduling.governor_modes import Mode
from meshsec.core.scheduling.governor_settings import GovernorSettings
from meshsec.core.scheduling.profiles import STOCK, Placement, Profile, SchedulingClass, SchedulingPolicy

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or bool(scheduler.look().realtime_refused), reason="real-time classes are refused here"
)

ORDINARY = SchedulingClass(nice=os.nice(0))
BASE = SchedulingClass(nice=3)
NICE = SchedulingClass(nice=-3)
REALTIME = SchedulingClass(SchedulingPolicy.RR, priority=2)
PROFILE = Profile("test", "For tests.", {"charon": Placement(BASE)}, (NICE, REALTIME))
PATIENT = GovernorSettings(attention=600.0, linger=0.05, burst=1.0)
WORKER = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
open(0).read()
"""


@pytest.fixture
def charon() -> Iterator[int]:
    """Give a process with two threads that wait for ever."""
    argv = [sys.executable, "-c", WORKER]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process.pid
    process.communicate()


def classes(pid: int) -> set[SchedulingClass | None]:
    return {threads.read(one).scheduling for one in threads.threads_of(pid)}


class Bench:
    """The scheduling side under test, with what it publishes."""

    def __init__(self, journal: Path, profile: Profile = PROFILE, settings: GovernorSettings = PATIENT) -> None:
        self.reported: list[dict[str, object]] = []
        self.answer: Callable[[], object] = lambda: None
        charon = CharonSide(lambda: 0, lambda: None, self.ask)
        known = SchedulingSettings(profile, (), settings)
        self.side = Scheduling(known, journal, (), lambda event: self.reported.append({**event}), charon)

    async def ask(self) -> None:
        """Answer in place of charon; by default do nothing."""
        await asyncio.to_thread(self.answer)

    def busy(self) -> None:
        """Report a starving thread, so that the CPU counts as contended."""
        assert self.side.governor
        self.side.governor.handle(Contention(starving=1))

    async def reach(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not what():  # noqa: ASYNC110  (the kernel notifies nobody)
                await asyncio.sleep(0.005)


def channel(state: State, name: str = "boat") -> Channel:
    return Channel(name, 0.0, state)


def run(scenario: Callable[[Bench], Awaitable[None]], journal: Path, **options: object) -> Bench:
    async def scene() -> Bench:
        bench = Bench(journal, **options)  # type: ignore[arg-type]
        bench.side.start()
        try:
            await scenario(bench)
        finally:
            bench.side.close()
        return bench

    return asyncio.run(scene())


def test_charon_is_raised_for_a_negotiation_taken_back_after_and_put_back_at_the_end(
    charon: int, tmp_path: Path
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.side.charon_up(charon)
        assert classes(charon) == {BASE}
        bench.busy()
        bench.side.follow([channel(State.NEGOTIATING)])
        assert classes(charon) in ({NICE}, {REALTIME})
        assert (tmp_path / "journal").exists()
        bench.side.follow([channel(State.PROTECTED)])
        await bench.reach(lambda: classes(charon) == {BASE})

    bench = run(scenario, tmp_path / "journal")
    assert classes(charon) == {ORDINARY}
    assert not (tmp_path / "journal").exists()
    assert bench.reported[0]["state"] in (str(NICE), str(REALTIME))
    assert bench.reported[-1]["state"] == str(BASE)
    assert all(event["kind"] == "scheduling" and event["reason"] for event in bench.reported)


def runs(**times: int) -> dict[int, Runs]:
    """Return how often each thread ran, from arguments named ``tNUMBER``."""
    return {int(name[1:]): Runs(0.0, 0.0, count) for name, count in times.items()}


def test_the_polling_thread_is_found_by_how_often_it_runs() -> None:
    before = runs(t1=1000, t2=5, t3=0)
    assert poller(before, runs(t1=1040, t2=250, t3=56, t9=900)) == 2
    assert poller(before, runs(t1=1200, t2=250, t3=56)) is None, "two of them run often"
    assert poller(before, runs(t1=1001, t2=20, t3=0)) is None, "it was not asked"
    assert poller(before, {}) is None


POLLER = """
import threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
while input():
    for _ in range(20):
        time.sleep(0.0001)
    print(flush=True)
"""
"""A program with two threads, of which one runs twenty times for each line of its input."""


@pytest.mark.skipif(pressure.runs(os.getpid()) is None, reason="this kernel counts no run-queue delay")
def test_without_a_governor_the_thread_that_polls_stands_behind_too_and_all_get_back_what_they_had(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-c", POLLER]
    with child(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as process:
        asked, answered = process.stdin, process.stdout
        assert asked and answered  # noqa: PT018  (for the type checker)
        answered.readline()

        def answer() -> None:
            asked.write(b"how are you\n")
            asked.flush()
            answered.readline()

        async def scenario(bench: Bench) -> None:
            bench.answer = answer
            bench.side.charon_up(process.pid)
            assert classes(process.pid) == {REALTIME}
            looking = asyncio.create_task(bench.side.run())
            await bench.reach(lambda: classes(process.pid) == {REALTIME, REALTIME.one_behind})
            looking.cancel()
            assert bench.side.known.poller == process.pid
            assert bench.side.classes.applied["charon"].behind == (process.pid,)

        profile = Profile("test", "For tests.", {"charon": Placement(REALTIME)})
        run(scenario, tmp_path / "journal", profile=profile)
        assert classes(process.pid) == {ORDINARY}
        asked.write(b"\n")


def test_who_signs_for_the_router_has_its_class_whoever_that_is_now(charon: int, tmp_path: Path) -> None:
    signers = iter([charon, 0, os.getpid(), charon])
    profile = Profile("test", "For tests.", {"olsrv2d": Placement(NICE)})
    found = Classes(profile, tmp_path / "journal")
    found.follow("olsrv2-signer", lambda: next(signers))
    try:
        for _ in range(2):
            found.rescan()
            assert classes(charon) == {NICE}
        found.rescan()
        assert (classes(charon), classes(os.getpid())) == ({ORDINARY}, {NICE}), "another process signs now"
    finally:
        found.restore()
    assert classes(os.getpid()) == {ORDINARY}


def test_who_signs_is_left_alone_where_the_router_is(charon: int, tmp_path: Path) -> None:
    found = Classes(Profile("test", "For tests.", {"charon": Placement(NICE)}), tmp_path / "journal")
    found.follow("olsrv2-signer", lambda: charon)
    found.rescan()
    assert classes(charon) == {ORDINARY}
    assert not (tmp_path / "journal").exists()


def test_a_negotiation_that_stalls_under_load_gets_a_real_time_class(charon: int, tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        governor = bench.side.governor
        assert governor
        bench.side.charon_up(charon)
        bench.busy()
        bench.side.follow([channel(State.NEGOTIATING)])
        async with asyncio.timeout(60):
            while classes(charon) != {REALTIME}:
                governor.load.contended = True  # a process that only waits is not seen to starve
                await asyncio.sleep(0.005)
        assert governor.mode is Mode.NEGOTIATING

    run(scenario, tmp_path / "journal")
    assert classes(charon) == {ORDINARY}


def test_on_an_idle_host_a_negotiation_begins_with_the_real_time_class_unless_configured_otherwise(
    charon: int, tmp_path: Path
) -> None:
    async def scenario(bench: Bench) -> None:
        assert bench.side.governor
        bench.side.charon_up(charon)
        bench.side.governor.handle(Contention(delay=0.0, starving=0))
        bench.side.follow([channel(State.NEGOTIATING)])
        assert (classes(charon) == {REALTIME}) is bench.side.governor.settings.head_start

    run(scenario, tmp_path / "journal")
    run(scenario, tmp_path / "journal", settings=replace(PATIENT, head_start=False))


def test_an_expected_negotiation_counts_and_one_that_failed_does_not_until_its_delay_is_over(
    charon: int, tmp_path: Path
) -> None:
    async def scenario(bench: Bench) -> None:
        governor = bench.side.governor
        assert governor
        bench.side.charon_up(charon)
        unreachable = channel(State.WAITING)
        bench.side.follow([unreachable])
        assert not governor.negotiating
        expected = channel(State.WAITING, "ship")
        expected.route = object()  # type: ignore[assignment]  # that there is one is all that counts
        bench.side.follow([unreachable, expected])
        assert list(governor.negotiating) == ["ship"]
        expected.attempt.backoff = replace(expected.attempt.backoff, due=asyncio.get_running_loop().time() + 600)
        bench.side.follow([unreachable, expected])
        assert not governor.negotiating

    run(scenario, tmp_path / "journal")


def test_for_a_peer_that_may_begin_now_the_real_time_class_is_set_for_a_moment(charon: int, tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.side.expect("boat")
        bench.side.charon_up(charon)
        assert classes(charon) == {BASE}, "of no charon nothing is expected"
        bench.side.expect("boat")
        assert classes(charon) == {REALTIME}
        bench.side.follow([channel(State.PROTECTED)])
        await bench.reach(lambda: classes(charon) == {BASE})

    run(scenario, tmp_path / "journal", settings=replace(PATIENT, attention=0.1))


def test_a_new_charon_is_raised_afresh_and_without_one_nothing_is_raised(charon: int, tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        governor = bench.side.governor
        assert governor
        bench.side.charon_up(charon)
        bench.busy()
        bench.side.follow([channel(State.NEGOTIATING)])
        bench.side.charon_gone()
        assert governor.mode is Mode.ABSENT
        assert "charon" not in bench.side.classes.applied
        bench.side.follow([channel(State.NEGOTIATING)])
        assert not governor.negotiating
        bench.side.charon_up(charon)
        assert classes(charon) == {BASE}
        bench.side.follow([channel(State.NEGOTIATING)])
        assert list(governor.negotiating) == ["boat"]

    run(scenario, tmp_path / "journal")


def test_without_a_journal_nothing_is_changed_and_the_governor_knows(charon: int, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def scenario(bench: Bench) -> None:
        governor = bench.side.governor
        assert governor
        bench.side.charon_up(charon)
        bench.busy()
        bench.side.follow([channel(State.NEGOTIATING)])
        assert classes(charon) == {ORDINARY}
        assert governor.level == 0
        assert governor.ladder.ceiling == 0
        assert "file" in governor.ladder.refusal
        assert bench.side.known.problem

    run(scenario, tmp_path / "file/journal")


def test_classes_that_a_crashed_predecessor_left_are_restored(charon: int, tmp_path: Path) -> None:
    async def crash() -> None:
        bench = Bench(tmp_path / "journal")
        bench.side.charon_up(charon)
        bench.busy()
        bench.side.follow([channel(State.NEGOTIATING)])

    async def nothing(_bench: Bench) -> None:
        pass

    asyncio.run(crash())
    assert classes(charon) != {ORDINARY}
    run(nothing, tmp_path / "journal", profile=STOCK)
    assert classes(charon) == {ORDINARY}


def test_the_profile_stock_changes_and_reads_nothing(charon: int, tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.side.charon_up(charon)
        bench.side.follow([channel(State.NEGOTIATING)])
        bench.side.handle(StreamReported("video"))
        async with asyncio.timeout(60):
            await bench.side.run()

    bench = run(scenario, tmp_path / "journal", profile=STOCK)
    assert classes(charon) == {ORDINARY}
    assert bench.side.governor is None
    assert not bench.reported


def test_a_flood_that_uses_the_budget_up_ends_the_privilege(tmp_path: Path) -> None:
    """A busy stand-in for charon uses the budget up while a negotiation never ends, and its class is taken back."""
    spin = "import sys; print(flush=True)\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
    try:
        assert busy.stdout
        busy.stdout.readline()

        async def scenario(bench: Bench) -> None:
            governor = bench.side.governor
            assert governor
            bench.side.charon_up(busy.pid)
            bench.side.handle(Crowding(1.0))  # whether the stand-in itself waits depends on what else runs here
            bench.side.follow([channel(State.NEGOTIATING)])
            await bench.reach(lambda: governor.mode is Mode.SPENT)
            assert [one["state"] for one in bench.reported] == [str(NICE), str(BASE)]
            assert classes(busy.pid) == {BASE}

        profile = Profile("test", "For tests.", {"charon": Placement(BASE)}, (NICE,))
        run(scenario, tmp_path / "journal", profile=profile, settings=replace(PATIENT, burst=0.02, share=0.01))
    finally:
        busy.kill()
        busy.communicate()
