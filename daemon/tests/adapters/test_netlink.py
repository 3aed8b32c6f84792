"""rtnetlink against a real kernel, in a namespace of its own."""

import asyncio
import subprocess
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.netlink import KernelRoute, NetlinkError
from namespaces import ip, needs_root

pytestmark = needs_root

ADDRESS, LOCATOR, IPV4 = IPv6Address("fc00::a"), IPv6Address("fd00::a"), IPv4Address("10.77.0.1")


@pytest.fixture
def mesh0(inside: str) -> str:
    ip("link", "add", "mesh0", "type", "veth", "peer", "name", "mesh1")
    for name in ("mesh0", "mesh1"):
        ip("link", "set", name, "up")
    return "mesh0"


def assign(*interfaces: str) -> tuple[str, ...]:
    return asyncio.run(netlink.assign_addresses((ADDRESS, LOCATOR), IPV4, interfaces))


def test_own_addresses_are_assigned_once_and_usable_at_once(mesh0: str) -> None:
    assert assign(mesh0) == ("fc00::a on lo", "fd00::a on lo", "10.77.0.1 on lo", "10.77.0.1 on mesh0")
    assert assign(mesh0) == ()
    assert {ADDRESS, LOCATOR, IPV4} <= asyncio.run(netlink.assigned())
    text = ip("-6", "addr", "show", "dev", "lo", "to", "fc00::a")
    assert "inet6 fc00::a/128" in text
    assert "tentative" not in text


def test_an_interface_with_an_ipv4_address_keeps_its_own(mesh0: str) -> None:
    ip("addr", "add", "192.0.2.1/24", "dev", mesh0)
    assert "10.77.0.1 on mesh0" not in assign(mesh0, "mesh1")
    assert asyncio.run(netlink.assigned("mesh1")) >= {IPV4}


def test_an_interface_that_is_not_there_is_left_out_until_it_comes(mesh0: str) -> None:
    assert "10.77.0.1 on lo" in assign("wlan9")
    ip("link", "set", mesh0, "down")
    ip("link", "set", mesh0, "name", "wlan9")
    ip("link", "set", "wlan9", "up")
    assert assign("wlan9") == ("10.77.0.1 on wlan9",)


def test_a_refusal_names_the_address_and_the_interface(mesh0: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["sysctl", "-qw", "net.ipv6.conf.lo.disable_ipv6=1"], check=True)
    with pytest.raises(NetlinkError, match=r"address fc00::a on lo: .*Permission denied"):
        assign(mesh0)


def test_routes_are_read_with_all_fields_that_distinguish_them(mesh0: str) -> None:
    ip("route", "add", "10.1.0.0/16", "dev", mesh0, "proto", "100", "metric", "2")
    ip("-6", "route", "add", "fd00::b/128", "via", "fe80::2", "dev", mesh0, "proto", "100", "metric", "2")
    ip("-6", "route", "add", "default", "via", "fe80::2", "dev", mesh0, "proto", "100", "table", "77")
    ip("-6", "route", "add", "fd00::c/128", "dev", mesh0, "proto", "static")
    found = {route.destination: route for route in asyncio.run(netlink.routes(100))}
    assert found[ip_network("fd00::b")] == KernelRoute(
        ip_network("fd00::b"), ip_address("fe80::2"), mesh0, protocol=100, table=254, metric=2
    )
    assert found[ip_network("10.1.0.0/16")].gateway is None
    assert found[ip_network("::/0")].table == 77
    assert set(found) == {ip_network(text) for text in ("10.1.0.0/16", "fd00::b", "::/0")}
    assert ip_network("fd00::c") in {route.destination for route in asyncio.run(netlink.routes())}


POLICY = ["ip", "xfrm", "policy", "add", "src", "fd00::7/128", "dst", "fd00::8/128", "dir", "out"]


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        (netlink.route_changes, ["ip", "-6", "route", "add", "fd00::b/128", "dev", "mesh0"]),
        (netlink.route_changes, ["ip", "route", "add", "10.1.0.0/16", "dev", "mesh0"]),
        (netlink.address_changes, ["ip", "addr", "add", "fd00::7/128", "dev", "mesh0"]),
        (netlink.address_changes, ["ip", "link", "set", "mesh0", "down"]),
        (netlink.ruleset_changes, ["nft", "add", "table", "inet", "foreign"]),
        (netlink.ruleset_changes, ["sh", "-ec", f"{' '.join(POLICY)}; ip xfrm policy flush"]),
    ],
    ids=["route", "ipv4 route", "address", "link", "rules", "policies"],
)
def test_changes_in_the_kernel_are_reported(mesh0: str, changes: netlink.Changes, command: list[str]) -> None:
    assert asyncio.run(hears(changes, command))


def test_an_event_without_a_change_is_not_reported(mesh0: str) -> None:
    foreign = ["ip", "addr", "add", "fd00::7/128", "dev", "mesh0"]
    for command in (foreign, POLICY):
        assert not asyncio.run(hears(netlink.ruleset_changes, command, seconds=0.5))


async def hears(changes: netlink.Changes, command: list[str], seconds: float = 60.0) -> bool:
    changed = asyncio.Event()
    with changes(changed.set):
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True


def test_a_flood_of_changes_is_reported_in_batches_and_a_later_change_still_is(mesh0: str) -> None:
    lines = "".join(f"route add fd01::{number:x}/128 dev {mesh0}\n" for number in range(1, 20_001))

    async def scenario() -> int:
        changed, told = asyncio.Event(), 0

        def count() -> None:
            nonlocal told
            told += 1
            changed.set()

        with netlink.route_changes(count):
            process = await asyncio.create_subprocess_exec("ip", "-6", "-batch", "-", stdin=asyncio.subprocess.PIPE)
            await process.communicate(lines.encode())
            async with asyncio.timeout(60):
                await changed.wait()
            await asyncio.sleep(0.1)
            in_the_flood = told
            changed.clear()
            await (await asyncio.create_subprocess_exec("ip", "-6", "route", "del", "fd01::1/128")).wait()
            async with asyncio.timeout(60):
                await changed.wait()
        return in_the_flood

    assert 0 < asyncio.run(scenario()) < 20_000


def test_the_mtus_are_those_of_this_namespace(mesh0: str) -> None:
    """The MTUs come from rtnetlink: /sys may show the interfaces of another namespace."""
    ip("link", "set", mesh0, "mtu", "1440")
    assert {"mesh0": 1440, "mesh1": 1500}.items() <= asyncio.run(netlink.mtus()).items()


def test_ipv4_networks_elsewhere_are_what_other_interfaces_reach(mesh0: str) -> None:
    """Mesh interfaces, default routes, other tables and the node's own networks do not count."""
    assign(mesh0)
    ip("addr", "add", "10.77.0.7/16", "dev", mesh0)
    ip("addr", "add", "192.168.1.5/24", "dev", "mesh1")
    ip("route", "add", "172.16.0.0/12", "via", "192.168.1.1", "dev", "mesh1")
    ip("route", "add", "default", "via", "192.168.1.1", "dev", "mesh1")
    ip("route", "add", "10.5.0.0/16", "dev", "mesh1", "table", "99")
    ip("route", "add", "unreachable", "10.6.0.0/16")
    found = asyncio.run(netlink.ipv4_elsewhere({mesh0}, {IPV4}))
    assert {(str(one.network), one.interface) for one in found if not one.network.is_loopback} == {
        ("10.77.0.7/32", mesh0),
        ("172.16.0.0/12", "mesh1"),
        ("192.168.1.0/24", "mesh1"),
        ("192.168.1.5/32", "mesh1"),
    }
