"""overlayd alone, over UDP and Ethernet, passes user data of permitted nodes only and shows none of it on the wire."""

import itertools
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv6Address
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Neighbour, Overlayd, Secret
from tests.lab.foreign.cjdns_admin import AdminError
from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net import topology
from tests.lab.net.namespaces import within
from tests.lab.net.packets import MARK
from tests.lab.net.traffic import tcp_stream, udp_socket
from tests.lab.node import capabilities
from tests.lab.observe.capture import Capture
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

SECRET = Secret("open sesame", "ali baba")
STREAM = 16 << 20
"""Bytes: many pieces of 64 KiB."""
BURST = 2000
"""Number of datagrams: ten times what the kernel keeps for a socket."""
SHORT_QUEUE, LONG_QUEUE = 500, 4000
"""Number of pieces that may wait for the TUN device (overlayd's io/ring.rs)."""
STRANGE = 3000
"""Datagrams that no neighbour sends."""
ETH_P_IPV6 = 0x86DD
NET_ADMIN, NET_RAW = 1 << 12, 1 << 13  # linux/capability.h.
Line = list[Overlayd]


class Closed(Overlayd):
    """A node that exchanges user data with no other."""

    def _text(self) -> str:
        return super()._text().replace('permit = "anybody"', "permit = []")


@contextmanager
def line(makes: list[type[Overlayd]]) -> Iterator[Line]:
    """Start nodes in a line; each connects to the one before it."""
    with cjdns.line(makes) as found:
        routers = [router for router in found if isinstance(router, Overlayd)]
        for number, (called, caller) in enumerate(itertools.pairwise(routers), start=1):
            cjdns.connect(number, caller, called, SECRET, 1)
        cjdns.start(routers)
        yield routers


@pytest.fixture(scope="module")
def three() -> Iterator[Line]:
    """Start the line a - b - c, for tests that leave it as they found it."""
    with line([Overlayd] * 3) as routers:
        routers[0].wait_ping(routers[2])
        yield routers


def marked_ping(source: Overlayd, address: str) -> None:
    """Send five echoes whose payload is the mark."""
    source.run("ping", "-n", "-q", "-c", "5", "-i", "0.2", "-W", "10", "-p", MARK.hex(), address)


def captured(relay: Overlayd, label: str) -> Capture:
    """Capture what crosses both links of a relay."""
    return Capture(relay.namespace, ["mesh-a", "mesh-c"], relay.directory / label).start()


def shows_mark(capture: Capture) -> bool:
    """Return whether the mark can be read in the capture."""
    capture.stop()
    return any(MARK in path.read_bytes() for path in Path(capture.directory).rglob("*.pcap"))


def test_a_relay_forwards_what_it_cannot_read(three: Line) -> None:
    a, b, c = three
    capture = captured(b, "sealed")
    with OverlayControl(b.socket) as control:
        before = control.status["forwarded"]
        marked_ping(a, c.address)
        assert control.ask()["forwarded"] >= before + 2, "an echo and its answer at least"
    assert not shows_mark(capture)
    assert sum(capture.counts.values()) >= 4


def test_the_detector_sees_what_is_in_the_clear(three: Line) -> None:
    a, b, _ = three
    capture = captured(b, "clear")
    marked_ping(a, "10.78.1.2")
    assert shows_mark(capture)


def test_a_stream_arrives_whole_and_crosses_the_kernel_in_pieces(three: Line) -> None:
    a, _, c = three
    result = tcp_stream((a.namespace, a.address), (c.namespace, c.address), STREAM, 120)
    assert result.octets == STREAM
    with OverlayControl(a.socket) as control:
        tun = control.status["tun"]
    assert tun["pieces_in"] < tun["packets_in"] / 2
    assert not tun["refused"]
    assert not tun["malformed"]


def test_datagrams_of_any_length_arrive_as_they_were(three: Line) -> None:
    a, _, c = three
    lengths = [1, 39, 1000, 1256, 1257, 4000, 20_000]
    sent = [os.urandom(length) for length in lengths]
    with udp_socket(c.namespace, c.address, 7001) as target, udp_socket(a.namespace, a.address) as source:
        target.settimeout(2)
        for number, payload in enumerate(sent, start=1):
            assert any(_arrives(source, target, payload, sent[:number]) for _ in range(20)), len(payload)


def _arrives(source: socket.socket, target: socket.socket, payload: bytes, sent: list[bytes]) -> bool:
    """Send a datagram and return whether the next one received is the same. A stalled machine may lose it."""
    source.sendto(payload, (target.getsockname()[0], 7001))
    try:
        received = target.recv(1 << 16)
    except TimeoutError:
        return False
    assert received in sent
    return received == payload


def test_what_other_nodes_know_can_be_asked(three: Line) -> None:
    a, b, c = three
    near = next(peer["addr"] for peer in a.admin.call("InterfaceController_peerStats", page=0)["peers"])
    assert near.endswith(b.key)

    def tells_of_c(function: str, arguments: dict[str, str]) -> bool:
        return c.key in str(a.admin.call(f"RouterModule_{function}", **arguments))

    a.wait_ping(c)
    where = {"nodeToQuery": near, "target": c.address}
    for function, arguments in (("getPeers", {"path": near}), ("findNode", where), ("nextHop", where)):
        # An answer comes in time unless the machine stalls.
        wait_until(function, partial(tells_of_c, function, arguments), [], 60)


def test_a_traceroute_begins_at_the_router_itself_and_finds_the_links_that_it_has(three: Line) -> None:
    a, b, _ = three
    itself = "0000.0000.0000.0001"
    peers = a.admin.call("RouterModule_getPeers", path=itself)["peers"]
    assert [peer.endswith(key) for peer, key in zip(peers, (a.key, b.key), strict=True)] == [True, True]
    assert a.admin.call("RouterModule_pingNode", path=itself)["result"] == "pong"
    link = a.admin.call("NodeStore_getLink", linkNum=0)["result"]
    assert link["child"].endswith(b.key)
    assert link["parent"].endswith(a.key)
    assert a.admin.call("NodeStore_nodeForAddr")["result"]["linkCount"] == 1


def test_a_search_reports_its_answers_and_its_end(three: Line) -> None:
    a, _, c = three
    a.wait_ping(c)
    *answers, last = a.admin.stream("SearchRunner_search", 5.0, ipv6=c.address)
    assert (last["error"], last["complete"]) == ("none", 1)
    assert answers[-1]["from"].endswith(c.key)


def test_a_subscriber_hears_the_log(three: Line) -> None:
    a = three[0]
    lines = a.admin.stream("AdminLog_subscribe", level="DEBUG")
    subscribed = next(lines)
    assert subscribed["error"] == "none"
    a.admin.call("AdminLog_logMany", count=1)
    way = ".".join(a.admin.call("InterfaceController_peerStats", page=0)["peers"][0]["addr"].split(".")[1:5])
    a.admin.call("SwitchPinger_ping", path=way)
    heard = {(line["file"], line["level"], line["streamId"]) for line in islice(lines, 2)}
    assert heard == {(file, "DEBUG", subscribed["streamId"]) for file in ("server.rs", "daemon.rs")}
    assert a.admin.call("AdminLog_unsubscribe", streamId=subscribed["streamId"])["error"] == "none"
    with pytest.raises(AdminError, match="No such subscription"):
        a.admin.call("AdminLog_unsubscribe", streamId=subscribed["streamId"])


def test_octets_of_strangers_are_counted_by_cause_and_harm_nobody(three: Line) -> None:
    a, b, c = three
    with OverlayControl(a.socket) as control, udp_socket(b.namespace, "10.78.1.2") as stranger:

        def dropped() -> int:
            status = control.ask()
            malformed = sum(interface["malformed"] for interface in status["interfaces"])
            return int(malformed + sum(status["dropped"].values()))

        before, resident = dropped(), a.daemon.resident_bytes()
        for number in range(STRANGE):
            stranger.sendto(os.urandom(number % 1400), ("10.78.1.1", cjdns.PORT))
        wait_until("they are counted", lambda: dropped() >= before + STRANGE // 2, [], 30, last=control.ask)
        assert a.daemon.resident_bytes() < resident + (8 << 20)
    a.wait_ping(c)


def test_packets_of_this_machine_that_reach_nobody_are_counted_by_cause(three: Line) -> None:
    a, own, nobody = three[0], IPv6Address(three[0].address), IPv6Address("fc00::1")
    header = bytes.fromhex("60000000 0008 3b 40")
    packets = {
        "packet-malformed": header + own.packed + nobody.packed,
        "packet-address": header + own.packed + IPv6Address("fd00::1").packed + bytes(8),
        "packet-replaced": header + own.packed + nobody.packed + bytes(8),
    }
    raw = within(a.namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    with raw, OverlayControl(a.socket) as control:
        device = control.status["tun"]["name"]

        def dropped(cause: str) -> bool:
            raw.sendto(packets[cause], (device, ETH_P_IPV6))
            return control.dropped(cause) > before[cause]

        before = {cause: control.dropped(cause) for cause in (*packets, "packet-expired")}
        for cause in packets:
            wait_until(cause, partial(dropped, cause), [], 30, last=control.ask)
        late = "packet-expired"
        wait_until(late, lambda: control.dropped(late) > before[late], [], 60, last=control.ask)


def test_user_data_passes_only_where_both_ends_permit_it() -> None:
    with line([Overlayd, Closed]) as (a, closed):
        with OverlayControl(closed.socket) as control:
            a.run("ping", "-n", "-q", "-c", "5", "-i", "0.2", "-w", "20", closed.address, check=False)
            wait_until("drops are counted", lambda: control.dropped("not-permitted"), [], 30, last=control.ask)
            assert control.status["delivered"] == 0
        closed.config.write_text(closed.config.read_text().replace("permit = []", f'permit = ["{a.address}"]'))
        closed.daemon.send_signal(signal.SIGHUP)
        a.wait_ping(closed)


def test_a_wrong_password_makes_no_neighbour() -> None:
    with cjdns.line([Overlayd, Overlayd]) as found:
        a, b = (router for router in found if isinstance(router, Overlayd))
        cjdns.connect(1, b, a, SECRET, 1)
        a.plan.users = [Secret("close sesame", SECRET.login)]
        cjdns.start((a, b))
        with OverlayControl(a.socket) as control:

            def refused() -> int:
                dropped = control.ask()["dropped"]
                return sum(dropped.get(cause, 0) for cause in ("link-authentication", "link-forged"))

            wait_until("the handshake is refused", refused, [], 30, last=lambda: control.status)
            assert not control.status["peers"]


def test_a_slow_link_holds_programs_up_instead_of_dropping_their_packets() -> None:
    with line([Overlayd, Overlayd]) as (a, b), OverlayControl(a.socket) as control:
        a.wait_ping(b)
        shape = ["tc", "qdisc", "add", "dev", "mesh-b", "root", "tbf", "rate", "5mbit", "burst", "64k", "limit", "8m"]
        a.run(*shape)
        with udp_socket(a.namespace, a.address) as source:
            _offer(source, b, BURST)
        wait_until("the link is full", lambda: _interface(control)["stalls"], [], 30, last=control.ask)
        assert _interface(control)["overflow"] == 0
        assert _interface(control)["refused"] == 0


def test_the_devices_queue_is_long_while_the_processor_is_what_is_short() -> None:
    """It is not long while a link is slow: there a long queue would delay everything."""
    with line([Overlayd, Overlayd]) as (a, b), udp_socket(a.namespace, a.address) as source:
        a.wait_ping(b)
        assert _queue(a) == SHORT_QUEUE

        def lengthened() -> bool:
            # As if it waited for a processor. After a stall overlayd leaves the queue short for ten seconds.
            a.daemon.send_signal(signal.SIGSTOP)
            try:
                _offer(source, b, SHORT_QUEUE)
            finally:
                a.daemon.send_signal(signal.SIGCONT)
            return _queue(a) == LONG_QUEUE

        wait_until("the queue is long", lengthened, [], 60, last=lambda: _queue(a))
        a.run("tc", "qdisc", "add", "dev", "mesh-b", "root", "tbf", "rate", "5mbit", "burst", "64k", "limit", "8m")

        def shortened() -> bool:
            _offer(source, b, BURST)
            return _queue(a) == SHORT_QUEUE

        wait_until("the queue is short", shortened, [], 60, last=lambda: _queue(a))


def _offer(source: socket.socket, target: Overlayd, count: int) -> None:
    for _ in range(count):
        source.sendto(bytes(1200), (target.address, 7002))


def _queue(router: Overlayd) -> int:
    """Return how many pieces may wait for the TUN device."""
    with OverlayControl(router.socket) as control:
        name = control.status["tun"]["name"]
    (link,) = json.loads(router.run("ip", "-j", "link", "show", "dev", name).stdout)
    return int(link["txqlen"])


def _interface(control: OverlayControl) -> dict[str, int]:
    (interface,) = control.ask()["interfaces"]
    return dict(interface)


@contextmanager
def _by_beacons(medium: str) -> Iterator[tuple[Overlayd, Overlayd]]:
    """Yield two neighbours, not started yet, that are to find each other by beacons."""
    with cjdns.line([Overlayd, Overlayd]) as found:
        a, b = (router for router in found if isinstance(router, Overlayd))
        for router, other in ((a, b), (b, a)):
            if medium == "ethernet":
                router.plan.ethernet[f"mesh-{other.name}"] = 2
            else:
                router.plan.udp_beacon = 2
        yield a, b


@pytest.mark.parametrize("medium", ["ethernet", "udp"])
def test_neighbours_find_each_other_by_beacons(medium: str) -> None:
    with _by_beacons(medium) as (a, b):
        cjdns.start((a, b))
        a.wait_ping(b)
        with OverlayControl(a.socket) as control:
            (peer,) = control.status["peers"]
        assert peer["interface"].split()[0] == medium
        assert peer["key"] == b.key


def test_beacons_that_are_none_too_old_or_not_wanted_are_counted() -> None:
    with cjdns.line([Overlayd, Overlayd]) as found:
        a, b = (router for router in found if isinstance(router, Overlayd))
        a.plan.udp_beacon, a.plan.ethernet["mesh-b"], b.plan.ethernet["mesh-a"] = 1, 0, 2
        cjdns.start((a, b))
        old = bytes.fromhex("fffffffc 0000 1388") + (19).to_bytes(4) + bytes(20) + bytes(32)
        with OverlayControl(a.socket) as control, udp_socket(b.namespace, "10.78.1.2") as stranger:

            def malformed() -> int:
                return sum(interface["malformed"] for interface in control.ask()["interfaces"])

            def counted(octets: bytes, count: Callable[[], int]) -> int:
                stranger.sendto(octets, ("10.78.1.1", cjdns.BEACON_PORT))
                return count()

            for octets, count in ((old[:40], malformed), (old, partial(control.dropped, "link-version"))):
                wait_until("it is counted", partial(counted, octets, count), [], 30, last=control.ask)
            wait_until("one by Ethernet too", lambda: control.dropped("beacon"), [], 30, last=control.ask)
            assert not control.ask()["peers"]


@pytest.mark.parametrize("medium", ["ethernet", "udp"])
def test_a_device_may_come_late_and_go_and_come_again(medium: str) -> None:
    with _by_beacons(medium) as (a, b):
        _rename(a, "mesh-b", "late")
        cjdns.start((a, b))
        with OverlayControl(a.socket) as control:
            assert medium == "udp" or not _by_device(control)["there"]
            _rename(a, "late", "mesh-b")
            a.wait_ping(b)
            if medium == "udp":
                return  # A renamed interface keeps its IPv4 address.
            _rename(a, "mesh-b", "away")
            wait_until("it is gone", lambda: not _established(control), [], 30, last=control.ask)
            assert not _by_device(control)["there"]
            _rename(a, "away", "mesh-b")
            a.wait_ping(b)


def _rename(router: Overlayd, device: str, name: str) -> None:
    router.ip("link", "set", device, "down")
    router.ip("link", "set", device, "name", name)
    router.ip("link", "set", name, "up")


def _by_device(control: OverlayControl) -> dict[str, Any]:
    """Return the one interface that is a device."""
    interfaces = control.ask()["interfaces"]
    (found,) = (interface for interface in interfaces if interface["name"].startswith("ethernet "))
    return dict(found)


def _established(control: OverlayControl) -> list[str]:
    return [peer["key"] for peer in control.ask()["peers"] if peer["state"] == "established"]


class OverIpv6(Overlayd):
    """A node that is reached by UDP over IPv6."""

    def _text(self) -> str:
        return super()._text().replace('bind = "0.', 'bind = "[::]:').replace("[::]:0.0.0:", "[::]:")


@pytest.mark.parametrize("address", ["fd78::1", "fe80::78:1%mesh-a"])
def test_neighbours_by_udp_over_ipv6(address: str) -> None:
    with cjdns.line([OverIpv6, OverIpv6]) as found:
        a, b = (router for router in found if isinstance(router, Overlayd))
        for number, router, device in ((1, a, "mesh-b"), (2, b, "mesh-a")):
            for shown in (f"fd78::{number}/64", f"fe80::78:{number}/64"):
                router.ip("address", "add", shown, "dev", device, "nodad")
        a.plan.users.append(SECRET)
        b.plan.neighbours.append(Neighbour(f"[{address}]:{cjdns.PORT}", a.key, SECRET))
        cjdns.start((a, b))
        b.wait_ping(a)
        a.wait_ping(b)
        with OverlayControl(b.socket) as control:
            (peer,) = control.status["peers"]
        assert peer["at"].startswith(f"[{address.partition('%')[0]}")


def test_what_happens_is_reported() -> None:
    with line([Overlayd, Overlayd]) as (a, b), OverlayControl(a.socket) as control:
        a.wait_ping(b)
        assert control.ask()["sessions"][0]["address"] == b.address
        b.daemon.kill()
        assert control.wait_event("peer-down")["key"] == b.key
        b.start()
        b.wait_ping(a)
        found = [event["name"] for event in control.ask_events() if event["name"].startswith("peer-")]
        assert "peer-up" in found[found.index("peer-down") :]


def test_it_ends_and_leaves_nothing() -> None:
    with line([Overlayd, Overlayd]) as (a, _):
        assert a.daemon.stop() == 0
        assert not a.socket.exists()
        links = json.loads(a.ip("-j", "link").stdout)
        assert not [link["ifname"] for link in links if link["ifname"] == "overlay"]


@pytest.fixture
def booted() -> Iterator[Machine]:
    """Boot a node with a key and a cable to a neighbour."""
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab("overlayd", topology.line(["a", "b"])) as lab, Machine(lab["a"]) as machine:
        machine.run("meshsec", "init", "--name", "a", "--interface", "mesh-b")
        yield machine


@pytest.mark.timeout(300, func_only=True)
def test_the_unit_starts_it_confined_with_the_nodes_key(booted: Machine) -> None:
    beacons = '[[ethernet]]\ndevice = "mesh-b"\nbeacon = "send"\n'
    booted.write("/etc/overlayd/overlayd.toml", f'[[user]]\npassword = "p"\n{beacons}')
    booted.run("chmod", "600", "/etc/overlayd/overlayd.toml")
    booted.run("systemctl", "daemon-reload")
    done = booted.run("systemd-analyze", "verify", "--man=no", "overlayd.service", check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    booted.run("systemctl", "start", "overlayd")
    assert booted.show("overlayd", "ActiveState") == {"ActiveState": "active"}
    address = json.loads(booted.run("meshsec", "key", "show", "--json").stdout)["address"]
    assert f"{address}/8" in booted.run("ip", "address", "show", "dev", "overlay0").stdout
    status = Path(f"/proc/{booted.pid('overlayd')}/status").read_text(encoding="ascii")
    capabilities = dict(line.split(":\t", 1) for line in status.splitlines())
    assert int(capabilities["CapEff"], 16) == NET_ADMIN | NET_RAW
    assert capabilities["Uid"].split()[0] != "0"


def test_secrets_that_others_may_read_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "overlayd.toml"
    config.write_text('[[user]]\npassword = "secret"\n')
    for mode, found in ((0o644, "others may read"), (0o600, "node.key")):
        config.chmod(mode)
        argv = [programs.overlayd(), "--check", "--config", str(config)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert found in done.stderr
        assert 'secret"' not in done.stderr
