"""The client of pluto against two real ones of libreswan 4.10 in network namespaces.

They authenticate each other. Where the kernel has no ESP it refuses the CHILD_SAs that follow, and the client reports
that failure; tests/interop shows installed CHILD_SAs on a kernel with ESP.
"""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_network
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyroute2 import netns

from meshsec.adapters.ike import pluto as module
from meshsec.adapters.ike import whack
from meshsec.adapters.ike.pluto import Pluto
from meshsec.adapters.kernel import xfrm
from meshsec.core.ike import drift
from meshsec.core.ike.drift import Wanted
from meshsec.core.ike.port import CommandError, DaemonFacts, IkeError, IkeEvent, SaChanged
from meshsec.core.values.model import Authentication, ChildSpec, ConnectionSpec
from meshsec.core.values.sa_states import IkeSaState
from namespaces import ip, needs_root, wait_for

EXECUTABLES = Path(__file__).parents[3] / "build/libreswan/usr/libexec/ipsec"
NOTIFY, COOKIE, NO_PROPOSAL_CHOSEN = 41, 16390, 14
"""Payload type and notify message types of RFC 7296."""
SECRET, OTHER_SECRET = b"s" * 32, b"o" * 32
T = TypeVar("T")

pytestmark = [
    pytest.mark.thorough,
    needs_root,
    pytest.mark.skipif(not (EXECUTABLES / "whack").exists(), reason="libreswan is not unpacked: tools/setup system"),
]

CONFIG = """\
config setup
	nssdir={directory}/nss
	dumpdir={directory}
	secretsfile={directory}/ipsec.secrets
	uniqueids=no"""
SHIPPED = Path(__file__).parents[2] / "systemd/pluto/ipsec.conf"
"""The shipped configuration, whose limits against floods are used here too."""
IN_PLACE = 'mount -t tmpfs none /usr/libexec; mkdir /usr/libexec/ipsec; mount --bind "$0" /usr/libexec/ipsec; exec "$@"'
"""Bind mounts, because pluto starts programs of its package by their paths."""


@dataclass
class Node:
    """A node with a pluto that tests can kill and start again."""

    number: int
    namespace: str
    directory: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def address(self) -> IPv6Address:
        return IPv6Address(f"fc00::{self.number}")

    @property
    def control(self) -> Path:
        return self.directory / "run/pluto.ctl"

    def prepare(self) -> None:
        for name in ("nss", "run"):
            (self.directory / name).mkdir()
        subprocess.run(["certutil", "-N", "-d", f"sql:{self.directory}/nss", "--empty-password"], check=True)
        floods = [line for line in SHIPPED.read_text().splitlines() if line.startswith(("\tddos-", "\tmax-"))]
        (self.directory / "ipsec.conf").write_text("\n".join([CONFIG.format(directory=self.directory), *floods, ""]))
        (self.directory / "ipsec.secrets").write_text(f"include {self.directory}/run/*.secrets\n")

    def start(self) -> None:
        self.control.unlink(missing_ok=True)
        pluto = [str(EXECUTABLES / "pluto"), "--nofork", "--stderrlog", "--rundir", str(self.directory / "run")]
        command = ["ip", "netns", "exec", self.namespace, "sh", "-c", IN_PLACE, str(EXECUTABLES), *pluto]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(self.directory / "ipsec.conf")], stdout=log, stderr=log
            )
        wait_for(lambda: "adding UDP interface mesh0" in self.log(), f"pluto of {self.name} to listen")

    def asks(self, times: int, target: "Node") -> list[int]:
        """Send first messages of so many IKE_SAs and nothing after; return the notify types of the answers."""
        netns.pushns(self.namespace)
        try:
            asking = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        finally:
            netns.popns()
        with asking:
            asking.bind((str(self.address), 0))
            asking.settimeout(20)
            asking.connect((str(target.address), 500))
            return [_answer(asking) for _ in range(times)]

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send pluto a signal, and wait for its end after SIGKILL."""
        assert self.process
        self.process.send_signal(number)
        if number is signal.SIGKILL:
            self.process.wait()
            (self.directory / "log").unlink()

    def towards(self, peer: "Node", **changes: object) -> ConnectionSpec:
        """Return the connection to a peer with both CHILD_SAs; ``changes`` replace fields."""
        six, four = [
            [(ip_network(prefix.format(node.number)),) for node in (self, peer)]
            for prefix in ("fc00::{}", "10.77.0.{}")
        ]
        esp = ("aes256gcm16-x25519",)
        values: dict[str, object] = {
            "name": peer.name,
            "local_address": self.address,
            "remote_address": peer.address,
            "local_id": self.address,
            "remote_id": peer.address,
            "local_public_key": b"",
            "remote_public_key": b"",
            "ike_proposals": ("aes256gcm16-prfsha256-x25519",),
            "children": (
                ChildSpec("mesh", "transport", six[0], six[1], esp),
                ChildSpec("mesh4", "tunnel", four[0], four[1], esp),
            ),
            "encapsulate": False,
            "ike_rekey_time": 14400,
            "child_rekey_time": 3600,
            "authentication": Authentication.SECRET,
        }
        return ConnectionSpec(**(values | changes))  # type: ignore[arg-type]


def _answer(asking: socket.socket) -> int:
    """Return the notify type of the answer to a first message; 0 when the negotiation goes on."""
    asking.send(first_message())
    answer = asking.recv(4096)
    return int.from_bytes(answer[34:36]) if answer[16] == NOTIFY else 0


def first_message() -> bytes:
    """Return an IKE_SA_INIT request (RFC 7296, section 1.2): AES-GCM-256, HMAC-SHA2-256, X25519, a random key."""
    transforms = bytes.fromhex("0300000c01000014800e01000300000802000005000000080400001f")
    proposal = struct.pack("!BBHBBBB", 0, 0, 8 + len(transforms), 1, 1, 0, 3) + transforms
    offer = struct.pack("!BBH", 34, 0, 4 + len(proposal)) + proposal
    exchange = struct.pack("!BBHHH", 40, 0, 40, 31, 0) + os.urandom(32)
    nonce = struct.pack("!BBH", 0, 0, 36) + os.urandom(32)
    body = offer + exchange + nonce
    return os.urandom(8) + bytes(8) + struct.pack("!BBBBII", 33, 0x20, 34, 8, 0, 28 + len(body)) + body


@pytest.fixture
def pair(new_namespace: Callable[[], str]) -> Iterator[tuple[Node, Node]]:
    """Give two nodes on one link, each with a running pluto."""
    with tempfile.TemporaryDirectory(prefix="meshsec-") as directory:
        nodes = []
        for number in (1, 2):
            (own := Path(directory) / str(number)).mkdir()
            nodes.append(Node(number, new_namespace(), own))
        one, other = nodes
        ip("-n", one.namespace, "link", "add", "mesh0", "type", "veth", "peer", "mesh0", "netns", other.namespace)
        try:
            for node, peer in ((one, other), (other, one)):
                space = node.namespace
                ip("-n", space, "link", "set", "mesh0", "up")
                ip("-n", space, "address", "add", f"{node.address}/128", "dev", "mesh0", "nodad")
                ip("-n", space, "address", "add", f"10.77.0.{node.number}/32", "dev", "mesh0")
                ip("-n", space, "route", "add", f"{peer.address}/128", "dev", "mesh0")
                node.prepare()
                node.start()
            yield one, other
        finally:
            for node in nodes:
                if node.process and node.process.poll() is None:
                    node.kill()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands a minute, because a pluto on a busy machine answers late."""
    monkeypatch.setattr(whack, "COMMAND_TIMEOUT", 60.0)


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        try:
            async with asyncio.timeout(150):
                return await work()
        finally:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    return asyncio.run(bounded())


def client(node: Node) -> Pluto:
    return Pluto(node.control, time.monotonic, xfrm.packets, EXECUTABLES)


class Watcher:
    """A client whose events can be awaited."""

    def __init__(self, node: Node) -> None:
        self.pluto = client(node)
        self.ups: list[DaemonFacts] = []
        self.downs: list[str] = []
        self.events: list[IkeEvent] = []
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self.pluto.run(self._up, self._event, self._down))

    def _up(self, facts: DaemonFacts) -> None:
        self.ups.append(facts)
        self._news.set()

    def _down(self, reason: str) -> None:
        self.downs.append(reason)
        self._news.set()

    def _event(self, event: IkeEvent) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, so: Callable[["Watcher"], Any]) -> None:
        while not so(self):
            self._news.clear()
            await self._news.wait()


async def introduce(pair: tuple[Node, Node], secret: bytes = SECRET) -> tuple[Pluto, Pluto]:
    """Configure each node with the other; the second with ``secret``."""
    one, other = pair
    clients = client(one), client(other)
    await clients[0].load_connection(one.towards(other), SECRET)
    await clients[1].load_connection(other.towards(one), secret)
    return clients


def test_it_reports_name_and_version(pair: tuple[Node, Node]) -> None:
    facts = run(client(pair[0]).facts)
    assert pair[0].process
    assert facts.identity.pid == pair[0].process.pid
    assert facts.version.startswith(("4.", "5."))
    assert (facts.ike_sas, facts.half_open) == (0, 0)


def test_peers_are_loaded_and_taken_away_again(pair: tuple[Node, Node]) -> None:
    async def work() -> None:
        one, _ = await introduce(pair)
        assert await one.connections() == ("node-2",)
        files = sorted(path.name for path in pair[0].control.parent.glob("*node-2*"))
        assert files == ["meshsec-node-2.mesh.conf", "meshsec-node-2.mesh4.conf", "meshsec-node-2.secrets"]
        assert {path.stat().st_mode & 0o777 for path in pair[0].control.parent.glob("*node-2*")} == {0o600}
        mesh, _ = pair[0].towards(pair[1]).children
        await one.load_connection(pair[0].towards(pair[1], children=(mesh,)), SECRET)
        assert not list(pair[0].control.parent.glob("*mesh4*"))
        await one.unload_connection("node-2")
        await one.unload_connection("nobody")
        assert await one.connections() == ()
        assert not list(pair[0].control.parent.glob("*node-2*"))

    run(work)


def written(node: Node) -> dict[str, int]:
    """Return meshsecd's files and their inodes, which show whether they were written again."""
    return {path.name: path.stat().st_ino for path in node.control.parent.glob("meshsec-*")}


def test_an_unchanged_connection_is_not_loaded_again(pair: tuple[Node, Node]) -> None:
    """An unchanged connection is not loaded again, because pluto would delete its SAs."""

    async def work() -> None:
        await introduce(pair)
        before, files = pair[0].log().count("added IKEv2 connection"), written(pair[0])
        await client(pair[0]).load_connection(pair[0].towards(pair[1]), SECRET)
        assert pair[0].log().count("added IKEv2 connection") == before
        assert written(pair[0]) == files, "there may be no room to write them once more"
        await client(pair[0]).load_connection(pair[0].towards(pair[1], child_rekey_time=1800), SECRET)
        assert pair[0].log().count("added IKEv2 connection") == before + 2

    run(work)


def test_the_pairs_secret_authenticates(pair: tuple[Node, Node]) -> None:
    """The IKE_SA is established; a CHILD_SA needs a kernel with ESP."""

    async def work() -> None:
        one, _ = await introduce(pair)
        with suppress(CommandError):
            await one.initiate("node-2", "mesh", 5)

    run(work)
    for node in pair:
        assert "established IKE SA; authenticated peer using authby=secret" in node.log()


def test_an_address_that_came_after_pluto_is_found(pair: tuple[Node, Node]) -> None:
    """The client has pluto look for addresses again, because meshsecd assigns the node's address later."""

    async def work() -> None:
        new = IPv6Address("fc00::9")
        own = pair[0].towards(pair[1], local_address=new, local_id=new)
        one = client(pair[0])
        await one.load_connection(own, SECRET)
        with pytest.raises(CommandError, match="does not know this node's address yet"):
            await one.initiate("node-2", "mesh", 60)
        ip("-n", pair[0].namespace, "address", "add", f"{new}/128", "dev", "lo", "nodad")
        pair[1].kill(signal.SIGSTOP)
        for reason in ("does not know this node's address yet", "timeout: no answer"):
            with pytest.raises(CommandError, match=reason):
                await one.initiate("node-2", "mesh", 1)

    run(work)


def test_another_secret_does_not_authenticate(pair: tuple[Node, Node]) -> None:
    async def work() -> None:
        one, _ = await introduce(pair, OTHER_SECRET)
        with pytest.raises(CommandError, match="AUTHENTICATION_FAILED: sent by the peer"):
            await one.initiate("node-2", "mesh", 60)
        assert await one.ike_sas() == {}

    run(work)


def test_a_secrets_file_that_pluto_does_not_read_is_named(pair: tuple[Node, Node]) -> None:
    (pair[0].directory / "ipsec.secrets").write_text("")
    with pytest.raises(CommandError, match="its secretsfile= must include"):
        run(lambda: client(pair[0]).load_connection(pair[0].towards(pair[1]), SECRET))


def test_a_peer_without_a_secret_is_refused(pair: tuple[Node, Node]) -> None:
    with pytest.raises(CommandError, match="by the pair's secret alone"):
        run(lambda: client(pair[0]).load_connection(pair[0].towards(pair[1])))


def test_an_attempt_that_is_not_answered_ends_in_time(pair: tuple[Node, Node]) -> None:
    async def work() -> None:
        one, _ = await introduce(pair)
        pair[1].kill(signal.SIGSTOP)
        with pytest.raises(CommandError, match="timeout: no answer within 1 s"):
            await one.initiate("node-2", "mesh", 1)
        assert await one.ike_sas() == {}

    run(work)


def test_half_of_an_ike_sa_is_seen_and_can_be_ended(pair: tuple[Node, Node]) -> None:
    async def work() -> None:
        watcher = Watcher(pair[0])
        await watcher.until(lambda own: own.ups)
        await introduce(pair)
        pair[1].kill(signal.SIGSTOP)
        attempt = asyncio.create_task(watcher.pluto.initiate("node-2", "mesh", 60))
        await watcher.until(lambda own: own.events)
        ((half,),) = (await watcher.pluto.ike_sas()).values()
        assert (half.peer, half.state, half.initiator) == ("node-2", IkeSaState.CONNECTING, True)
        assert (await watcher.pluto.facts()).half_open == 1
        await watcher.pluto.terminate(half.unique_id)
        await watcher.until(lambda own: len(own.events) > 1)
        assert watcher.events[-1] == SaChanged("node-2", "child-updown", up=False)
        with pytest.raises(CommandError):
            await attempt
        await watcher.pluto.terminate(half.unique_id)

    run(work)


def test_a_killed_pluto_is_down_and_its_successor_is_found(pair: tuple[Node, Node]) -> None:
    async def work() -> None:
        watcher = Watcher(pair[0])
        await watcher.until(lambda own: own.ups)
        await watcher.pluto.load_connection(pair[0].towards(pair[1]), SECRET)
        pair[0].kill()
        await watcher.until(lambda own: own.downs and own.pluto.is_gone)
        pair[0].start()
        await watcher.until(lambda own: len(own.ups) == 2)
        assert watcher.ups[0].identity != watcher.ups[1].identity
        assert not watcher.pluto.is_gone
        assert await watcher.pluto.connections() == ()
        assert not list(pair[0].control.parent.glob("*node-2*"))
        await watcher.pluto.load_connection(pair[0].towards(pair[1]), SECRET)
        assert await watcher.pluto.connections() == ("node-2",)

    run(work)


def test_a_pluto_that_restarted_between_two_polls_is_found_again(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_AT_REST", 3.0)

    async def work() -> None:
        watcher = Watcher(pair[0])
        await watcher.until(lambda own: own.ups)
        pair[0].kill()
        pair[0].start()
        await watcher.until(lambda own: len(own.ups) == 2)
        assert watcher.ups[0].identity != watcher.ups[1].identity

    run(work)


def test_a_pluto_that_hangs_is_noticed(pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pluto that hangs is down but not gone, because its unit would not start it again."""

    async def work() -> None:
        watcher = Watcher(pair[0])
        await watcher.until(lambda own: own.ups)
        monkeypatch.setattr(whack, "COMMAND_TIMEOUT", 0.2)
        pair[0].kill(signal.SIGSTOP)
        await watcher.until(lambda own: own.downs)
        assert "does not answer in time" in watcher.downs[0]
        assert not watcher.pluto.is_gone
        with pytest.raises(IkeError, match="does not answer in time"):
            await watcher.pluto.facts()
        monkeypatch.setattr(whack, "COMMAND_TIMEOUT", 60.0)
        pair[0].kill(signal.SIGCONT)
        await watcher.until(lambda own: len(own.ups) == 2)
        assert watcher.ups[0].identity == watcher.ups[1].identity

    run(work)


def test_without_libreswan_the_daemon_is_gone(tmp_path: Path) -> None:
    async def work() -> None:
        pluto = Pluto(tmp_path / "pluto.ctl", time.monotonic, xfrm.packets, tmp_path)
        with pytest.raises(IkeError):
            await pluto.facts()
        assert pluto.is_gone

    run(work)


def test_endless_output_of_a_program_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whack, "MAX_OUTPUT", 100_000)
    (tmp_path / "pluto.ctl").touch()
    (tmp_path / "pluto.pid").write_text(str(os.getpid()))
    (tmp_path / "whack").write_text("#!/bin/sh\nexec yes 'a line'\n")
    (tmp_path / "whack").chmod(0o755)
    with pytest.raises(IkeError, match="more than 100000 octets"):
        run(Pluto(tmp_path / "pluto.ctl", time.monotonic, xfrm.packets, tmp_path).facts)


def test_its_configuration_is_the_one_it_was_given(pair: tuple[Node, Node]) -> None:
    """Pluto's configuration shows no drift until another program changes it."""

    async def told(node: Node, wanted: Wanted) -> list[str]:
        pluto = client(node)
        configured, credentials = await pluto.configured(), await pluto.credentials()
        found = (*drift.connections(wanted, configured), *drift.credentials(wanted, credentials))
        return sorted(f"{one.what}: {one.is_}" for one in found)

    async def work() -> None:
        one, other = pair
        await introduce(pair)
        spec = one.towards(other)
        wanted = Wanted({spec.name: spec}, {spec.name: "boat"}, (b"own",))
        assert await told(one, wanted) == []
        assert await told(one, replace(wanted, connections={})) == [
            "connection node-2: with fc00::2",
            "secret node-2: loaded",
        ]
        longer = replace(spec, ike_rekey_time=spec.ike_rekey_time + 1)
        assert await told(one, replace(wanted, connections={spec.name: longer})) == ["ike rekey time: 14400"]
        command = "--ctlsocket", str(one.control), "--delete", "--name", "meshsec-node-2.mesh4"
        process = await asyncio.create_subprocess_exec(str(EXECUTABLES / "whack"), *command)
        assert await process.wait() == 0
        assert await told(one, wanted) == ["CHILD_SA mesh4: none"]

    run(work)


def test_a_flood_of_requests_makes_pluto_ask_for_cookies(pair: tuple[Node, Node]) -> None:
    """With many half-open IKE_SAs pluto asks for cookies (RFC 7296, section 2.6), and a peer still gets in."""
    one, other = pair

    async def work() -> tuple[list[int], str]:
        _, peer = await introduce(pair)
        told = other.asks(40, one)
        with suppress(CommandError):
            await peer.initiate("node-1", "mesh", 20)
        return told, other.log()

    told, log = run(work)
    assert told[:20] == [0] * 20
    assert told[-5:] == [COOKIE] * 5
    assert "authenticated peer using authby=secret" in log


def test_a_stranger_is_refused_and_leaves_nothing_behind(pair: tuple[Node, Node]) -> None:
    one, other = pair
    assert other.asks(40, one) == [NO_PROPOSAL_CHOSEN] * 40
    assert run(client(one).facts).half_open == 0
