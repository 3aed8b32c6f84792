"""User data of two peers in an open mesh stays secret while an attacker ends the peering of their radios again and
again."""

import time
from collections.abc import Iterator

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.forge import wireless
from tests.lab.forge.wireless import Ear, Frames, Name
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import full
from tests.lab.net.traffic import wait_arrivals
from tests.lab.radio import medium
from tests.scenarios.expectations import assert_nothing_clear, flow, spis

ATTACK = 10.0
AGAIN = 60.0
"""Seconds until the peers reach each other again."""


@pytest.fixture
def attacked() -> Iterator[tuple[Lab, medium.Air, Ear]]:
    """Start a and c, which trust and hear each other; m is in no mesh."""
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    air = medium.Air()
    with Lab("radio-attack", full(["a", "c", "m"]), medium=air) as lab, wireless.stranger_of(air.radios["m"]) as ear:
        a, c = lab["a"], lab["c"]
        for node in (a, c):
            node.set_up(lab.options)
        lab.trust("a", "c").start(nodes=[a, c])
        for node, peer in ((a, c), (c, a)):
            node.wait_protected(peer, AGAIN)
        yield lab, air, ear


def test_nothing_leaves_in_the_clear_while_the_peering_is_ended_and_data_flows_again(
    attacked: tuple[Lab, medium.Air, Ear],
) -> None:
    lab, air, m = attacked
    a, c = lab["a"], lab["c"]
    first, second = air.radios["a"], air.radios["c"]
    name = Name.of(first.address, second.address)
    frames = [forge for one in (name, name.turned) for forge in (wireless.deauthentication(one), closing(one))]
    before, parted = spis(a, c), 0
    with (
        a.capture("attack-a") as at_a,
        c.capture("attack-c") as at_c,
        lab["m"].capture("air", [medium.MONITOR]) as seen,
        flow(a, c) as running,
    ):
        wait_arrivals(running)
        over = time.monotonic() + ATTACK

        def ended() -> bool:
            nonlocal parted
            m.send(*frames)
            parted += second.address not in first.peers()
            return time.monotonic() > over

        wait_until("the end of the attack", ended, [Frames(m)], ATTACK + AGAIN)
        wait_until("neighbours", lambda: second.address in first.peers(), [Frames(m)], AGAIN)
        wait_arrivals(running, 50, AGAIN)
    assert_nothing_clear({"a": at_a, "c": at_c})
    assert seen.counts[Kind.CLEAR] == 0, f"in the clear on the air: {seen.clear}"
    assert seen.counts[Kind.ESP] >= 50, "the attacker's radio did not hear the data: this proves nothing"
    assert parted, "the attack had no effect: this proves nothing"
    print(
        f"parted {parted} times; {running.summary()}; the SA {'stayed' if spis(a, c) == before else 'was made again'}"
    )


def closing(name: Name) -> bytes:
    return wireless.close(name, medium.FAST.mesh_id)
