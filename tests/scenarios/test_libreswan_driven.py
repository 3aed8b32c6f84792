"""libreswan's pluto driven by meshsecd, as charon is: `[ike] daemon = "libreswan"`.

Where the kernel has no ESP, pluto authenticates and gets no further: what meshsecd does about connections, about a
pluto that dies and one that hangs is shown anywhere, and that user data is protected in the guest.
"""

import signal
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

from tests.lab import ground, libreswan
from tests.lab.lab import Lab
from tests.lab.node import Node, Options
from tests.lab.packets import Kind
from tests.lab.topology import line, names
from tests.lab.waiting import wait_until
from tests.scenarios.expectations import assert_nothing_clear, captured

SUITES = list(libreswan.suites())
AUTHENTICATED = "established IKE SA; authenticated peer using authby=secret"

pytestmark = pytest.mark.skipif(not SUITES, reason="libreswan is not unpacked: tools/setup system")
needs_esp = pytest.mark.skipif(
    ground.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Node, Node]]:
    """Two nodes with the same libreswan that trust each other; all daemons run. The first is the one that initiates."""
    with Lab("driven", line(names(2)), Options(libreswan=SUITES[0], ipv4=True)) as lab:
        lab.set_up().trust_all().start("pluto", "router", "meshsecd")
        first, second = sorted(lab.nodes.values(), key=lambda node: node.fingerprint)
        yield first, second


def connections(node: Node) -> set[str]:
    """The names of those that pluto has."""
    lines = (line.removeprefix("000 ") for line in node.pluto.whack("--status").splitlines())
    return {line.split('"')[1] for line in lines if line.startswith('"')}


def wait_connections(node: Node, *expected: str) -> None:
    """Await that pluto has these and no others."""
    node.wait_for(f"connections {expected}", lambda: connections(node) == set(expected) or None, 120)


def both(peer: Node) -> tuple[str, str]:
    """The connections for a peer's two CHILD_SAs."""
    return f"meshsec-{peer.name}.mesh", f"meshsec-{peer.name}.mesh4"


def daemon_state(node: Node, *, up: bool) -> dict[str, Any]:
    """Await what meshsecd says of pluto."""

    def told() -> dict[str, Any] | None:
        found = node.ask("status").get("ike_daemon", {})
        return found if found.get("up") is up else None

    return node.wait_for(f"the IKE daemon {'up' if up else 'down'}", told, 120)


def test_peers_are_configured_and_authenticate_by_the_pairs_secret(pair: tuple[Node, Node]) -> None:
    """And a peer that is removed is gone, with its secret."""
    first, second = pair
    wait_connections(first, *both(second))
    wait_connections(second, *both(first))
    for node in pair:
        node.pluto.wait_said(AUTHENTICATED, 120)
    found = first.meshsec("doctor", check=False).stdout
    assert "libreswan" in found
    first.distrust(second)
    wait_connections(first)
    assert not list(first.run_directory.glob("*.secrets"))
    first.trust(second)
    wait_connections(first, *both(second))


def test_a_pluto_that_was_killed_is_configured_anew(pair: tuple[Node, Node]) -> None:
    first, second = pair
    wait_connections(first, *both(second))
    first.pluto.daemon.kill()
    daemon_state(first, up=False)
    first.pluto.daemon.start()
    daemon_state(first, up=True)
    wait_connections(first, *both(second))


def test_a_pluto_that_hangs_is_told(pair: tuple[Node, Node]) -> None:
    """The unit's watchdog acts on the same; one that goes on is met again."""
    first, _ = pair
    daemon_state(first, up=True)
    first.pluto.daemon.send_signal(signal.SIGSTOP)
    assert "does not answer in time" in daemon_state(first, up=False)["reason"]
    first.pluto.daemon.send_signal(signal.SIGCONT)
    daemon_state(first, up=True)


@needs_esp
@pytest.mark.parametrize(("one", "other"), list(product(["", *SUITES], SUITES)))
def test_user_data_passes_as_esp_alone_and_again_after_pluto_was_killed(one: str, other: str) -> None:
    """``one`` and ``other`` are Debian's suites of libreswan at the two ends; empty: strongSwan."""
    with Lab("drivenesp", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up()
        a, b, c = lab["a"], lab["b"], lab["c"]
        b.assign_addresses()
        a.become(Options(ipv4=True, libreswan=one))
        c.become(Options(ipv4=True, libreswan=other))
        a.install_card(c)
        c.install_card(a)
        lab.start("router")
        for node in (a, c):
            lab.start("pluto" if node.options.libreswan else "charon", "meshsecd", nodes=[node])
        with captured(lab, "driven") as captures:
            wait_answers(a, c)
            c.pluto.daemon.kill()
            c.pluto.daemon.start()
            wait_answers(c, a)
        assert_nothing_clear(captures)
        assert captures[b.name].counts[Kind.ESP] >= 8, "two requests and two answers, twice"


def wait_answers(source: Node, target: Node) -> None:
    """Await that meshsecd calls the channel protected, and answers by both families."""
    source.wait_state(target, "protected", 180)
    for address in (target.address, target.ipv4):
        wait_until(f"an answer of {address}", partial(_answered, source, address), [], 180, source.summary)


def _answered(source: Node, address: str) -> bool | None:
    return source.run("ping", "-c1", "-W2", address, check=False).returncode == 0 or None
