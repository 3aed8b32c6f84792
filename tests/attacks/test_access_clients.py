"""Clients that take what is not theirs, and peers that speak of clients without being access nodes."""

import json
import os
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address

import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from meshsec.core.access import messages
from meshsec.core.access.clients import Client
from tests.lab.forge import account
from tests.lab.gateways import OUTSIDE4, OUTSIDE6
from tests.lab.net.packets import MARK
from tests.lab.net.traffic import udp_socket, wait_arrivals
from tests.lab.roaming import Roaming, Station, roaming

MOST = 4
"""Clients that an access node serves in this lab."""
SILENCE = 1.0
"""Seconds to wait for a datagram that must not come."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Roaming]:
    with roaming("hostile", clients=MOST, ports=["ap1", "ap2", "ap3"]) as made:
        made.join("a")
        yield made


@pytest.fixture(scope="module")
def hostile(mesh: Roaming) -> Station:
    """Return a client beside the honest one."""
    return mesh.join("a", Station.create(mesh.lab, 2, "a", "b"))


def to_gateway(mesh: Roaming, station: Station, packet: Packet) -> bytes:
    """Return the frame by which a client sends a packet to its gateway."""
    shown = json.loads(mesh.lab["a"].run("ip", "-j", "link", "show", "meshsec-clients").stdout)
    return bytes(Ether(src=station.mac, dst=shown[0]["address"]) / packet)


def refusals(mesh: Roaming, station: Station) -> list[str]:
    """Return what a client was refused at a."""
    return [one["reason"] for one in mesh.lab["a"].control.ask("clients")["refused"] if one["mac"] == station.mac]


@pytest.mark.parametrize("version", [4, 6])
def test_a_client_cannot_send_from_an_address_of_another(mesh: Roaming, hostile: Station, version: int) -> None:
    """Its own frames arrive, so that those with another's address would, too."""
    target, layer = (OUTSIDE4, IP) if version == 4 else (OUTSIDE6, IPv6)
    with udp_socket(mesh.outside, target, 7060) as listener:
        listener.settimeout(30)
        own, foreign = (one.addresses(version)[0] for one in (hostile, mesh.station))
        hostile.send_frame(to_gateway(mesh, hostile, layer(src=own, dst=target) / UDP(dport=7060) / Raw(MARK)))
        assert listener.recv(100)
        listener.settimeout(SILENCE)
        hostile.send_frame(to_gateway(mesh, hostile, layer(src=foreign, dst=target) / UDP(dport=7060) / Raw(MARK)))
        with pytest.raises(TimeoutError):
            listener.recv(100)


def test_a_client_cannot_take_an_address_of_another_nor_the_gateways(mesh: Roaming, hostile: Station) -> None:
    victim, own = mesh.station.addresses(4)[0], mesh.known("a", hostile)
    for claimed in (victim, "10.130.0.1", "192.0.2.7"):
        reply = ARP(op=2, hwsrc=hostile.mac, psrc=claimed, hwdst="ff:ff:ff:ff:ff:ff", pdst=claimed)
        hostile.send_frame(bytes(Ether(src=hostile.mac, dst="ff:ff:ff:ff:ff:ff") / reply))
    expected = {f"{victim} belongs to {mesh.station.mac}", "10.130.0.1 is the address of the nodes"}
    expected.add("192.0.2.7 is in no network of clients")
    mesh.lab["a"].wait_for("three refusals", lambda: set(refusals(mesh, hostile)) >= expected, 30)
    assert mesh.known("a", hostile) == own
    with mesh.flow(4, 7061) as flow:
        wait_arrivals(flow, 10)


def test_a_client_that_asks_by_dhcp_for_many_others_takes_nothing(mesh: Roaming) -> None:
    """A station of an access point has one MAC address; in what it asks it may name any, and any identifier."""
    a, stranger = mesh.lab["a"], Station.create(mesh.lab, 3, "a", "b")
    stranger.move("a")
    dropped = _foreign(mesh)
    frame = Ether(src=stranger.mac, dst="ff:ff:ff:ff:ff:ff")
    for number in range(200):
        stranger.send_frame(bytes(frame / _discovery(stranger.mac, number.to_bytes(4))))
        stranger.send_frame(bytes(frame / _discovery(f"02:00:00:01:00:{number:02x}")))
    assert stranger.ask_dhcp(a.directory)
    assert _foreign(mesh) >= dropped + 100
    assert len([one for one in _leases(mesh) if stranger.mac in one]) == 1
    assert not [one for one in _leases(mesh) if "02:00:00:01:00:" in one]
    assert not [one for one in a.control.ask("clients")["clients"] if one["mac"].startswith("02:00:00:01:00:")]


def test_many_clients_at_once_take_nothing_from_those_who_are_there(mesh: Roaming, hostile: Station) -> None:
    """Each forged one asks for an address in a frame, and by DHCP."""
    for number in range(500):
        mac = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
        everybody = Ether(src=mac, dst="ff:ff:ff:ff:ff:ff")
        hostile.send_frame(bytes(everybody / ARP(hwsrc=mac, psrc=f"10.130.{number >> 8}.{number & 255}")))
        hostile.send_frame(bytes(everybody / _discovery(mac)))
    a = mesh.lab["a"]
    a.wait_for("somebody is refused", lambda: a.control.ask("clients")["refused"], 30)
    assert "this node serves no more: who comes is refused" in a.meshsec("doctor", check=False).stdout
    here = [one["mac"] for one in a.control.ask("clients")["clients"] if one["here"]]
    assert len(here) == MOST
    assert {mesh.station.mac, hostile.mac} <= set(here)
    assert mesh.station.ask_dhcp(a.directory) in mesh.station.addresses(4)
    with mesh.flow(4, 7062) as flow:
        wait_arrivals(flow, 10)
    assert len(_leases(mesh)) <= 4 * MOST


def _foreign(mesh: Roaming) -> int:
    listed = mesh.lab["a"].run("nft", "-j", "list", "counter", "inet", "meshsec_access", "foreign_source").stdout
    return int(next(one["counter"]["packets"] for one in json.loads(listed)["nftables"] if "counter" in one))


def _leases(mesh: Roaming) -> list[str]:
    a = mesh.lab["a"]
    leases = (a.daemons.beside_dnsmasq / "leases").read_text(encoding="ascii")
    return [line for line in leases.splitlines() if not line.startswith("duid")]


def _discovery(mac: str, identifier: bytes = b"") -> Packet:
    """Return a request that is answered with an address at once (RFC 4039)."""
    asked = BOOTP(chaddr=bytes.fromhex(mac.replace(":", "")), xid=int.from_bytes(os.urandom(4)))
    named = [("client_id", b"\x00" + identifier)] if identifier else []
    options = DHCP(options=[("message-type", "discover"), (80, b""), *named, "end"])
    return IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67) / asked / options  # noqa: S104


def test_a_peer_that_is_no_access_node_cannot_take_a_client(mesh: Roaming) -> None:
    """It gets no answer either. What g sends arrives, as the ping says."""
    a, g = mesh.lab["a"], mesh.lab["g"]
    before = set(mesh.known("a", mesh.station))
    taken = Client(mesh.station.mac, IPv6Address(g.address), 900, tuple(map(ip_address, before)))
    g.run("ping", "-6", "-c", "1", "-W", "30", a.address)
    with udp_socket(g.namespace, g.address, messages.PORT) as sender:
        sender.settimeout(SILENCE)
        sender.sendto(messages.encode(messages.claim(taken, asks=True)), (a.address, messages.PORT))
        with pytest.raises(TimeoutError):
            sender.recv(100)
    assert set(mesh.known("a", mesh.station)) == before


def test_an_account_on_an_access_node_cannot_speak_for_meshsecd(mesh: Roaming) -> None:
    """Not even while meshsecd is away and its port is free."""
    a, b = mesh.lab["a"], mesh.lab["b"]
    taken = Client(mesh.station.mac, IPv6Address(b.address), 900)
    claim = messages.encode(messages.claim(taken, asks=False))
    b.daemons.agent.kill()
    try:
        before = _fleet_out(mesh)
        account.try_once(b, _SPEAK.format(own=b.address, target=a.address, port=messages.PORT, octets=claim))
        b.wait_for("the rules drop it", lambda: _fleet_out(mesh) > before, 30)
        assert mesh.known("a", mesh.station)
    finally:
        mesh.lab.heal()
        a.wait_protected(b, 120)


def _fleet_out(mesh: Roaming) -> int:
    listed = mesh.lab["b"].run("nft", "-j", "list", "counter", "inet", "meshsec", "fleet_out").stdout
    return int(next(one["counter"]["packets"] for one in json.loads(listed)["nftables"] if "counter" in one))


_SPEAK = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
    sender.bind(("{own}", {port}))
    try:
        sender.sendto({octets!r}, ("{target}", {port}))
    except PermissionError:
        pass
"""
