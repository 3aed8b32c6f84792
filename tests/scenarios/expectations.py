"""Observations and expectations that several scenarios share."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow
from tests.lab.node.node import Node
from tests.lab.observe.capture import Capture


@contextmanager
def captured(lab: Lab, label: str) -> Iterator[dict[str, Capture]]:
    """Capture at all mesh interfaces of all nodes; yield the captures by node."""
    with ExitStack() as stack:
        yield {node.name: stack.enter_context(node.capture(label)) for node in lab.nodes.values()}


def assert_nothing_clear(captures: dict[str, Capture]) -> None:
    """Assert that no node of the mesh put readable user data on a link, and that the captures missed no packet."""
    for name, seen in captures.items():
        assert seen.lost == 0, f"the capture at {name} lost {seen.lost} packets: it proves nothing"
        assert seen.sent[Kind.CLEAR] == 0, f"in the clear at {name}: {seen.clear}"


def flow(source: Node, target: Node, interval: float = 0.02) -> Flow:
    """Return a steady flow of user data between the addresses that applications use."""
    return Flow((source.namespace, source.address), (target.namespace, target.address), interval)


def flow_without_loss(source: Node, target: Node) -> Flow:
    """Return a flow that must arrive completely. It waits for late datagrams, because a busy machine loses none."""
    running = flow(source, target)
    running.grace = 30.0
    return running


def spis(first: Node, second: Node) -> frozenset[str]:
    """Return the SPIs of the CHILD_SAs between two nodes, once both ends agree on them."""

    def seen() -> list[frozenset[str]]:
        ends = ((first, second), (second, first))
        return [
            frozenset(spi for sa in node.charon.sas_with(peer.name) for spi in sa.child_spis) for node, peer in ends
        ]

    def agreed() -> frozenset[str] | None:
        here, there = seen()
        return here if here == there else None

    return wait_until(f"{first.name} and {second.name} agree on their CHILD_SAs", agreed, [], 60, last=seen)


def ipsec_errors(node: Node) -> Counter[str]:
    """Return the packets that the kernel's IPsec has dropped on a node, by reason; empty where it has no IPsec."""
    listing = node.run("cat", "/proc/net/xfrm_stat", check=False).stdout
    return Counter({name: int(count) for name, count in (line.split() for line in listing.splitlines())})


def drift(node: Node, *arguments: str, code: int | None = None) -> dict[str, Any]:
    """Return what ``meshsec drift`` reports, and check that its exit code agrees."""
    result = node.meshsec("drift", "--json", *arguments, check=False)
    assert result.stdout, result.stderr
    view: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (code or (3 if view["differences"] or view["unexamined"] else 0)), result.stderr
    return view


def differences(node: Node) -> set[tuple[str, str | None]]:
    """Return where ``meshsec drift`` sees differences, and the peers concerned."""
    return {(one["where"], one["peer"]) for one in drift(node)["differences"]}


def assert_no_drift(node: Node) -> None:
    """Assert that what runs on the node is what its policy says."""
    view = drift(node)
    assert not view["differences"], f"{node.name}: {view['differences']}"
    assert not view["unexamined"], f"{node.name}: {view['unexamined']}"


def wait_no_drift(node: Node) -> None:
    """Wait until what runs on the node is what its policy says."""
    node.wait_for("no drift", partial(_is_without_drift, node), 120)


def _is_without_drift(node: Node) -> bool:
    view = drift(node)
    return not view["differences"] and not view["unexamined"]


def restart_for_keys(node: Node) -> None:
    """Do what a change of the keys needs: restart meshsecd and the signer, and reload the router."""
    for daemon in filter(None, (node.daemons.agent, node.daemons.get("signer"))):
        daemon.stop()
        daemon.start()
        daemon.wait_ready()
    (node.etc / "olsrv2d.conf").write_text(node.meshsec("export", "olsrv2d").stdout, encoding="utf-8")
    node.daemons.router.send_signal(signal.SIGHUP)


def states(node: Node) -> dict[str, str]:
    """Return the states of all channels, by the name that people see."""
    return {peer["name"]: peer["state"] for peer in node.control.ask("status").get("peers", [])}
