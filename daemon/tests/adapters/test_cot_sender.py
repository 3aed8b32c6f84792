"""Where Cursor on Target events may go, with real sockets and interfaces."""

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from meshsec.adapters.sockets.cot_sender import CotError, CotSender, refuse_mesh, target

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="interfaces are made by root")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "239.2.3.1:6969",
        "udp://239.2.3.1",
        "udp://239.2.3.1:0",
        "udp://239.2.3.1:70000",
        "udp://tak.example.org:8087",
        "tls://10.0.0.1:8089",
        "file:///etc/passwd",
        "udp://user@10.0.0.1:1",
        "udp://10.0.0.1:1/path",
        "udp://10.0.0.1:1?x=1",
        "tcp://239.2.3.1:6969",
        "udp://[fe80::1:6969",
    ],
)
def test_a_target_that_is_none_is_refused_with_its_text(url: str) -> None:
    with pytest.raises(CotError, match="is not allowed"):
        target(url, "")


@pytest.mark.parametrize("url", ["udp://239.2.3.1:6969", "tcp://10.1.2.3:8087", "udp://[ff02::1234]:6969"])
def test_a_target_is_read(url: str) -> None:
    assert str(target(url, "eth0")) == url


def test_without_an_interface_events_go_to_this_machine_and_to_peers_alone() -> None:
    protected = {"fc00::2", "10.77.0.2"}
    for url in ("udp://127.0.0.1:1", "tcp://[::1]:1", "udp://[fc00::2]:1", "udp://10.77.0.2:1"):
        refuse_mesh(target(url, ""), ["mesh0"], protected)
    for url in (
        "udp://239.2.3.1:6969",
        "udp://10.77.0.3:1",
        "udp://[fc00::3]:1",
        "udp://[ff02::1]:1",
        "tcp://8.8.8.8:1",
    ):
        with pytest.raises(CotError, match="neither this machine's nor a trusted peer's"):
            refuse_mesh(target(url, ""), ["mesh0"], protected)


@pytest.fixture
def interfaces() -> Iterator[tuple[str, str, str]]:
    """Make a port of a bridge, the bridge, and a device above the port's other end."""
    mark = uuid.uuid4().hex[:6]
    port, bridge, other, above = (f"c{letter}{mark}" for letter in "pboa")
    for command in (
        f"link add {port} type veth peer name {other}",
        f"link add {bridge} type bridge",
        f"link set {port} master {bridge}",
        f"link add link {other} name {above} type macvlan",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    yield port, bridge, above
    for name in (bridge, port):
        subprocess.run(["ip", "link", "del", name], check=True)


@needs_root
def test_an_interface_that_leads_into_the_mesh_is_refused(interfaces: tuple[str, str, str]) -> None:
    port, bridge, above = interfaces
    other = port.replace("cp", "co", 1)
    for name, mesh in ((port, port), (bridge, port), (above, other)):
        with pytest.raises(CotError, match=f"leads into the mesh \\({mesh}\\)"):
            refuse_mesh(target("udp://239.2.3.1:6969", name), ["mesh0", mesh], ())
        refuse_mesh(target("udp://239.2.3.1:6969", name), ["mesh0"], ())
    with pytest.raises(CotError, match="no interface 'none0'"):
        refuse_mesh(target("udp://239.2.3.1:6969", "none0"), ["mesh0"], ())


def test_a_datagram_has_one_event_and_a_stream_has_all() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        with CotSender(target(f"udp://127.0.0.1:{receiver.getsockname()[1]}", "")) as sender:
            sender.send([b"<event/>", b"<event>2</event>"])
        assert [receiver.recv(100) for _ in range(2)] == [b"<event/>", b"<event>2</event>"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        with CotSender(target(f"tcp://127.0.0.1:{server.getsockname()[1]}", "lo")) as sender:
            sender.send([b"<event/>", b"<event>2</event>"])
        with server.accept()[0] as there:
            assert there.recv(100) == b"<event/><event>2</event>"


def test_a_server_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(CotError, match=f"tcp://127.0.0.1:{port}: Connection refused"):
        CotSender(target(f"tcp://127.0.0.1:{port}", ""))
    with pytest.raises(CotError, match="No such device"):
        CotSender(target("udp://127.0.0.1:1", "none0"))
