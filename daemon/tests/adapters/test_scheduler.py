"""The scheduler with real threads: it sets their classes, follows new threads, and restores exactly."""

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshsec.adapters.scheduler import (
    JournalError,
    Scheduler,
    groups,
    has_realtime_groups,
    host,
    interrupts,
    look,
    realtime_groups,
    threads,
)
from meshsec.adapters.scheduler.mounts import Mount
from meshsec.adapters.scheduler.threads import Attributes, Thread
from meshsec.core.scheduling.profiles import (
    BEST_WITHOUT_REALTIME,
    Applied,
    Limits,
    Placement,
    SchedulingClass,
    SchedulingPolicy,
    weight_of,
)

RR20 = SchedulingClass(SchedulingPolicy.RR, priority=20)
FIFO5 = SchedulingClass(SchedulingPolicy.FIFO, priority=5)
NICE5 = SchedulingClass(nice=5)
NICE_10 = SchedulingClass(nice=-10)
ORDINARY = SchedulingClass(nice=os.nice(0))
"""The class with which the tests, and so their processes, were started."""

BATCH, IDLE, DEADLINE, RR, RESET = 3, 5, 6, 2, 1

needs_realtime = pytest.mark.skipif(
    os.geteuid() != 0 or bool(look().realtime_refused), reason="real-time classes are refused here"
)

WORKER = textwrap.dedent("""
    import sys, threading
    for line in sys.stdin:
        if line == "thread\\n":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        print("done", flush=True)
""")
"""A program that starts a thread that waits for ever, for each line of its input."""


class Worker:
    """A process whose threads the tests schedule."""

    def __init__(self, *prefix: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.tell("ready")

    def tell(self, line: str) -> None:
        assert self.process.stdin
        assert self.process.stdout
        print(line, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def start_thread(self) -> Thread:
        before = self.threads
        self.tell("thread")
        (fresh,) = self.threads - before
        return fresh

    @property
    def threads(self) -> set[Thread]:
        return threads.threads_of(self.pid)

    @property
    def attributes(self) -> dict[Thread, Attributes]:
        return {thread: threads.read(thread) for thread in self.threads}

    @property
    def classes(self) -> set[SchedulingClass | None]:
        return {attributes.scheduling for attributes in self.attributes.values()}

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def worker() -> Iterator[Worker]:
    one = Worker()
    try:
        for _ in range(3):
            one.start_thread()
        yield one
    finally:
        one.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scheduling.json"


@pytest.fixture
def scheduler(path: Path) -> Scheduler:
    return Scheduler(path)


@needs_realtime
@pytest.mark.parametrize("wanted", [RR20, FIFO5, NICE_10, NICE5], ids=str)
def test_every_thread_has_the_class_and_then_what_it_had(
    worker: Worker, scheduler: Scheduler, path: Path, wanted: SchedulingClass
) -> None:
    before = worker.attributes
    applied = scheduler.apply("charon", worker.pid, wanted)
    assert applied == Applied("charon", worker.pid, wanted, wanted, 4)
    assert worker.classes == {wanted}
    assert path.exists()
    assert scheduler.restore() == []
    assert worker.attributes == before
    assert scheduler.is_restored
    assert not path.exists()


@needs_realtime
def test_the_thread_to_place_behind_has_one_priority_less_and_is_restored_with_the_others(
    worker: Worker, scheduler: Scheduler
) -> None:
    before = worker.attributes
    last = max(worker.threads, key=lambda one: one.tid)
    applied = scheduler.place("charon", worker.pid, Placement(RR20, behind=frozenset({last.tid})))
    assert applied.in_force == RR20
    given = {thread: attributes.scheduling for thread, attributes in worker.attributes.items()}
    assert given.pop(last) == SchedulingClass(SchedulingPolicy.RR, priority=19)
    assert set(given.values()) == {RR20}
    scheduler.place("charon", worker.pid, Placement(NICE_10, behind=frozenset({last.tid})))
    assert worker.classes == {NICE_10}, "nice values have no order that counts here"
    scheduler.restore()
    assert worker.attributes == before


@needs_realtime
def test_threads_of_every_policy_are_put_back_exactly(worker: Worker, scheduler: Scheduler) -> None:
    strange = [
        Attributes(BATCH, 0, 7, 0),
        Attributes(IDLE, 0, 3, 0),
        Attributes(RR, RESET, 0, 3),
        Attributes(DEADLINE, RESET, 0, 0, 1_000_000, 10_000_000, 20_000_000),
    ]
    for thread, attributes in zip(sorted(worker.threads, key=lambda one: one.tid), strange, strict=True):
        threads.write(thread, attributes)
    before = worker.attributes
    scheduler.apply("charon", worker.pid, RR20)
    scheduler.apply("charon", worker.pid, NICE5)
    assert worker.classes == {NICE5}
    assert scheduler.restore() == []
    after = worker.attributes
    assert {thread: one.effective for thread, one in after.items()} == {
        thread: one.effective for thread, one in before.items()
    }
    assert [one.effective for one in strange] == [
        after[thread].effective for thread in sorted(after, key=lambda one: one.tid)
    ]


@needs_realtime
@pytest.mark.parametrize("wanted", [RR20, NICE_10], ids=str)
def test_no_privilege_is_inherited_and_a_rescan_gives_it(
    worker: Worker, scheduler: Scheduler, wanted: SchedulingClass
) -> None:
    scheduler.apply("charon", worker.pid, wanted)
    fresh = worker.start_thread()
    assert threads.read(fresh).is_untouched
    assert scheduler.rescan() == [Applied("charon", worker.pid, wanted, wanted, 5)]
    assert worker.classes == {wanted}


@needs_realtime
def test_a_thread_that_came_later_goes_back_to_what_its_process_had(path: Path) -> None:
    """A new thread gets the former class of its process, whether a rescan found it or not."""
    worker = Worker("nice", "-n", "7")
    try:
        scheduler = Scheduler(path)
        scheduler.apply("charon", worker.pid, RR20)
        worker.start_thread()
        scheduler.rescan()
        worker.start_thread()
        assert scheduler.restore() == []
        assert worker.classes == {SchedulingClass(nice=min(19, ORDINARY.nice + 7))}
        assert len(worker.threads) == 3
    finally:
        worker.end()


@needs_realtime
def test_classes_that_other_programs_changed_are_set_again(worker: Worker, scheduler: Scheduler) -> None:
    scheduler.apply("charon", worker.pid, RR20)
    threads.write(min(worker.threads, key=lambda one: one.tid), Attributes(IDLE, 0, 0, 0))
    scheduler.rescan()
    assert worker.classes == {RR20}


@needs_realtime
def test_a_successor_puts_back_what_a_killed_one_left(worker: Worker, path: Path) -> None:
    before = worker.attributes
    Scheduler(path).place("charon", worker.pid, Placement(RR20, cpus=(min(os.sched_getaffinity(0)),)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    successor = Scheduler(path)
    assert not successor.is_restored
    assert successor.restore() == []
    assert worker.attributes == before
    assert not path.exists()


@needs_realtime
def test_a_successor_that_raises_again_still_knows_the_original_classes(worker: Worker, path: Path) -> None:
    before = worker.attributes
    Scheduler(path).apply("charon", worker.pid, RR20)
    successor = Scheduler(path)
    successor.apply("charon", worker.pid, FIFO5)
    assert successor.restore() == []
    assert worker.attributes == before


@needs_realtime
@pytest.mark.parametrize("changed", ["start", "boot"])
def test_a_thread_that_merely_has_the_same_number_is_left_alone(worker: Worker, path: Path, changed: str) -> None:
    Scheduler(path).apply("charon", worker.pid, RR20)
    document = json.loads(path.read_text())
    if changed == "boot":
        document["boot"] = "another"
    for entry in (*document["threads"], *document["values"]):
        entry["start"] += changed == "start"
    path.write_text(json.dumps(document))
    assert Scheduler(path).restore() == []
    assert worker.classes == {RR20}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"boot": 1, "threads": 5}'])
def test_a_damaged_journal_is_reported_and_stops_nothing(
    worker: Worker, path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    path.write_text(text.replace('"boot": 1', f'"boot": "{boot}"'))
    scheduler = Scheduler(path)
    assert f"{path}: is no journal of scheduling classes" in caplog.text
    assert scheduler.apply("charon", worker.pid, NICE5).in_force == NICE5


def test_nothing_is_changed_that_the_journal_cannot_record(worker: Worker, tmp_path: Path) -> None:
    before = worker.attributes
    with pytest.raises(JournalError, match="absent"):
        Scheduler(tmp_path / "absent/journal").apply("charon", worker.pid, NICE5)
    assert worker.attributes == before


@needs_realtime
def test_a_process_that_ends_is_forgotten(worker: Worker, scheduler: Scheduler, path: Path) -> None:
    scheduler.apply("charon", worker.pid, RR20)
    worker.end()
    (gone,) = scheduler.rescan()
    assert (gone.in_force, gone.threads, gone.problem) == (None, 0, f"process {worker.pid} is gone")
    assert not path.exists()
    assert scheduler.rescan() == []


@needs_realtime
def test_a_service_that_is_started_again_leaves_nothing_behind(worker: Worker, scheduler: Scheduler) -> None:
    before = worker.attributes
    scheduler.apply("charon", worker.pid, RR20)
    other = Worker()
    try:
        scheduler.apply("charon", other.pid, RR20)
        assert worker.attributes == before
        assert other.classes == {RR20}
    finally:
        other.end()


@needs_realtime
def test_services_are_restored_one_by_one(worker: Worker, scheduler: Scheduler) -> None:
    other = Worker()
    try:
        scheduler.apply("charon", worker.pid, RR20)
        scheduler.apply("olsrv2d", other.pid, NICE_10)
        assert scheduler.restore("charon") == []
        assert worker.classes == {ORDINARY}
        assert other.classes == {NICE_10}
        assert [one.service for one in scheduler.rescan()] == ["olsrv2d"]
        scheduler.restore()
        assert other.classes == {ORDINARY}
    finally:
        other.end()


@pytest.mark.parametrize(("service", "pid"), [("sshd", 2**22), ("irq", 2**22), ("charon", 1), ("charon", 0)])
def test_a_service_or_process_that_must_not_be_changed_is_refused(scheduler: Scheduler, service: str, pid: int) -> None:
    with pytest.raises(ValueError, match="is not allowed; allowed: "):
        scheduler.apply(service, pid, NICE5)


def test_a_missing_process_is_reported(scheduler: Scheduler) -> None:
    ended = Worker()
    ended.end()
    applied = scheduler.apply("charon", ended.pid, NICE5)
    assert (applied.in_force, applied.problem) == (None, f"process {ended.pid} is gone")


@needs_realtime
def test_no_class_goes_above_the_interrupt_threads(worker: Worker, scheduler: Scheduler) -> None:
    highest = min(49, (host.lowest_interrupt_priority() or 50) - 1)
    wanted = SchedulingClass(SchedulingPolicy.FIFO, priority=99)
    applied = scheduler.apply("charon", worker.pid, wanted)
    assert applied.in_force == SchedulingClass(SchedulingPolicy.FIFO, priority=highest)
    assert "above the threads of interrupts" in applied.problem
    assert worker.classes == {applied.in_force}


@needs_realtime
@pytest.mark.parametrize("text", ["-1", "1000000"])
def test_without_throttling_only_nice_values_are_set(
    worker: Worker, scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Without throttling a real-time class is replaced; files of the test's own say that it is off."""
    (tmp_path / "sched_rt_runtime_us").write_text(text)
    (tmp_path / "sched_rt_period_us").write_text("1000000")
    assert scheduler.apply("charon", worker.pid, RR20).in_force == RR20
    monkeypatch.setattr(host, "_KERNEL", tmp_path)
    (applied,) = scheduler.rescan()
    assert (applied.in_force, worker.classes) == (BEST_WITHOUT_REALTIME, {BEST_WITHOUT_REALTIME})
    assert "throttling is off" in applied.problem


@needs_realtime
def test_processors_are_set_and_put_back(worker: Worker, scheduler: Scheduler) -> None:
    before = {thread.tid: os.sched_getaffinity(thread.tid) for thread in worker.threads}
    one = max(os.sched_getaffinity(0))
    applied = scheduler.place("charon", worker.pid, Placement(NICE5, cpus=(one,)))
    assert applied.problem == ""
    assert {frozenset(os.sched_getaffinity(tid)) for tid in before} == {frozenset({one})}
    assert scheduler.restore() == []
    assert {tid: os.sched_getaffinity(tid) for tid in before} == before


def test_processors_that_do_not_exist_are_refused(worker: Worker, scheduler: Scheduler) -> None:
    applied = scheduler.place("charon", worker.pid, Placement(NICE5, cpus=(8000,)))
    assert applied.in_force == NICE5
    assert "processors 8000 are refused" in applied.problem


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="giving a capability up takes root")
def test_without_the_capability_nothing_is_raised_and_the_reason_is_reported(worker: Worker, path: Path) -> None:
    """Without CAP_SYS_NICE, as in many containers, another user's process is left alone with a message."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from meshsec.adapters.scheduler import Scheduler, look
        from meshsec.core.scheduling.profiles import SchedulingClass, SchedulingPolicy
        facts = look()
        scheduler = Scheduler(Path(sys.argv[1]))
        applied = scheduler.apply("charon", int(sys.argv[2]), SchedulingClass(SchedulingPolicy.RR, priority=20))
        print(facts.capable, bool(facts.realtime_refused), bool(facts.nice_refused), applied.in_force, applied.problem)
        print("left:", scheduler.restore())
    """)
    bounds = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]
    command = [*bounds, sys.executable, "-c", program, str(path), str(worker.pid)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "daemon"}
    )
    assert done.stdout.startswith("False True True None ")
    assert "is refused: Operation not permitted" in done.stdout
    assert worker.classes == {ORDINARY}
    assert done.stdout.endswith("left: []\n"), "what was not changed needs no permission to be put back"
    assert not path.exists()


@pytest.fixture
def group(worker: Worker) -> Iterator[Path]:
    """Give a control group (v1) of the worker's own, without a real-time budget where the kernel has one."""
    root = next((mount.point for mount in groups.mounts() if not mount.unified and "cpu" in mount.controllers), None)
    if root is None or os.geteuid() != 0:
        pytest.skip("there is no writable hierarchy v1 of the controller cpu")
    directory = root / f"meshsec-test-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"{directory}: {error.strerror}")
    try:
        (directory / "cgroup.procs").write_text(str(worker.pid))
        yield directory
    finally:
        (root / "cgroup.procs").write_text(str(worker.pid))
        directory.rmdir()


def test_a_group_of_its_own_gets_the_weight_of_the_nice_value(
    worker: Worker, scheduler: Scheduler, group: Path
) -> None:
    shares = group / "cpu.shares"
    before = shares.read_text()
    applied = scheduler.apply("charon", worker.pid, NICE_10)
    assert (applied.problem, applied.group) == ("", "")
    assert int(shares.read_text()) == pytest.approx(1024 * 1.25**10, rel=0.01)
    assert groups.membership(worker.pid).facts().weight == weight_of(-10)
    assert scheduler.restore() == []
    assert shares.read_text() == before


@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed")
def test_a_read_only_groups_weight_is_reported(worker: Worker, group: Path, path: Path) -> None:
    """Under ProtectControlGroups= the group's weight is reported, with drop-ins and without."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from meshsec.adapters.scheduler import Scheduler, groups
        from meshsec.core.scheduling.profiles import SchedulingClass
        pid = int(sys.argv[2])
        for wanted in (SchedulingClass(nice=-5), SchedulingClass(nice=-10)):
            applied = Scheduler(Path(sys.argv[1])).apply("charon", pid, wanted)
            print(applied.in_force, [applied.problem], [applied.group])
        facts = groups.membership(pid).facts()
        print(facts.weight, facts.unwritable)
    """)
    (group / "cpu.shares").write_text(str(round(weight_of(-5) * 10.24)))
    mounted = group.parent
    sealed = f'mount --bind {mounted} {mounted} && mount -o remount,bind,ro {mounted} && exec "$@"'
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        sealed,
        "sh",
        sys.executable,
        "-c",
        program,
        str(path),
        str(worker.pid),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "daemon"}
    )
    refused = f"{group}/cpu.shares: Read-only file system"
    assert done.stdout.splitlines() == [
        "nice -5 [''] ['']",
        f"nice -10 [''] ['{refused}']",
        f"305 {refused}",
    ]


def test_a_shared_group_is_left_alone(worker: Worker, scheduler: Scheduler, group: Path) -> None:
    other = Worker()
    try:
        (group / "cgroup.procs").write_text(str(other.pid))
        before = (group / "cpu.shares").read_text()
        applied = scheduler.apply("charon", worker.pid, NICE_10)
        assert f"it shares the control group {group} with others" in applied.group
        assert applied.problem == ""
        assert (group / "cpu.shares").read_text() == before
    finally:
        other.end()


def test_a_group_without_a_real_time_budget_gets_nice_values(worker: Worker, scheduler: Scheduler, group: Path) -> None:
    if not (group / "cpu.rt_runtime_us").exists():
        pytest.skip("this kernel has no RT_GROUP_SCHED")
    facts = groups.membership(worker.pid).facts()
    assert (facts.path, facts.own, facts.forbids_realtime, facts.has_budget) == (str(group), True, True, True)
    assert has_realtime_groups()
    applied = scheduler.apply("charon", worker.pid, RR20)
    assert applied.in_force == BEST_WITHOUT_REALTIME
    assert "rr 20 is refused" in applied.problem
    assert worker.classes == {BEST_WITHOUT_REALTIME}


@pytest.fixture
def cpuset(worker: Worker) -> Iterator[Path]:
    """Give a control group (v1) of the worker's own for the controller cpuset."""
    root = next((mount.point for mount in groups.mounts() if "cpuset" in mount.controllers), None)
    if root is None or os.geteuid() != 0:
        pytest.skip("there is no writable hierarchy v1 of the controller cpuset")
    directory = root / f"meshsec-test-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"{directory}: {error.strerror}")
    try:
        for name in ("cpuset.cpus", "cpuset.mems"):
            (directory / name).write_text((root / name).read_text())
        (directory / "cgroup.procs").write_text(str(worker.pid))
        yield directory
    finally:
        (root / "cgroup.procs").write_text(str(worker.pid))
        directory.rmdir()


def test_a_cpuset_of_its_own_gets_the_processors(worker: Worker, scheduler: Scheduler, cpuset: Path) -> None:
    processors = cpuset / "cpuset.cpus"
    before = processors.read_text()
    one = max(os.sched_getaffinity(worker.pid))
    assert scheduler.place("charon", worker.pid, Placement(NICE5, cpus=(one,))).problem == ""
    assert processors.read_text().strip() == str(one)
    assert os.sched_getaffinity(worker.pid) == {one}
    assert scheduler.restore() == []
    assert processors.read_text() == before


@pytest.fixture
def autogroups() -> None:
    """Skip where the kernel makes no autogroups, as for processes in a control group."""
    enabled = Path("/proc/sys/kernel/sched_autogroup_enabled")
    if not enabled.exists() or enabled.read_text().strip() != "1":
        pytest.skip("this kernel makes no autogroups")
    if groups.membership(os.getpid()).cpu is not None or os.geteuid() != 0:
        pytest.skip("the tests run in a control group, or not as root")


def autogroup(worker: Worker) -> str:
    return groups.text_of(Path(f"/proc/{worker.pid}/autogroup"))


@pytest.mark.usefixtures("autogroups")
def test_an_autogroup_follows_the_nice_value(worker: Worker, scheduler: Scheduler) -> None:
    applied = scheduler.apply("charon", worker.pid, NICE_10)
    assert (applied.problem, applied.group) == ("", "")
    assert autogroup(worker) == "-10"
    assert scheduler.restore() == []
    assert autogroup(worker) == "0"


@pytest.mark.usefixtures("autogroups")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_autogroups_follow_at_the_rate_that_the_kernel_allows(worker: Worker, path: Path) -> None:
    """With CAP_SYS_NICE alone, as in meshsecd's unit, the kernel limits the rate of changes."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from meshsec.adapters.scheduler import Scheduler
        from meshsec.core.scheduling.profiles import SchedulingClass
        scheduler, wanted = Scheduler(Path(sys.argv[1])), SchedulingClass(nice=-10)
        for service, pid in zip(("charon", "olsrv2d"), map(int, sys.argv[2:])):
            applied = scheduler.apply(service, pid, wanted)
            print(applied.problem + applied.group)
        while any("nice -10" not in Path(f"/proc/{pid}/autogroup").read_text() for pid in sys.argv[2:]):
            scheduler.rescan()
        print("left:", scheduler.restore())
    """)
    other = Worker()
    try:
        bounds = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
        command = [*bounds, sys.executable, "-c", program, str(path), str(worker.pid), str(other.pid)]
        environment = {**os.environ, "PYTHONPATH": "daemon"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
        assert done.stdout == "\n\nleft: []\n"
        assert [autogroup(one) for one in (worker, other)] == ["0", "0"]
    finally:
        other.end()


def test_groups_are_found_in_hierarchies_of_both_versions(tmp_path: Path) -> None:
    """In v2 a group has a weight only where the controller is on; a group below has the weight of the nearest above."""
    unified = tmp_path / "system.slice/meshsec-ike.service/inner"
    unified.mkdir(parents=True)
    mount = Mount(tmp_path, "/", frozenset(), unified=True)
    own = _membership_at("/system.slice/meshsec-ike.service/inner", mount)
    assert own.cpu is None
    weight = unified.parent / "cpu.weight"
    weight.write_text("100")
    assert _membership_at("/system.slice/meshsec-ike.service/inner", mount).cpu == unified.parent
    (unified.parent / "cgroup.procs").write_text(f"{os.getpid()}\n")
    changes, problem = _membership_at("/system.slice/meshsec-ike.service/inner", mount).changes(NICE_10, None)
    assert (changes, problem) == ([groups.Change(weight, "931")], "")
    assert _membership_at("/system.slice/meshsec-ike.service", mount).changes(RR20, None) == ([], "")


V1 = "32 31 0:29 / {point} rw - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 / /cpuset rw - cgroup cgroup rw,cpuset\n"
V2 = "41 31 0:38 / {point} rw - cgroup2 cgroup2 rw\n"
BUILT, DISABLED = "CONFIG_RT_GROUP_SCHED=y\n", "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n"


@pytest.mark.parametrize(
    ("mounts", "files", "expected"),
    [
        (V1, {"group/cpu.rt_runtime_us": "950000"}, True),
        (V1, {"group/cpu.shares": "1024", "boot/config-6.1": BUILT}, False),  # switched off when the kernel started
        (V2, {"group/cgroup.controllers": "cpuset cpu io", "boot/config-6.1": f"CONFIG_A=y\n{BUILT}"}, True),
        (V2, {"group/cgroup.controllers": "cpuset cpu", "usr/lib/modules/6.1/config": BUILT}, True),
        (V2, {"group/cgroup.controllers": "cpuset io", "boot/config-6.1": BUILT}, False),  # of a container
        (V2, {"group/cgroup.controllers": "cpu", "boot/config-6.1": "# CONFIG_RT_GROUP_SCHED is not set\n"}, False),
        (V2, {"group/cgroup.controllers": "cpu"}, False),  # not told
        (V2, {"group/cgroup.controllers": "cpu", "boot/config-6.2": BUILT}, False),  # of another kernel
        (V2, {"group/cgroup.controllers": "cpu", "boot/config-6.1": BUILT, "proc/cmdline": "rt_group_sched=0"}, False),
        (V2, {"group/cgroup.controllers": "cpu", "boot/config-6.1": BUILT + DISABLED}, False),
        (
            V2,
            {
                "group/cgroup.controllers": "cpu",
                "boot/config-6.1": BUILT + DISABLED,
                "proc/cmdline": "rt_group_sched=0 quiet rt_group_sched=1",
            },
            True,
        ),
    ],
)
def test_whether_a_kernel_keeps_real_time_threads_out_of_groups(
    mounts: str, files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    for name, text in {"proc/self/mountinfo": mounts.format(point="/group"), **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert realtime_groups.found_in(tmp_path, "6.1") is expected


def test_a_compressed_kernel_configuration_is_read(tmp_path: Path) -> None:
    for name in ("proc/self", "group"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(V2.format(point="/group"))
    (tmp_path / "group/cgroup.controllers").write_text("cpu\n")
    packed = tmp_path / "proc/config.gz"
    packed.write_bytes(gzip.compress(BUILT.encode()))
    assert realtime_groups.found_in(tmp_path, "6.1")
    packed.write_bytes(gzip.compress(BUILT.encode())[:-9])
    assert not realtime_groups.found_in(tmp_path, "6.1"), "cut off"


def _membership_at(path: str, mount: Mount) -> groups.Membership:
    """Return this process's membership as if it were in that group."""

    class Elsewhere(groups.Membership):
        def _paths(self, controller: str) -> Iterator[tuple[Mount, str]]:  # noqa: ARG002
            yield mount, path.lstrip("/")

    return Elsewhere(os.getpid(), [mount])


def test_kernel_threads_are_found_raised_and_put_back(scheduler: Scheduler) -> None:
    found = interrupts.find("ksoftirqd", [])
    if not found or look().nice_refused:
        pytest.skip("the kernel's threads cannot be seen or set from here")
    before = {thread: threads.read(thread) for thread in found}
    wanted = SchedulingClass(nice=max(-20, min(one.nice for one in before.values()) - 1))
    try:
        applied = scheduler.place_kernel("ksoftirqd", [], Placement(wanted))
        assert (applied.in_force, applied.threads, applied.problem) == (wanted, len(found), "")
        assert {threads.read(thread).scheduling for thread in found} == {wanted}
    finally:
        assert scheduler.restore() == []
    assert {thread: threads.read(thread) for thread in found} == before


def test_kernel_threads_are_never_lowered(scheduler: Scheduler) -> None:
    found = interrupts.find("ksoftirqd", [])
    if not found or look().nice_refused:
        pytest.skip("the kernel's threads cannot be seen or set from here")
    before = {thread: threads.read(thread) for thread in found}
    try:
        applied = scheduler.place_kernel("ksoftirqd", [], Placement(SchedulingClass(nice=19)))
        assert applied.threads == len(found)
        assert {thread: threads.read(thread) for thread in found} == before
        assert scheduler.is_restored
    finally:
        assert scheduler.restore() == []


def test_the_interrupts_of_an_interface_are_found() -> None:
    assert interrupts.numbers("lo") == set(), "it has no device"
    assert interrupts.find("irq", ["lo"]) == set()
    real = [link.name for link in Path("/sys/class/net").iterdir() if (link / "device").exists()]
    listed = Path("/proc/interrupts").read_text()
    for name in real:
        assert all(f"{number}:" in listed for number in interrupts.numbers(name)), name


def test_the_hosts_limits_are_read_without_changing_anything() -> None:
    facts = look()
    capability = int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line).split()[1], 16
    )
    assert facts.capable == bool(capability & 1 << 23)
    assert facts.limits == Limits(host.throttled(), host.lowest_interrupt_priority())
    assert threads.read(_own()).scheduling == ORDINARY, "to look changes nothing"


def _own() -> Thread:
    own = threads.thread(os.getpid())
    assert own
    return own
