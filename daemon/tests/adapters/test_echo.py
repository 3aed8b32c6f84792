"""Echo requests by real ping sockets, and the packets that a real interface has sent."""

import asyncio
import subprocess
import time
from ipaddress import IPv4Address, IPv6Address

import pytest

from meshsec.adapters.kernel import netlink
from meshsec.adapters.sockets.echo import EchoError, echo
from meshsec.core.values.model import Address
from namespaces import ip, needs_root

pytestmark = needs_root
SILENT = 0.3


def allow(groups: str) -> None:
    subprocess.run(["sysctl", "-qw", f"net.ipv4.ping_group_range={groups}"], check=True)


def wait_usable(address: IPv6Address) -> None:
    """Wait until packets to this node's new address stay here: the kernel adds the route a moment later."""
    while not ip("-6", "route", "get", str(address), check=False).startswith("local"):
        time.sleep(0.01)


async def _answer(target: Address, source: IPv6Address | None, seconds: float) -> Address | None:
    answers: asyncio.Queue[Address] = asyncio.Queue()
    with echo(target.version, answers.put_nowait, source) as asking:
        asking.send(target)
        try:
            async with asyncio.timeout(seconds):
                return await answers.get()
        except TimeoutError:
            return None


def answer(target: Address, source: IPv6Address | None = None, seconds: float = 30) -> Address | None:
    return asyncio.run(_answer(target, source, seconds))


def test_who_answers_is_reported_and_who_does_not_is_not(inside: str) -> None:
    allow("0 0")
    own = IPv6Address("fc00::1")
    ip("address", "add", str(own), "dev", "lo", "nodad")
    wait_usable(own)
    for target in (IPv4Address("127.0.0.1"), IPv6Address("::1"), own):
        assert answer(target) == target
    assert answer(own, own) == own
    assert answer(IPv6Address("fc00::2"), seconds=SILENT) is None, "there is no route"
    ip("-6", "route", "add", "blackhole", "fc00::3")
    assert answer(IPv6Address("fc00::3"), seconds=SILENT) is None


def test_a_kernel_that_allows_no_requests_is_named_with_the_setting(inside: str) -> None:
    allow("1 0")
    with pytest.raises(EchoError, match=r"net\.ipv4\.ping_group_range"):
        answer(IPv4Address("127.0.0.1"))


def test_an_address_that_is_not_this_nodes_is_refused_and_a_rule_that_forbids_sending_is_named(inside: str) -> None:
    allow("0 0")
    with pytest.raises(EchoError, match="from fc00::9"):
        answer(IPv6Address("::1"), IPv6Address("fc00::9"))
    rule = "table ip drops { chain out { type filter hook output priority 0; icmp type echo-request drop; }; }"
    subprocess.run(["nft", rule], check=True)
    with pytest.raises(EchoError, match=r"may not send to 127\.0\.0\.1"):
        answer(IPv4Address("127.0.0.1"))


def test_the_interface_by_which_packets_leave_is_found_by_its_default_route(inside: str) -> None:
    for name in ("one", "two"):
        ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
        ip("link", "set", name, "up")
        ip("link", "set", f"{name}-far", "up")
    assert asyncio.run(netlink.ways_out()) == {4: "", 6: ""}
    ip("route", "add", "default", "dev", "one", "metric", "5")
    ip("-6", "route", "add", "default", "dev", "two")
    assert asyncio.run(netlink.ways_out()) == {4: "one", 6: "two"}
    ip("route", "add", "default", "dev", "two", "metric", "4")
    ip("-6", "route", "add", "unreachable", "default", "metric", "1")
    assert asyncio.run(netlink.ways_out()) == {4: "two", 6: ""}


def test_packets_are_counted_by_interface() -> None:
    sent, received = netlink.packets("lo")
    assert (sent, received) >= (0, 0)
    assert netlink.packets("absent") == (0, 0)
