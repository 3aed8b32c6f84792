"""The routing daemon's side with olsrd2: it passes on what is announced and what is reached through the tunnel."""

import asyncio
from ipaddress import ip_network
from pathlib import Path

import pytest

from adapters.test_olsrd2 import Telnet, recordings
from meshsec.adapters.routing import olsrd2
from meshsec.agent.sides import routing as module
from meshsec.agent.sides.routing import Routing
from meshsec.core.config.routing_settings import AttachedNetwork, Endpoint, RoutingDaemon, RoutingSettings
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
