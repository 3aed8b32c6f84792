"""``meshsec air`` shows the exchanges of real radios, live, and knows whose they are."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from children import child
from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.lab import Lab
from tests.lab.net.topology import full
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema
from tests.lab.radio import medium
from tests.scenarios.expectations import flow


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Node, Node, medium.Air]]:
    """Start two nodes that trust and hear each other."""
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    air = medium.Air()
    with Lab("air", full(["a", "b"]), medium=air) as lab:
        lab.set_up().trust_all().start()
        a, b = lab["a"], lab["b"]
        a.wait_protected(b)
        b.wait_protected(a)
        yield a, b, air


@pytest.fixture
def monitor(pair: tuple[Node, Node, medium.Air]) -> Iterator[str]:
    """Make the monitor interface with the commands that meshsec prints, and remove it."""
    a, _, _ = pair
    refused = a.meshsec("air", "mesh0", check=False)
    assert refused.returncode == 1
    assert "mesh0: is not in monitor mode (mesh point)" in refused.stderr
    add, up, show, delete = (line.split() for line in refused.stderr.splitlines()[-4:])
    assert show == ["meshsec", "air", "mon0"]
    a.run(*add)
    a.run("sysctl", "-q", "-w", "net.ipv6.conf.mon0.disable_ipv6=1")
    a.run(*up)
    yield "mon0"
    a.run(*delete, check=False)


def _meshsec(node: Node, *arguments: str) -> list[str]:
    return [
        "ip",
        "netns",
        "exec",
        node.namespace,
        "env",
        "--default-signal=INT",
        programs.meshsec(),
        "--config",
        str(node.config),
        *arguments,
    ]


def _read(text: str) -> Any:
    document = json.loads(text)
    schema("meshsec-air-1").validate(document)
    return document


def test_exchanges_have_the_names_of_peers_and_the_fate_of_frames(
    pair: tuple[Node, Node, medium.Air], monitor: str
) -> None:
    a, b, air = pair
    with flow(a, b) as running:
        wait_arrivals(running)
        seconds = f"{patient(3.0):g}"
        document = _read(a.meshsec("air", monitor, "--seconds", seconds, "--exchanges", "--json").stdout)
    assert (document["interface"], document["cut"], document["lost"]) == (monitor, None, 0)
    named = {one["name"]: one for one in document["neighbours"]}
    assert named[a.name]["address"] == air.radios["a"].address
    assert named[b.name]["address"] == air.radios["b"].address
    assert named[a.name]["unanswered"] == 0, "the radio knows the fate of what it sends"
    to_b = [one for one in document["exchanges"] if one["receiver"] == air.radios["b"].address and one["octets"] > 100]
    assert len(to_b) >= 50, "the flow has 50 datagrams a second"
    assert {one["answered"] for one in to_b} == {True}
    timed = [one for one in document["exchanges"] if one["transmitter"] == air.radios["b"].address]
    assert {one["clock"] for one in timed} == {"radio"}, "what comes in has the radio's time"


def test_what_nobody_hears_is_not_answered(pair: tuple[Node, Node, medium.Air], monitor: str) -> None:
    """The negative case of the one above: b moves out of reach while a still sends to it."""
    a, b, air = pair
    argv = _meshsec(a, "air", monitor, "--exchanges")
    with flow(a, b) as running, child(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as shown:
        wait_arrivals(running)
        assert shown.stdout is not None
        to_b = (line for line in shown.stdout if line.split()[1:3] == [a.name, b.name])
        assert next(to_b).endswith(" data\n")
        air.links[frozenset("ab")].cut()
        lost = next(line for line in to_b if "no ack" in line)
        air.links[frozenset("ab")].fix()
        shown.send_signal(signal.SIGINT)
        rest = shown.stdout.read()
    assert lost.endswith(" data, no ack\n")
    assert shown.returncode == 0
    assert "NEIGHBOUR" in rest, "it sums up when it is interrupted"


def test_a_stream_of_tcpdump_is_read_without_any_privilege(pair: tuple[Node, Node, medium.Air], monitor: str) -> None:
    a, _, _ = pair
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*drop, programs.meshsec(), "air", "--read", "-", "--json"]
    listen = ["tcpdump", "-i", monitor, "-c", "3", "--immediate-mode", "-U", "-w", "-"]
    with child(subprocess.Popen(["ip", "netns", "exec", a.namespace, *listen], stdout=subprocess.PIPE)) as source:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, stdin=source.stdout, capture_output=True, text=True, timeout=patient(60), check=True,
            env=environment,
        )  # fmt: skip
    assert _read(done.stdout)["frames"] == 3


def test_an_interface_that_goes_meanwhile_leaves_what_was_seen(
    pair: tuple[Node, Node, medium.Air], monitor: str
) -> None:
    a, _, _ = pair
    with child(
        subprocess.Popen(
            _meshsec(a, "air", monitor, "--exchanges"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        first = running.stdout.readline()
        a.run("iw", "dev", monitor, "del")
        rest = running.stdout.read()
    assert first.split()[0].lstrip("-").isdigit(), first
    assert running.returncode == 3
    assert "Only a part: mon0: the interface is down or gone" in rest
    assert "NEIGHBOUR" in rest
