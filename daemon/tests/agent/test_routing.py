"""The routing daemon's side: what it passes on to olsrd2, and what it says of signatures of olsrv2d's."""

import asyncio
from ipaddress import ip_network
from pathlib import Path

import pytest

from adapters.test_olsrd2 import Telnet, recordings
from adapters.test_olsrv2d import HELLO, SNAPSHOT, Daemon
from core.world import card, route
from meshsec.adapters.routing import olsrd2
from meshsec.agent.sides import routing as module
from meshsec.agent.sides.routing import Routing
from meshsec.core.config.routing_settings import AttachedNetwork, Endpoint, RoutingDaemon, RoutingSettings, Signatures
from meshsec.core.values.model import Network

OWN, OTHERS = ip_network("10.9.0.0/16"), ip_network("10.1.0.0/16")


async def _no_routes() -> frozenset[Network]:
    return frozenset()


def test_olsrd2_is_told_what_to_announce_and_what_not_to_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(olsrd2, "POLL_INTERVAL", 0.02)
    monkeypatch.setattr(olsrd2, "POLL_PAUSE", 0.01)
    monkeypatch.setattr(module, "kernel_destinations", _no_routes)
    events: list[object] = []

    async def scenario() -> None:
        async with Telnet(recordings()) as telnet:
            settings = RoutingSettings(("mesh0",), RoutingDaemon.OLSRD2, telnet=Endpoint(port=telnet.port))
            side = Routing(settings, tmp_path / "signers.json", events.append)
            side.use([OTHERS])
            side.announce([AttachedNetwork(OWN, distance=3)])
            assert side.unannounced() == (), "the clients are not known yet"
            side.announce_clients(())
            assert side.unannounced() == (OWN,)
            task = asyncio.create_task(side.run())
            async with asyncio.timeout(60):
                await telnet.program.changed.wait()
                await telnet.until_asked("/olsrv2info json attached_network", 2)
            task.cancel()
            assert telnet.program.announced() == {"::ffff:10.9.0.0/112": (1, 3)}
            assert telnet.program.acl[-1] == f"-{OTHERS}"
            assert side.unannounced() == ()

    asyncio.run(scenario())
    assert events


def test_explain_hears_of_the_signatures_on_the_way_while_they_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "changes.sock"
    forged = {"counter": "forged", "count": 5, "seconds_ago": 1, "sources": [], "further_sources": 0}

    async def scenario(signatures: Signatures) -> list[str]:
        settings = RoutingSettings(("mesh0",), socket=str(path), signatures=signatures)
        side = Routing(settings, tmp_path / "signers.json", events.put_nowait)
        assert await side.sentences(card(2), route(2)) == [], "the router was not reached yet"
        async with Daemon(path, HELLO, SNAPSHOT) as daemon:
            task = asyncio.create_task(side.run())
            async with asyncio.timeout(60):
                await events.get()
                said = asyncio.create_task(side.sentences(card(2), route(2)))
                if signatures is not Signatures.OFF:
                    assert await daemon.heard.get() == {"command": "refusals"}
                    daemon.say({"type": "refusals", "refusals": [forged]})
                found = await said
            task.cancel()
        return found

    for signatures, expected in ((Signatures.PREFER, 2), (Signatures.OFF, 0)):
        events: asyncio.Queue[object] = asyncio.Queue()
        assert len(asyncio.run(scenario(signatures))) == expected
