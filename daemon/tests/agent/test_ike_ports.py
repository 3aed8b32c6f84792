"""An IKE daemon without one of its ports is ended once, when the port is free and its unit starts it again."""

import asyncio
import os
import signal

import pytest

from meshsec.adapters.kernel import udp_sockets
from meshsec.agent.sides import ike_ports
from meshsec.agent.sides.ike_ports import IkePorts
from meshsec.core.values.ike_daemon import IkeDaemon
from namespaces import wait_for

PID = 4711
LINE = "0: 0:{port:04X} 0:0000 07 0:0 0:0 0 {uid} 0 9 2 0 0"


def table(*sockets: tuple[int, int]) -> str:
    return "\n".join(["header", *(LINE.format(port=port, uid=uid) for port, uid in sockets)])


GOOD, LACKING, HELD = table((500, 0), (4500, 0)), table((500, 0)), table((500, 0), (4500, 65534))


class World:
    """The tables of sockets that are seen poll by poll; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, in_unit: bool = True) -> None:
        self.tables = [GOOD]
        self.ended: list[tuple[int, int]] = []
        monkeypatch.setattr(udp_sockets, "table", lambda: self.tables.pop(0) if self.tables[1:] else self.tables[0])
        monkeypatch.setattr(udp_sockets, "is_in_unit", lambda pid, unit: in_unit and pid == PID and "meshsec" in unit)
        monkeypatch.setattr(os, "kill", lambda *what: self.ended.append(what))
        monkeypatch.setattr(ike_ports, "PAUSE", 0.001)

    def settle(self, ports: IkePorts, *tables: str, pid: int = PID) -> None:
        self.tables = list(tables)
        asyncio.run(asyncio.wait_for(ports.settle(pid), 10))


def test_a_daemon_with_its_ports_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ports = World(monkeypatch), IkePorts(IkeDaemon.STRONGSWAN.traits)
    world.settle(ports, GOOD)
    assert (world.ended, ports.problem) == ([], "")


def test_a_daemon_without_a_port_is_ended_when_the_port_is_free_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ports = World(monkeypatch), IkePorts(IkeDaemon.STRONGSWAN.traits)
    world.settle(ports, HELD, HELD, HELD, LACKING)
    assert world.ended == [(PID, signal.SIGTERM)]
    assert world.tables == [LACKING]
    world.settle(ports, GOOD)
    assert ports.problem == ""


def test_a_daemon_is_not_ended_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ports = World(monkeypatch), IkePorts(IkeDaemon.STRONGSWAN.traits)
    world.settle(ports, LACKING)
    world.settle(ports, LACKING, LACKING, LACKING, GOOD)
    assert len(world.ended) == 1
    monkeypatch.setattr(ike_ports, "LEAST_LIFE", 0.0)
    world.settle(ports, LACKING)
    assert len(world.ended) == 2


@pytest.mark.parametrize(
    ("daemon", "in_unit", "pid"),
    [(IkeDaemon.STRONGSWAN, False, PID), (IkeDaemon.STRONGSWAN, True, 0), (IkeDaemon.LIBRESWAN, True, PID)],
)
def test_a_daemon_without_a_unit_or_with_late_ports_is_left_alone(
    daemon: IkeDaemon, in_unit: bool, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, ports = World(monkeypatch, in_unit=in_unit), IkePorts(daemon.traits)
    world.settle(ports, LACKING, LACKING, GOOD, pid=pid)
    assert world.ended == []


def test_a_daemon_that_is_gone_is_no_longer_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ports = World(monkeypatch, in_unit=False), IkePorts(IkeDaemon.STRONGSWAN.traits)
    world.tables = [HELD]

    async def gone() -> None:
        watching = asyncio.create_task(ports.settle(PID))
        await asyncio.to_thread(wait_for, lambda: ports.problem != "", "the first look")
        ports.gone()
        await asyncio.wait_for(watching, 10)

    asyncio.run(gone())
    assert "4500 by user 65534" in ports.problem
