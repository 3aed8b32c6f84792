"""The table of an uplink in a real kernel: how packets leave, and what comes in."""

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address, ip_network

import pytest

from adapters.test_nftables import PATIENCE, SILENCE, listening, received, sendto, within
from meshsec.adapters.kernel.nft import RulesError, Table
from meshsec.core.access.shared_address import DEVICE as CLIENTS
from meshsec.core.channels import nft_uplink
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.gateway import Uplink, Way
from namespaces import ip, needs_root

pytestmark = needs_root

CLIENT4, CLIENT6, LOCAL6 = "10.1.0.5", "2001:db8:1::5", "fd12:3456:789a::5"
LAN4 = "10.2.0.5"
OWN4, OWN6 = "198.51.100.2", "2001:db8:a::2"
OUT4, OUT6 = "203.0.113.9", "2001:db8:b::9"
INSIDE, OUTSIDE = IPv6Network("fd12:3456:789a::/48"), IPv6Network("2001:db8:77::/48")


@dataclass
class Gateway:
    """A gateway, where the test runs, between a client behind the tunnel, a LAN host and the outside."""

    client: str
    lan: str
    outside: str
    table: Table

    def apply(self, ipv4: Way, ipv6: Way, *using: str) -> None:
        uplink = Uplink("eth1", ipv4, ipv6, INSIDE, OUTSIDE)
        asyncio.run(self.table.apply(nft_uplink.render(uplink, map(ip_network, using))))

    def seen(self, source: str, space: str | None = "") -> str:
        """Return from which address the outside sees what a client sends, and check that an answer comes back.

        ``space`` is another namespace to send from; None is the gateway's.
        """
        target = ip_address(OUT6 if ":" in source else OUT4)
        with (
            listening(self.outside, target, 9) as heard,
            listening(self.client if space == "" else space, ip_address(source), 10) as back,
        ):
            back.sendto(b"user data", (str(target), 9))
            heard.settimeout(PATIENCE)
            seen = heard.recvfrom(64)[1]
            heard.sendto(b"user data", seen)
            assert received(back)
        return str(seen[0])

    def reaches(self, target: str, space: str) -> bool:
        """Return whether a datagram from outside reaches an address that it has a route to."""
        source, aim = ip_address(OUT6 if ":" in target else OUT4), ip_address(target)
        with listening(space, aim, 9) as heard:
            within(self.outside, lambda: sendto(source, aim, 9, 0))
            return received(heard, SILENCE)


@pytest.fixture
def gateway(new_namespace: Callable[[], str], inside: str) -> Gateway:
    """Connect the namespaces. The client's end of the tunnel is a cable with the tunnel's name."""
    client, lan, outside = new_namespace(), new_namespace(), new_namespace()
    subprocess.run(
        ["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"],
        check=True,
    )
    cables = (
        (DEVICE, client, ("10.1.0.1/24", "2001:db8:1::1/64", "fd12:3456:789a::1/64"), (CLIENT4, CLIENT6, LOCAL6)),
        ("lan0", lan, ("10.2.0.1/24",), (LAN4,)),
        ("eth1", outside, (f"{OWN4}/24", f"{OWN6}/64"), ("198.51.100.1", "2001:db8:a::1")),
    )
    for device, other, near, far in cables:
        ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", other)
        for space, addresses in ((inside, near), (other, far)):
            ip("-n", space, "link", "set", device, "up")
            for address in addresses:
                length = "" if "/" in address else "/64" if ":" in address else "/24"
                nodad = ["nodad"] if ":" in address else []
                ip("-n", space, "address", "add", f"{address}{length}", "dev", device, *nodad)
        if other != outside:
            for address in near[:2]:
                ip("-n", other, "route", "add", "default", "via", address.partition("/")[0])
    for address, via in ((OUT4, "198.51.100.1"), (OUT6, "2001:db8:a::1")):
        ip("-n", outside, "address", "add", address, "dev", "lo")
        ip("route", "add", "default", "via", via)
    for network, via in (("10.0.0.0/8", OWN4), ("2001:db8:1::/64", OWN6), (str(OUTSIDE), OWN6)):
        ip("-n", outside, "route", "add", network, "via", via)
    return Gateway(client, lan, outside, Table(nft_uplink.TABLE))


def test_with_nat_clients_leave_with_the_uplinks_address(gateway: Gateway) -> None:
    gateway.apply(Way.NAT, Way.NAT)
    assert [gateway.seen(one) for one in (CLIENT4, CLIENT6, LOCAL6)] == [OWN4, OWN6, OWN6]


def test_routed_clients_leave_as_they_are(gateway: Gateway) -> None:
    gateway.apply(Way.ROUTE, Way.ROUTE)
    assert [gateway.seen(one) for one in (CLIENT4, CLIENT6)] == [CLIENT4, CLIENT6]


def test_with_npt_a_client_keeps_its_host_part_and_others_leave_with_the_uplinks_address(gateway: Gateway) -> None:
    gateway.apply(Way.NAT, Way.NPT)
    assert [gateway.seen(one) for one in (LOCAL6, CLIENT6)] == ["2001:db8:77::5", OWN6]


@pytest.mark.parametrize(("behind", "expected"), [((), LAN4), (("10.2.0.0/24",), OWN4)])
def test_networks_behind_the_gateway_use_the_uplink_where_they_are_named(
    gateway: Gateway, behind: tuple[str, ...], expected: str
) -> None:
    gateway.apply(Way.NAT, Way.NAT, *behind)
    assert gateway.seen(LAN4, gateway.lan) == expected


@pytest.mark.parametrize(
    ("own", "using", "expected"),
    [("10.77.0.1", (), "10.77.0.1"), ("10.77.0.1", ("10.77.0.1",), OWN4), ("fc00::a", ("fc00::a",), OWN6)],
)
def test_the_gateways_own_data_leaves_with_the_uplinks_address_where_its_own_is_named(
    gateway: Gateway, own: str, using: tuple[str, ...], expected: str
) -> None:
    ip("address", "add", own, "dev", "lo")
    gateway.apply(Way.NAT, Way.NAT, *using)
    assert gateway.seen(own, None) == expected


def test_what_does_not_leave_by_the_uplink_keeps_its_address(gateway: Gateway) -> None:
    gateway.apply(Way.NAT, Way.NAT)
    ip("-n", gateway.lan, "address", "add", OUT4, "dev", "lo")
    ip("route", "add", f"{OUT4}/32", "via", LAN4)
    ends = listening(gateway.lan, ip_address(OUT4), 9), listening(gateway.client, ip_address(CLIENT4), 10)
    with ends[0] as heard, ends[1] as out:
        out.sendto(b"user data", (OUT4, 9))
        heard.settimeout(PATIENCE)
        assert heard.recvfrom(64)[1][0] == CLIENT4


@pytest.mark.parametrize("device", [DEVICE, CLIENTS])
@pytest.mark.parametrize("way", [Way.NAT, Way.ROUTE])
def test_nobody_outside_begins_a_flow_into_the_mesh(gateway: Gateway, way: Way, device: str) -> None:
    """Neither to what is behind other nodes nor to the gateway's own clients."""
    if device != DEVICE:
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{DEVICE}.keep_addr_on_down=1"], check=True)
        ip("link", "set", DEVICE, "down")
        ip("link", "set", DEVICE, "name", device, "up")
    assert gateway.reaches(CLIENT4, gateway.client), "the control: there is no table yet"
    gateway.apply(way, way)
    assert not gateway.reaches(CLIENT4, gateway.client)
    assert not gateway.reaches(CLIENT6, gateway.client)
    assert gateway.reaches(LAN4, gateway.lan), "what is behind the gateway is not the mesh's matter"


def test_a_table_that_was_removed_or_altered_is_restored_and_one_that_is_intact_is_left(gateway: Gateway) -> None:
    gateway.apply(Way.NAT, Way.NAT)
    text = nft_uplink.render(Uplink("eth1", Way.NAT, Way.NAT), ())
    assert not asyncio.run(gateway.table.settle(text))
    for change in (f"delete table inet {nft_uplink.TABLE}", f"flush chain inet {nft_uplink.TABLE} forward"):
        subprocess.run(["nft", change], check=True)
        assert asyncio.run(gateway.table.settle(text))
        assert gateway.seen(CLIENT4) == OWN4
        assert not gateway.reaches(CLIENT4, gateway.client)
    for _ in range(2):
        assert not asyncio.run(gateway.table.settle(""))
    listed = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    assert nft_uplink.TABLE not in listed


def test_a_text_that_nft_refuses_names_its_reason_and_leaves_the_table(gateway: Gateway) -> None:
    gateway.apply(Way.NAT, Way.NAT)
    with pytest.raises(RulesError, match="syntax error"):
        asyncio.run(gateway.table.apply("nonsense"))
    assert gateway.seen(CLIENT4) == OWN4
