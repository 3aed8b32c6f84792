"""Levels of authentication between two releases: a booted Debian 13 with its strongSwan, and this machine's."""

from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab
from tests.lab.machines import booted
from tests.lab.machines.nspawn import Machine
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

SECRET, OTHER = "5a" * 32, "a5" * 32
STRONG = "ECP_384"
"""The key exchange of the profile's strongest level, as charon names it."""

pytestmark = pytest.mark.timeout(600, func_only=True)


class Releases:
    """Node a, which is booted, and node b, each with its release's strongSwan."""

    def __init__(self, lab: Lab, machine: Machine) -> None:
        self.lab = lab
        self.a, self.b = lab["a"], lab["b"]
        self._machine = machine

    def meshsec(self, node: Node, *words: str) -> str:
        """Type a command on a node."""
        done = self._machine.run("meshsec", *words) if node is self.a else node.meshsec(*words)
        return done.stdout

    def give(self, node: Node, secret: str) -> None:
        """Give a node its second secret in a file."""
        if node is self.a:
            self._machine.write("/root/secret", secret)
            self.meshsec(node, "secret", "set", "/root/secret")
        else:
            path = node.directory / "secret"
            path.write_text(secret, encoding="ascii")
            self.meshsec(node, "secret", "set", str(path))

    def wait_level(self, level: str) -> None:
        """Wait until this level is in force at both ends."""
        for node, peer in ((self.a, self.b), (self.b, self.a)):
            node.wait_for(f"the level {level}", lambda n=node, p=peer: _in_force(n, p) == level, 60)  # type: ignore[misc]


def _in_force(node: Node, peer: Node) -> str | None:
    status = node.control.peer(peer.name)
    level: str | None = status["level"]["in_force"] if status["state"] == "protected" else None
    return level


@pytest.fixture
def releases() -> Iterator[Releases]:
    """Yield both with an SA by the key alone; each has got the same second secret since."""
    with booted.pair("levels-releases", "levels") as (lab, machine):
        made = Releases(lab, machine)
        made.wait_level("card")
        for node in (made.a, made.b):
            made.give(node, SECRET)
        yield made


@pytest.mark.parametrize("told", ["a", "b"])
def test_each_release_raises_the_level_while_user_data_flows(releases: Releases, told: str) -> None:
    """The end that is told of the threat begins the second SA."""
    a, b = releases.a, releases.b
    with captured(releases.lab, "levels") as captures, flow(a, b) as running:
        wait_arrivals(running)
        releases.meshsec(releases.lab[told], "threat", "high")
        releases.wait_level("strong")
        wait_arrivals(running, 50)
        result = running.end()
    assert result.lost <= 2, result
    assert_nothing_clear(captures)
    for node, peer in ((a, b), (b, a)):
        assert STRONG in node.control.peer(peer.name)["ike_algorithms"]


def test_another_second_secret_gets_no_sa(releases: Releases) -> None:
    releases.give(releases.b, OTHER)
    releases.meshsec(releases.a, "threat", "high")
    lost = lambda: releases.a.control.peer("b")["state"] != "protected"  # noqa: E731
    releases.a.wait_for("the SA is given up", lost, 90)
    assert "second secret" in releases.meshsec(releases.a, "explain", "b")
