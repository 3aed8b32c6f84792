"""The guides for a community network and for a rescue team lead from bare Debian to what they promise.

Every command is typed as it is printed there, on bare machines of two releases. Cables take the place of radios, so the
steps of the radio are left out; scenarios/radio has those.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.fleet import quick_start
from tests.fleet.guide import Walk
from tests.fleet.longer import longer
from tests.lab.basics.shell import run
from tests.lab.gateways import OUTSIDE4, OUTSIDE6, Uplink
from tests.lab.machines.fleet import Fleet
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.behind import Host
from tests.lab.roaming import Station
from tests.scenarios.expectations import assert_nothing_clear, captured

pytestmark = pytest.mark.timeout(1800)
RADIO = ("The radio",)


def walk(fleet: Fleet, *names: str, **replaced: dict[str, str]) -> Walk:
    """Return a walk through nodes of these names, whose mesh interfaces are the fleet's."""
    found = dict(zip(names, fleet.nodes, strict=True))
    for node in fleet.nodes:
        fleet.add_source(node)
    interfaces = {
        name: {"--interface wlan0": " ".join(f"--interface {one}" for one in fleet.nodes[node].node.interfaces)}
        for name, node in found.items()
    }
    return Walk(fleet, found, {name: {**words, **replaced.get(name, {})} for name, words in interfaces.items()})


def outside_of(fleet: Fleet, *gateways: str) -> str:
    """Give nodes a line to the outside at eth1. Return the namespace outside."""
    outside = fleet.lab.outsider("out")
    for address in (OUTSIDE4, OUTSIDE6):
        run(["ip", "-n", outside, "address", "add", address, "dev", "lo"])
    for number, name in enumerate(gateways):
        Uplink.create(fleet.lab[name], outside, number)
    return outside


def arrive(station: Station, fleet: Fleet, name: str, directory: Path) -> None:
    """Have a client come to an access node, and get its addresses there if it has none."""
    station.move(name)
    if not station.addresses(4):
        station.ask_dhcp(directory)


def test_a_community_network(tmp_path: Path) -> None:
    quick_start.skip_without_fleet()
    with Fleet(4) as fleet:
        outside = outside_of(fleet, "a", "d")
        house = Host.behind(fleet.lab["b"], fleet.lab.outsider("house"), 9)
        visitor = Station.create(fleet.lab, 1, "c")
        made = walk(fleet, "school", "farm", "library", "bakery", library={'"eth1"': '"ap1"'})
        comes = partial(arrive, visitor, fleet, "c", tmp_path)
        made.walk("community-network.md", RADIO, {"library# meshsec explain": comes})
        ways = [((visitor.namespace, visitor.addresses(4)[0]), (outside, OUTSIDE4))]
        ways += [((visitor.namespace, visitor.addresses(4)[0]), (house.namespace, house.ipv4))]
        for number, (source, target) in enumerate(ways):
            with captured(fleet.lab, f"visitor-{number}") as captures, Flow(source, target, 0.02, 7020) as flow:
                wait_arrivals(flow, 20)
            assert_nothing_clear(captures)
            assert sum(one.counts[Kind.ESP] for one in captures.values()) > 0


@longer
def test_a_rescue_team(tmp_path: Path) -> None:
    quick_start.skip_without_fleet()
    with Fleet(3) as fleet:
        outside = outside_of(fleet, "a")
        phone = Station.create(fleet.lab, 1, "a", "b")
        ports = {"truck": {'"eth2"': '"ap1"'}, "pack": {'"eth1"': '"ap1"'}}
        made = walk(fleet, "truck", "pack", "boat", **ports)
        at = {name: partial(arrive, phone, fleet, node, tmp_path) for name, node in (("truck", "a"), ("pack", "b"))}
        before = {f"{name}# meshsec clients": comes for name, comes in at.items()}
        made.walk("rescue-team.md", RADIO, before)
        source = phone.namespace, phone.addresses(4)[0]
        with Flow(source, (outside, OUTSIDE4), 0.02, 7020) as flow:
            wait_arrivals(flow, 20)
        assert "boat" not in made.say("truck", "meshsec status").replace("revoked", "")
