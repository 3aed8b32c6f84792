"""The olsrd2 adapter's announcements through a real socket: those of others as events, and this node's own."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from adapters.test_olsrd2 import DESTINATIONS, Listener, Telnet, recordings, run
from meshsec.adapters.routing import olsrd2 as module
from meshsec.adapters.routing.mapped import LocalNetwork
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    RouterDown,
    RoutesReset,
)
from meshsec.core.values.networks import Announcement
from olsrd2_program import Program

FAR = ip_address("fd77::3")
MAPPED: dict[str, object] = {
    "node": "fd77::3",
    "attached_net": "::ffff:10.1.0.0/112",
    "attached_net_src": "::/0",
    "domain_metric_out_raw": 1,
    "domain_distance": 1,
}
NETWORK = ip_network("10.1.0.0/16")
ASKED = "/olsrv2info json attached_network"
OWN = LocalNetwork(ip_network("10.9.0.0/16"), 1, 1)


def attached(*entries: dict[str, object]) -> bytes:
    return json.dumps({"attached_network": entries}).encode()


def following(scenario: Callable[[Telnet, Listener], Coroutine[Any, Any, None]], *entries: dict[str, object]) -> None:
    """Run a scenario when the adapter has reported the routes and the announcements in these entries."""

    async def begun() -> None:
        async with Telnet(recordings() | {ASKED: attached(*entries)}) as telnet:
            listener = Listener(telnet.port)
            assert isinstance(await listener.next_of_all(), RoutesReset)
            assert isinstance(await listener.next_of_all(), AnnouncementsReset)
            await scenario(telnet, listener)

    run(begun)


async def until_warned(listener: Listener, text: str) -> None:
    async with asyncio.timeout(60):
        while listener.adapter.topology.warnings != (text,):  # noqa: ASYNC110  (the adapter has no event for it)
            await asyncio.sleep(0.001)


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.02)
    monkeypatch.setattr(module, "POLL_PAUSE", 0.01)


def test_the_first_announcements_are_a_snapshot_and_later_ones_are_news(brisk: None) -> None:
    async def scenario(telnet: Telnet, listener: Listener) -> None:
        telnet.answers[ASKED] = attached(MAPPED)
        assert await listener.next_of_all() == AnnouncementSet(Announcement(NETWORK, FAR, 1, 1))
        other = {**MAPPED, "attached_net": "2001:db8:9::/48"}
        telnet.answers[ASKED] = attached(other)
        new = Announcement(ip_network("2001:db8:9::/48"), FAR, 1, 1)
        assert await listener.next_of_all() == AnnouncementSet(new), "the new one comes first"
        assert await listener.next_of_all() == AnnouncementRemoved(NETWORK, FAR)
        telnet.answers[ASKED] = attached({**other, "domain_metric_out_raw": 9})
        assert await listener.next_of_all() == AnnouncementSet(new._replace(metric=9))

    following(scenario)


def test_an_announcement_ends_with_the_route_to_its_router(brisk: None) -> None:
    async def scenario(_: Telnet, listener: Listener) -> None:
        listener.kernel.discard(DESTINATIONS[3])
        assert isinstance(await listener.next_of_all(), RoutesReset)
        assert await listener.next_of_all() == AnnouncementRemoved(NETWORK, FAR)

    following(scenario, MAPPED)


def test_a_restart_between_two_polls_is_noticed_and_begins_with_a_snapshot(brisk: None) -> None:
    async def scenario(telnet: Telnet, listener: Listener) -> None:
        telnet.program = Program()
        telnet.program.uptime = 0.5
        telnet.answers[ASKED] = attached()
        assert await listener.next_of_all() == AnnouncementsReset(())

    following(scenario, MAPPED)


def test_after_an_outage_the_announcements_begin_with_a_snapshot(brisk: None) -> None:
    async def scenario(telnet: Telnet, listener: Listener) -> None:
        routes = telnet.answers.pop("/netjsoninfo route")
        assert isinstance(await listener.next_of_all(), RouterDown)
        telnet.answers["/netjsoninfo route"] = routes
        assert isinstance(await listener.next_of_all(), RoutesReset)
        assert await listener.next_of_all() == AnnouncementsReset((Announcement(NETWORK, FAR, 1, 1),))

    following(scenario, MAPPED)


def test_announcements_that_make_no_sense_or_lack_are_reported_and_change_nothing(brisk: None) -> None:
    async def scenario(telnet: Telnet, listener: Listener) -> None:
        telnet.answers[ASKED] = attached(MAPPED, {})
        await until_warned(listener, "olsrd2 lists 1 networks that make no sense")
        telnet.answers[ASKED] = b"{}"
        await until_warned(
            listener, f"olsrd2, networks: no 'attached_network' in the answer to {ASKED!r} (2 characters)"
        )
        assert listener.events.empty()

    following(scenario, MAPPED)


def test_networks_are_announced_at_once_and_again_by_a_new_olsrd2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 60.0)

    async def until_announced(telnet: Telnet) -> None:
        async with asyncio.timeout(30):
            await telnet.program.changed.wait()
        assert {*telnet.program.announced()} == {"::ffff:10.9.0.0/112"}

    async def scenario(telnet: Telnet, listener: Listener) -> None:
        listener.adapter.announce([OWN])
        assert listener.adapter.local.lacking()
        await until_announced(telnet)
        telnet.program = Program()
        listener.adapter.poll_now()
        await until_announced(telnet)

    following(scenario)


def test_a_complaint_of_olsrd2_is_reported(brisk: None) -> None:
    async def scenario(telnet: Telnet, listener: Listener) -> None:
        telnet.program.complaint = "Missing mandatory entry\nof something"
        listener.adapter.announce([OWN])
        await until_warned(listener, "olsrd2, networks: Missing mandatory entry")

    following(scenario)
