"""A node's rules are in force before its network is up, and no user data leaks until its daemons run."""

import os
import re
from collections.abc import Iterator

import pytest

from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured

UNITS = REPOSITORY / "daemon" / "systemd"


@pytest.fixture(scope="module")
def boot_lab() -> Iterator[Lab]:
    """Start the line a - b - c with no daemon except the routers of ``b`` and ``c``."""
    with Lab("boot", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        for node in lab.nodes.values():
            node.assign_addresses()
        lab.start("router", nodes=[lab["b"], lab["c"]])
        yield lab


@pytest.fixture
def powered_off(boot_lab: Lab) -> Iterator[Lab]:
    """Return the lab with ``a`` as before its boot: no network, no rules and no daemon."""
    a = boot_lab["a"]
    boot_lab.end_of("a", "b").down()
    a.run("nft", "flush", "ruleset")
    yield boot_lab
    a.daemons.router.kill()


def test_the_firewall_unit_holds_user_data_back_from_the_first_moment_of_the_network(powered_off: Lab) -> None:
    a, c = powered_off["a"], powered_off["c"]
    _run_firewall_unit(a)
    _assert_only_the_rules_hold_back(powered_off, [c.announced, c.ipv4])


def test_a_node_whose_configuration_cannot_be_read_boots_closed(powered_off: Lab) -> None:
    """closed.nft knows no peers: it drops everything to an IPv6 mesh address."""
    a, c = powered_off["a"], powered_off["c"]
    whole = a.config.read_text(encoding="utf-8")
    a.config.write_text("[node\n", encoding="utf-8")
    try:
        _run_firewall_unit(a)
        assert "fc00::/7 counter" in a.run("nft", "list", "ruleset").stdout
        _assert_only_the_rules_hold_back(powered_off, [c.announced])
    finally:
        a.config.write_text(whole, encoding="utf-8")


def _assert_only_the_rules_hold_back(lab: Lab, targets: list[str]) -> None:
    """Bring the network of ``a`` up and send user data with the rules, then, as the negative case, without them."""
    a, b = lab["a"], lab["b"]
    with captured(lab, "closed") as captures:
        lab.end_of("a", "b").up()
        lab.start("router", nodes=[a])
        for target in targets:
            a.wait_for(f"route to {target}", lambda address=target: a.kernel.interfaces().get(address), 60)  # type: ignore[misc]
            assert traffic.send(_source(a, target), target) == 0, f"the kernel took user data to {target}"
    assert_nothing_clear(captures)
    a.run("nft", "flush", "ruleset")
    with b.capture("open") as seen:
        for number, target in enumerate(targets, 1):
            assert traffic.send(_source(a, target), target) == 5, "without the rules nothing else holds it back"
            wait_until("it in the clear", lambda goal=5 * number: seen.counts[Kind.CLEAR] >= goal, [seen], 60)  # type: ignore[misc]


def _source(node: Node, target: str) -> tuple[str, str]:
    return node.namespace, "::" if ":" in target else node.ipv4


def _run_firewall_unit(node: Node) -> None:
    """Run the commands of the unit in the node's namespace, with the node's configuration."""
    text = (UNITS / "meshsec-firewall.service").read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.search(r"^ExecStart=/bin/sh -ec '(.*)'$", text, re.MULTILINE)
    assert found, "the unit has another form than this test knows"
    command = found[1].replace("$$", "$").replace("%%", "%").replace("\\\\", "\\")
    command = command.replace("/usr/share/meshsec/nftables/", f"{UNITS}/nftables/")
    commands = node.directory / "bin"
    commands.mkdir(exist_ok=True)
    (commands / "meshsec").write_text(f'#!/bin/sh\nexec {programs.meshsec()} --config {node.config} "$@"\n')
    (commands / "meshsec").chmod(0o755)
    node.run("env", f"PATH={commands}:{os.environ['PATH']}", "/bin/sh", "-ec", command, timeout=60)
