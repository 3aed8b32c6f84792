"""libreswan with kernel ESP, configured from the export alone, protects traffic with a node that meshsecd drives.

The relay ``r`` carries the traffic of three nodes. Two of them run libreswan without meshsecd: the one with the lowest
fingerprint, which initiates to both others, and the one with the highest, which only responds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import star
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities, libreswan
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow_without_loss

pytestmark = [
    pytest.mark.skipif(not libreswan.suites(), reason="libreswan is not unpacked: tools/setup system"),
    pytest.mark.skipif(
        capabilities.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there"
    ),
]

SUITES = list(libreswan.suites())


@dataclass
class Trio:
    """The nodes by who initiates."""

    lab: Lab
    first: Node
    """libreswan; it initiates to both others."""
    middle: Node
    """strongSwan, driven by meshsecd."""
    last: Node
    """libreswan; both others initiate to it."""

    @property
    def nodes(self) -> tuple[Node, Node, Node]:
        """Return all nodes that have IKE."""
        return self.first, self.middle, self.last


@pytest.fixture(scope="module", params=[SUITES, SUITES[::-1]][: len(SUITES)], ids="-".join)
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    """Start the mesh. ``param`` has the libreswan versions of the first and the last node."""
    options = Options(ipv4=True)
    with Lab("libreswan", star(["r", "x", "y", "z"]), options) as lab:
        lab.set_up()
        found = Trio(lab, *sorted((lab[name] for name in ("x", "y", "z")), key=lambda node: node.fingerprint))
        found.first.become(replace(options, libreswan=request.param[0]))
        found.last.become(replace(options, libreswan=request.param[-1]))
        lab.trust(*(node.name for node in found.nodes))
        lab["r"].assign_addresses()
        for node in (found.first, found.last):
            configure_by_hand(node)
        lab.start("router").start("pluto", nodes=[found.first, found.last])
        lab.start("charon", "meshsecd", nodes=[found.middle])
        yield found


def configure_by_hand(node: Node) -> None:
    """Do what docs/guide/libreswan.md tells an operator to do."""
    node.meshsec("export", "libreswan", "--into", str(node.etc / "ipsec"))
    node.run("nft", "-f", "-", stdin=node.meshsec("export", "nftables").stdout)
    node.assign_addresses()


def test_user_data_of_both_families_is_protected_between_all_three(trio: Trio) -> None:
    trio.middle.wait_protected(trio.first, 120)
    trio.middle.wait_protected(trio.last, 120)
    with captured(trio.lab, "all") as captures:
        for source, target in combinations(trio.nodes, 2):
            wait_answer(source, target.address)
            wait_answer(source, target.ipv4)
    assert_nothing_clear(captures)
    relayed = captures["r"]
    assert relayed.counts[Kind.ESP] >= 12, "six requests and six answers"
    assert relayed.counts[Kind.CLEAR] == 0, relayed.clear


@pytest.mark.parametrize("end", ["first", "last"])
def test_rekeying_loses_no_user_data_but_where_libreswan_answers(trio: Trio, end: str) -> None:
    """As responder of a rekeying libreswan uses the new CHILD_SA at once, before the initiator can have its keys."""
    here, there = trio.middle, trio.first if end == "first" else trio.last
    here.wait_protected(there, 120)
    wait_answer(here, there.address)
    rekeyings: dict[str, Callable[[], object]] = {
        "CHILD_SA by strongSwan": lambda: here.charon.rekey(there.name, "mesh"),
        "IKE_SA by strongSwan": lambda: here.charon.rekey(there.name),
        "CHILD_SA by libreswan": lambda: libreswan_rekeys(there, here, *_REKEY_CHILD),
        "IKE_SA by libreswan": lambda: libreswan_rekeys(there, here, "--rekey-ike"),
    }
    lost = {}
    for what, rekey in rekeyings.items():
        with flow_without_loss(here, there) as going, flow_without_loss(there, here) as coming:
            wait_arrivals(going)
            wait_arrivals(coming)
            before = _names(here, there, ike="IKE" in what)
            rekey()
            here.wait_for(f"{what}: another one", partial(_replaced, before, here, there), 60)
            wait_arrivals(going)
            wait_arrivals(coming)
        assert (going.result.refused, coming.result.refused) == (0, 0)
        lost[what] = going.result.lost, coming.result.lost
    print(f"lost there and back, with {there.options.libreswan}'s libreswan: {lost}")
    answered = lost.pop("CHILD_SA by strongSwan")
    assert answered[0] == 0
    assert answered[1] <= 5, "what was on its way, at 50 a second"
    assert set(lost.values()) == {(0, 0)}, lost


_REKEY_CHILD = ("--rekey-child", "--rekey-ipsec")
"""The options of libreswan 5 and 4."""


def libreswan_rekeys(node: Node, peer: Node, *options: str) -> None:
    """Rekey with the first option that the node's version knows."""
    for option in options:
        node.daemons.pluto.whack("--name", f"meshsec-{peer.name}", option)


def _names(here: Node, there: Node, *, ike: bool) -> frozenset[str]:
    """Return the SPIs of the IKE_SA or of its CHILD_SAs."""
    sas = here.charon.sas_with(there.name)
    return frozenset(spi for sa in sas for spi in (sa.spis if ike else sa.child_spis))


def _replaced(before: frozenset[str], here: Node, there: Node) -> bool:
    """Return whether one IKE_SA with CHILD_SAs for both families is there, and a part of ``before`` is gone."""
    sas = here.charon.sas_with(there.name)
    now = {spi for sa in sas for spi in (*sa.spis, *sa.child_spis)}
    return len(sas) == 1 and len(sas[0].installed) == 2 and not before <= now


def wait_answer(source: Node, address: str) -> None:
    """Wait for an answer from an address; before the SA is installed there is none."""

    def answered() -> bool:
        return source.run("ping", "-c1", "-W2", address, check=False).returncode == 0

    wait_until(
        f"{source.name}: an answer of {address}",
        answered,
        [],
        120,
        source.daemons.pluto.log if source.options.libreswan else str,
    )
