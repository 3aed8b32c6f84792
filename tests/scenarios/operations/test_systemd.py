"""On a Debian 13 node with systemd as process 1 the units, their drop-ins and their confinement have their effect.

The README's quick start makes the node; the other one is an ordinary node of the lab.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meshsec.adapters.scheduler import look, threads
from meshsec.core.channels.nft_rules import HELD_TABLES, TABLE
from meshsec.core.scheduling.profiles import SchedulingClass, SchedulingPolicy, weight_of
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.machines import booted, exposure
from tests.lab.machines.nspawn import Machine
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured

PROFILES = REPOSITORY / "rt/profiles"
UNITS = ("meshsec.target", "meshsec-firewall.service", "meshsec-ike.service", "meshsecd.service", "olsrv2d.service")
DAEMONS = ("meshsec-ike.service", "olsrv2d.service", "meshsecd.service")
CONFIG = "/etc/meshsec/meshsec.toml"
ROUTER_CONFIG = "/var/cache/olsrv2d/olsrv2d.toml"
IPV4 = "10.77.0.200"
OVERRIDE = "/run/systemd/system/meshsecd.service.d/99-override.conf"

ORDINARY = SchedulingClass()
CHARON = SchedulingClass(SchedulingPolicy.RR, priority=3)
POLLER = SchedulingClass(SchedulingPolicy.RR, priority=2)
"""The class of the thread that waits for charon's sockets, once meshsecd knows the thread (ADR 0035)."""
ROUTER = SchedulingClass(nice=-3)
PROFILE = """\
description = "Low classes, for all daemons and none of the kernel's threads."
[charon]
policy = "rr"
priority = 3
[olsrv2d]
nice = -3
[meshsecd]
nice = -2
"""
BASE = SchedulingClass(nice=-2)
RAISED = SchedulingClass(SchedulingPolicy.RR, priority=4)
BEHIND = SchedulingClass(SchedulingPolicy.RR, priority=3)
"""The class of the thread that waits for charon's sockets."""
GOVERNED = """\
description = "charon is raised for negotiations."
[charon]
nice = -2
[[ladder]]
policy = "rr"
priority = 4
"""
LASTING = "[scheduling.governor]\nlinger = 10.0\nbusy_limit = 1.0\n"
"""Settings that keep a raised class long enough to be seen on a slow machine, and ignore other load."""

CLOSED = "ip6 daddr fc00::/7 counter"
"""A text in the rules of closed.nft, which are loaded when a node's own rules cannot be made."""
REFUSED = "status=31/SYS"
"""What systemd reports of a process whose system call the unit's filter forbids."""
RADIO = '[radio]\nmesh_id = "rescue"\nfrequency = 2412\nsecurity = "open"\n'

START_SECONDS = 8.0
"""Seconds within which systemd must report a failed start; restarts without a configuration took 12 s and more before.
"""

pytestmark = pytest.mark.timeout(600, func_only=True)
"""The time limit excludes the fixtures, because building the guest's root takes minutes."""

needs_realtime = pytest.mark.skipif(bool(look().realtime_refused), reason="real-time classes are refused here")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Lab, Machine]]:
    """Yield node a, booted by the quick start, and b."""
    with booted.pair("systemd") as started:
        yield started


@pytest.fixture
def machine(pair: tuple[Lab, Machine]) -> Machine:
    """Return the booted node as the test before left it."""
    return pair[1]


def choose(machine: Machine, profile: str, *, drop_ins: bool = False, further: str = "") -> None:
    """Choose a scheduling profile, with or without its drop-ins, which count when the daemons start again."""
    kept = machine.run("sed", "/^\\[scheduling\\]/,$d", CONFIG).stdout
    for name, text in (("mine", PROFILE), ("governed", GOVERNED)):
        machine.write(f"/etc/meshsec/scheduling/{name}.toml", text)
    machine.write(CONFIG, f'{kept}[scheduling]\nprofile = "{profile}"\n{further}')
    machine.run("sh", "-c", f"rm -f {OVERRIDE} /etc/systemd/system/*.service.d/50-meshsec-scheduling.conf")
    if drop_ins:
        machine.run("meshsec", "export", "systemd", "--into", "/etc/systemd/system")


def restart(machine: Machine, *units: str) -> None:
    """Start the daemons again with the present drop-ins."""
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", *units)


def classes(machine: Machine, unit: str) -> set[SchedulingClass | None]:
    """Return the classes of all threads of a service."""
    return {threads.read(thread).scheduling for thread in threads.threads_of(machine.pid(unit))}


def test_the_quick_start_ends_in_a_protected_channel(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair
    lab["a"].wait_protected(lab["b"], 120)
    for unit in UNITS:
        assert machine.show(unit, "ActiveState") == {"ActiveState": "active"}, unit
    assert machine.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").stdout == ""


def test_the_confined_unit_keeps_the_names_and_doctor_says_when_it_does_not(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair

    def found() -> str:
        checks = json.loads(machine.run("meshsec", "doctor", "--json", check=False).stdout)["checks"]
        return next(f"{one['level']} {one['found']}; {one['mend']}" for one in checks if one["name"] == "names")

    def address() -> str:
        return machine.run("getent", "ahostsv6", "b.mesh", check=False).stdout.split(" ")[0]

    wait_until("b has a name", lambda: address() == lab["b"].address, (), 10)
    assert found().startswith("ok")
    machine.run("systemctl", "stop", "meshsec-names.service")
    machine.run("sed", "-i", "/b.mesh/d", "/etc/hosts")
    assert found() == "warn not in /etc/hosts: b.mesh; systemctl start meshsec-names.service"
    machine.run("systemctl", "start", "meshsec-names.service")
    wait_until("the name is back", lambda: address() == lab["b"].address, (), 10)


def test_before_init_the_target_fails_at_once_and_nothing_is_restarted(pair: tuple[Lab, Machine]) -> None:
    """It runs on the same node, with the configuration moved away."""
    _, machine = pair
    machine.run("systemctl", "stop", "meshsec.target", *DAEMONS)
    machine.run("mv", CONFIG, f"{CONFIG}.kept")
    try:
        begun = time.monotonic()
        started = machine.run("systemctl", "start", "meshsec.target", check=False)
        assert time.monotonic() - begun < START_SECONDS
        assert started.returncode != 0
        assert "Assertion failed" in started.stderr
        journal = machine.run("journalctl", "--no-pager", "--unit=meshsec.target").stdout
        for said in (machine.run("systemctl", "status", "meshsec.target", check=False).stdout, journal):
            assert "`meshsec up`" in said
        assert (
            f"AssertPathExists={CONFIG} was not met"
            in machine.run("systemctl", "status", "meshsec.target", check=False).stdout
        )
        for unit in DAEMONS:
            assert machine.show(unit, "ActiveState", "NRestarts") == {"ActiveState": "inactive", "NRestarts": "0"}, unit
    finally:
        machine.run("mv", f"{CONFIG}.kept", CONFIG)
        machine.run("systemctl", "start", "meshsec.target")


def test_a_configuration_without_a_key_fails_once_and_init_makes_the_key(pair: tuple[Lab, Machine]) -> None:
    """It runs on the same node, with its key moved away. A meshsecd that ends for another reason is started again."""
    _, machine = pair
    key = "/var/lib/meshsec/node"
    machine.run("systemctl", "stop", "meshsecd.service")
    machine.run("sh", "-c", f"for file in {key}.key {key}.pub; do mv $file $file.kept; done")
    try:
        machine.run("systemctl", "start", "meshsec.target", check=False)
        machine.run("systemctl", "start", "meshsecd.service", check=False)
        shown = machine.show("meshsecd.service", "ActiveState", "NRestarts", "ExecMainStatus")
        assert shown == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "78"}
        asked = machine.run("meshsec", "status", check=False)
        assert f"{key}.key: there is no key; `meshsec init` makes one" in asked.stderr
        machine.run("meshsec", "init")
        machine.run("systemctl", "start", "meshsec.target")
        wait_until(
            "meshsecd runs",
            lambda: machine.show("meshsecd.service", "ActiveState") == {"ActiveState": "active"},
            (),
            60,
        )
    finally:
        machine.run("systemctl", "stop", "meshsecd.service")
        machine.run("sh", "-c", f"for file in {key}.key {key}.pub; do mv $file.kept $file; done")
        machine.run("systemctl", "start", "meshsec.target")


def test_the_routers_unit_derives_its_configuration_when_meshsecd_is_reloaded(machine: Machine) -> None:
    """The router keeps its process, and what it does not understand changes nothing."""
    assert machine.run("cat", ROUTER_CONFIG).stdout == machine.run("meshsec", "export", "olsrv2d").stdout
    router = machine.pid("olsrv2d.service")
    before = machine.run("cat", CONFIG).stdout
    try:
        machine.write(CONFIG, before.replace("[routing]\n", "[routing]\nwillingness = 6\n"))
        machine.run("systemctl", "reload", "meshsecd.service")
        wait_until(
            "the router has the new willingness",
            lambda: "willingness = 6" in machine.run("cat", ROUTER_CONFIG).stdout,
            (),
            60,
        )
        machine.write(CONFIG, before.replace("[routing]\n", "[routing]\nwilling = 6\n"))
        assert machine.run("systemctl", "reload", "olsrv2d.service", check=False).returncode != 0
        assert "routing.willing: is not a known key" in machine.run("journalctl", "--unit=olsrv2d.service").stdout
        assert "willingness = 6" in machine.run("cat", ROUTER_CONFIG).stdout
        assert machine.pid("olsrv2d.service") == router
        machine.run("systemctl", "restart", "olsrv2d.service")
        assert machine.show("olsrv2d.service", "ActiveState") == {"ActiveState": "active"}
        assert "willingness = 6" in machine.run("cat", ROUTER_CONFIG).stdout, "the last good one"
    finally:
        machine.write(CONFIG, before)
        machine.run("systemctl", "reload", "olsrv2d.service")


def test_systemd_accepts_the_units_with_the_drop_ins_of_every_profile(machine: Machine) -> None:
    for profile in sorted(path.stem for path in PROFILES.glob("*.toml")):
        choose(machine, profile, drop_ins=True)
        done = machine.run("systemd-analyze", "verify", "--man=no", *UNITS, "meshsec-radio@mesh0.service", check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), profile


@needs_realtime
def test_drop_ins_give_the_classes_from_the_start_and_without_meshsecd(machine: Machine) -> None:
    choose(machine, "mine", drop_ins=True)
    machine.run("systemctl", "stop", "meshsecd")
    restart(machine, "meshsec-ike", "olsrv2d")
    properties = (
        "CPUSchedulingPolicy",
        "CPUSchedulingPriority",
        "LimitRTTIME",
        "Nice",
        "CPUWeight",
        "RestrictRealtime",
    )
    shown = machine.show("meshsec-ike", *properties)
    assert (shown["CPUSchedulingPolicy"], shown["CPUSchedulingPriority"]) == (str(os.SCHED_RR), "3")
    assert shown["LimitRTTIME"] == "5000000"
    shown = machine.show("olsrv2d", *properties)
    assert (shown["Nice"], shown["CPUWeight"]) == ("-3", str(weight_of(-3)))
    assert shown["RestrictRealtime"] == "yes", "its confinement stays"
    assert classes(machine, "meshsec-ike") == {CHARON}
    assert classes(machine, "olsrv2d") == {ROUTER}


def test_without_drop_ins_and_profile_nothing_is_raised(machine: Machine) -> None:
    """The negative case, with the same checks."""
    choose(machine, "stock")
    restart(machine, *DAEMONS)
    assert machine.show("meshsec-ike", "CPUSchedulingPolicy", "LimitRTTIME") == {
        "CPUSchedulingPolicy": str(os.SCHED_OTHER),
        "LimitRTTIME": "infinity",
    }
    assert machine.show("olsrv2d", "Nice", "CPUWeight") == {"Nice": "0", "CPUWeight": "[not set]"}
    assert [classes(machine, unit) for unit in DAEMONS] == [{ORDINARY}] * 3


@needs_realtime
def test_the_confined_meshsecd_raises_the_daemons_and_gives_back_when_it_stops(machine: Machine) -> None:
    begin_with_classes(machine)
    machine.run("systemctl", "stop", "meshsecd")
    assert_given_back(machine)


@needs_realtime
def test_what_a_killed_meshsecd_had_raised_is_given_back_by_its_unit(machine: Machine) -> None:
    begin_with_classes(machine)
    kill_for_good(machine)
    assert_given_back(machine)


@needs_realtime
def test_a_unit_that_gives_nothing_back_would_be_seen(machine: Machine) -> None:
    """The negative case: without the unit's ExecStopPost= the classes stay."""
    begin_with_classes(machine)
    kill_for_good(machine, "ExecStopPost=\n")
    assert classes(machine, "meshsec-ike") in ({CHARON}, {CHARON, POLLER})
    assert (machine.root / "run/meshsec/scheduling.json").exists()


@needs_realtime
def test_with_drop_ins_the_governor_raises_charon_for_a_negotiation_and_takes_it_back(
    pair: tuple[Lab, Machine],
) -> None:
    lab, machine = pair
    begin_governed(lab, machine)
    raise_charon(lab, machine)
    node = machine.node
    node.wait_for("charon has the class of its drop-in again", lambda: classes(machine, "meshsec-ike") == {BASE}, 120)
    decisions = node.control.ask("scheduling")["governor"]["decisions"]
    assert {(one["before"], one["class"]) for one in decisions} == {(str(BASE), str(RAISED)), (str(RAISED), str(BASE))}
    assert "negotiation with b" in decisions[0]["reason"]
    assert f"from {RAISED} to {BASE}" in machine.run("meshsec", "explain", "--scheduling").stdout


@needs_realtime
def test_what_a_killed_governor_had_raised_goes_back_to_the_class_of_the_drop_in(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair
    begin_governed(lab, machine)
    raise_charon(lab, machine)
    kill_for_good(machine)
    assert classes(machine, "meshsec-ike") == {BASE}
    assert not (machine.root / "run/meshsec/scheduling.json").exists()


def begin_governed(lab: Lab, machine: Machine) -> None:
    """Begin with a channel of both ends, and with charon in the class that systemd gave it."""
    choose(machine, "governed", drop_ins=True, further=LASTING)
    machine.run("systemctl", "stop", "meshsecd")
    restart(machine, "meshsec-ike", "olsrv2d")
    assert classes(machine, "meshsec-ike") == {BASE}
    machine.run("systemctl", "start", "meshsecd")
    a, b = machine.node, lab["b"]
    a.wait_protected(b, 120)
    a.wait_for("the governor at rest", lambda: a.control.ask("scheduling")["governor"]["mode"] == "rest", 120)
    assert classes(machine, "meshsec-ike") == {BASE}


def raise_charon(lab: Lab, machine: Machine) -> None:
    """Negotiate once more and return while charon's class is raised."""
    a, b = machine.node, lab["b"]
    a.control.ask("renegotiate", peer=b.name)
    a.wait_for("charon is raised", lambda: classes(machine, "meshsec-ike") in ({RAISED}, {RAISED, BEHIND}), 120)


def begin_with_classes(machine: Machine) -> None:
    """Begin with a meshsecd that uses the profile and has seen both daemons in the classes that systemd gave them."""
    choose(machine, "mine")
    machine.run("systemctl", "stop", "meshsecd")
    restart(machine, *(unit for unit in DAEMONS[:2] if classes(machine, unit) != {ORDINARY}), "meshsecd")
    node = machine.node

    def seen() -> bool:
        found = {one["service"]: one["in_force"] for one in node.control.ask("scheduling").get("services", [])}
        return (found.get("charon"), found.get("olsrv2d")) == (str(CHARON), str(ROUTER))

    node.wait_for("classes", seen, 120)
    assert classes(machine, "meshsec-ike") in ({CHARON}, {CHARON, POLLER})
    assert classes(machine, "olsrv2d") == {ROUTER}


def assert_given_back(machine: Machine) -> None:
    """Assert that nothing of what meshsecd did is left."""
    assert classes(machine, "meshsec-ike") == {ORDINARY}
    assert classes(machine, "olsrv2d") == {ORDINARY}
    assert not (machine.root / "run/meshsec/scheduling.json").exists()


def kill_for_good(machine: Machine, further: str = "") -> None:
    """Kill meshsecd with SIGKILL. Return when its unit is down, without the restart that would follow."""
    machine.write(OVERRIDE, f"[Service]\nRestart=no\n{further}")
    machine.run("systemctl", "daemon-reload")
    os.kill(machine.pid("meshsecd"), signal.SIGKILL)
    machine.run("systemctl", "stop", "meshsecd")  # It waits for what runs after the death.
    assert machine.show("meshsecd", "Result") == {"Result": "signal"}


def test_doctor_says_what_a_container_keeps_from_it(machine: Machine) -> None:
    choose(machine, "governor")
    restart(machine, "meshsecd")
    checks = json.loads(machine.run("meshsec", "doctor", "--json", check=False).stdout)["checks"]
    shown = [f"{one['found']}; {one['mend']}" for one in checks if one["name"] == "scheduling" and one["level"] != "ok"]
    unseen = [text for text in shown if "ksoftirqd" in text]
    assert len(unseen) == 1, shown
    assert "the kernel's threads cannot be seen from here" in unseen[0]
    assert "outside of the container" in unseen[0]
    assert not [one for one in checks if one["level"] == "fail"]


def test_with_an_overlay_its_node_runs_under_meshsecd(machine: Machine) -> None:
    """docs/reference/overlayd.md: the target starts it, and meshsecd tells it which nodes it may exchange data with."""
    before = machine.run("cat", CONFIG).stdout
    machine.write(CONFIG, f"{before}[overlay]\nenabled = true\n")
    try:
        machine.run("sh", "-c", "install -d /etc/overlayd && meshsec export overlayd >/etc/overlayd/overlayd.toml")
        machine.run("systemctl", "restart", "meshsec.target")
        assert machine.show("overlayd", "ActiveState") == {"ActiveState": "active"}
        wait_until("meshsecd works with it", lambda: overlay(machine)["up"], [], 60, last=lambda: overlay(machine))
        assert machine.run("meshsec", "mode", "overlay", "b").returncode == 0
    finally:
        machine.run("meshsec", "mode", "default", "b", check=False)
        machine.run("systemctl", "stop", "overlayd")
        machine.run("rm", "-r", "/etc/overlayd")
        machine.write(CONFIG, before)
        machine.run("systemctl", "restart", "meshsecd")


def overlay(machine: Machine) -> dict[str, object]:
    """Return what meshsecd reports of the overlay's node."""
    said = machine.run("meshsec", "mode", "--json", check=False).stdout
    return dict(json.loads(said)["overlay"]) if said else {"up": False}


@contextmanager
def boot_with_radio(machine: Machine, interface: str) -> Iterator[str]:
    """Do what a boot does with a radio enabled. Yield the radio's unit."""
    unit, before = f"meshsec-radio@{interface}", machine.run("cat", CONFIG).stdout
    machine.write(CONFIG, before + RADIO)
    machine.run("systemctl", "stop", "meshsec.target", "multi-user.target")
    machine.run("systemctl", "enable", unit)
    try:
        machine.run("systemctl", "start", "multi-user.target", timeout=240)
        yield unit
    finally:
        machine.run("systemctl", "disable", "--now", unit)
        machine.write(CONFIG, before)


def test_a_radio_without_its_adapter_waits_for_it_and_the_boot_does_not(machine: Machine) -> None:
    with boot_with_radio(machine, "wlan9") as unit:
        for started in ("meshsec.target", "olsrv2d", "meshsecd", unit):
            assert machine.show(started, "ActiveState") == {"ActiveState": "active"}, started
        node = machine.node
        node.wait_for("its status", lambda: "wlan9" in machine.show(unit, "StatusText")["StatusText"], 60)
        jobs = ("systemctl", "list-jobs", "--plain", "--no-legend")
        node.wait_for("the end of all jobs", lambda: machine.run(*jobs).stdout == "", 60)


def test_a_radio_that_cannot_be_one_says_so_and_the_boot_goes_on_without_it(machine: Machine) -> None:
    """The negative case: an interface that exists and is not wireless."""
    with boot_with_radio(machine, "lo") as unit:
        for started in ("meshsec.target", "olsrv2d", "meshsecd"):
            assert machine.show(started, "ActiveState") == {"ActiveState": "active"}, started
        assert machine.show(unit, "ActiveState")["ActiveState"] != "active"
        journal = ("journalctl", "--no-pager", "--unit", unit)
        machine.node.wait_for("its reason", lambda: "wireless" in machine.run(*journal).stdout, 60)


@pytest.mark.parametrize("unit", exposure.own_units())
def test_the_installed_units_are_confined_as_their_waivers_say(machine: Machine, unit: str) -> None:
    """Debian 13's systemd checks them here; in `make check` this machine's systemd checks the files."""
    instance = f"{unit}mesh0" if unit.endswith("@") else unit
    looked = machine.run(*exposure.LOOK, f"{instance}.service", check=False)
    reasons = exposure.reasons()
    assert exposure.differences(exposure.charged(looked.stdout), reasons[unit]) == []
    assert looked.returncode == 0


def test_no_daemon_called_what_its_unit_forbids(machine: Machine) -> None:
    """It runs after all other tests; systemd names the signal of a refused call."""
    journal = machine.run("journalctl", "--no-pager", "--output=cat").stdout
    assert "meshsec-ike.service" in journal
    assert REFUSED not in journal


def test_rules_that_cannot_be_loaded_under_their_confinement_leave_the_node_closed(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair
    override = "/run/systemd/system/meshsec-firewall.service.d/99-override.conf"
    assert CLOSED not in rules(machine)
    assert any(table in rules(machine) for table in HELD_TABLES), (
        "meshsecd's confinement does not let it hold its rules"
    )
    machine.run("systemctl", "stop", "meshsecd")  # It would put its own rules in force.
    machine.write(override, "[Service]\nSystemCallFilter=~socket\n")
    try:
        machine.run("systemctl", "daemon-reload")
        failed = machine.run("systemctl", "restart", "meshsec-firewall", check=False)
        assert failed.returncode != 0
        assert CLOSED in rules(machine)
        assert REFUSED in machine.run("journalctl", "--no-pager", "--unit", "meshsec-firewall").stdout
    finally:
        machine.run("rm", override)
        restart(machine, "meshsec-firewall", "meshsecd")
    lab["a"].wait_protected(lab["b"], 120)


def test_killed_meshsecd_and_charon_and_flushed_rules_let_nothing_out(pair: tuple[Lab, Machine]) -> None:
    """systemd keeps meshsecd's second copy of the rules until another meshsecd has its own.

    IPv4 has a route in the clear as soon as charon's route is gone (test_disturbed.py shows what leaves without rules).
    """
    lab, machine = pair
    a, b = lab["a"], lab["b"]
    machine.run("systemctl", "start", "meshsecd")  # The test before may have left it stopped.
    a.wait_protected(b, 120)
    machine.write(OVERRIDE, "[Service]\nRestartSec=infinity\n")
    machine.run("systemctl", "daemon-reload")
    (held,) = (table for table in HELD_TABLES if f"inet {table} " in rules(machine))
    with captured(lab, "flushed") as captures, Flow((a.namespace, a.ipv4), (b.namespace, b.ipv4)) as running:
        wait_arrivals(running)
        os.kill(machine.pid("meshsecd"), signal.SIGKILL)
        machine.run("systemctl", "kill", "--signal=KILL", "meshsec-ike")
        machine.run("systemctl", "stop", "meshsec-ike")
        try:
            machine.run("nft", "flush", "ruleset")
            assert f"inet {held} " in (left := rules(machine))
            assert f"inet {TABLE} " not in left
            assert b.address in left
            refused = running.result.refused
            wait_until("the kernel refuses", lambda: running.result.refused > refused + 50, [], 60, running.summary)
        finally:
            machine.run("rm", OVERRIDE)
            restart(machine, "meshsec-ike", "meshsecd")
        a.wait_protected(b, 120)
        wait_arrivals(running)
    assert_nothing_clear(captures)
    now = rules(machine)
    assert f"inet {TABLE} " in now
    assert [table for table in HELD_TABLES if f"inet {table} " in now] == [one for one in HELD_TABLES if one != held]


def rules(machine: Machine) -> str:
    """Return the rules in force."""
    return machine.run("nft", "list", "ruleset").stdout
