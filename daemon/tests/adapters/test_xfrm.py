"""Reading XFRM policies that ``ip`` wrote; scenarios read SAs where the kernel has ESP."""

import asyncio
import subprocess
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from meshsec.adapters.kernel import xfrm
from meshsec.core.ike.drift_kernel import XfrmPolicy, XfrmState
from meshsec.core.values.model import Address
from namespaces import needs_root

pytestmark = needs_root

A, B = IPv6Network("fc00::a/128"), IPv6Network("fc00::b/128")
ENDS: list[tuple[Address, Address]] = [
    (IPv6Address("fc00::a"), IPv6Address("fc00::b")),
    (IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")),
]
TEMPLATE = ["tmpl", "proto", "esp", "mode"]


def add(*words: str) -> None:
    subprocess.run(["ip", "xfrm", "policy", "add", *words], check=True)


def test_policies_are_read_with_what_they_demand(inside: str) -> None:
    assert asyncio.run(xfrm.policies()) == ()
    add("src", str(A), "dst", str(B), "dir", "out", "priority", "9", *TEMPLATE, "transport")
    add("src", str(B), "dst", str(A), "dir", "in", *TEMPLATE, "transport", "level", "use")
    add("src", "10.0.0.0/8", "dst", "10.1.0.0/16", "dir", "fwd", "action", "block", "priority", "4000000000")
    add("src", "::/0", "dst", "::/0", "proto", "udp", "dport", "53", "dir", "out")
    assert set(asyncio.run(xfrm.policies())) == {
        XfrmPolicy("out", A, B, 9, allows=True, templates=(("transport", False),)),
        XfrmPolicy("in", B, A, 0, allows=True, templates=(("transport", True),)),
        XfrmPolicy("fwd", IPv4Network("10.0.0.0/8"), IPv4Network("10.1.0.0/16"), 4_000_000_000, allows=False),
        XfrmPolicy("out", IPv6Network("::/0"), IPv6Network("::/0"), 0, allows=True, narrowed=True),
    }


def test_policies_for_neighbour_discovery_protect_no_user_data(inside: str) -> None:
    for kind in ("135", "136"):
        add("src", "::/0", "dst", "::/0", "proto", "ipv6-icmp", "type", kind, "dir", "out", "priority", "1")
    add("src", "::/0", "dst", "::/0", "proto", "ipv6-icmp", "type", "128", "dir", "out", "priority", "1")
    (echo,) = asyncio.run(xfrm.policies())
    assert echo.narrowed


def test_many_answers_are_read_to_the_end(inside: str) -> None:
    lines = [f"xfrm policy add src fc00::a/128 dst fc01::{number:x}/128 dir out" for number in range(2000)]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
    assert len({policy.destination for policy in asyncio.run(xfrm.policies())}) == len(lines)


def test_without_an_sa_no_state_is_found_and_removing_one_is_no_error(inside: str) -> None:
    assert asyncio.run(xfrm.states()) == ()
    gone = [XfrmState(one, other, "00004242", "tunnel", 0) for one, other in ENDS]
    asyncio.run(xfrm.remove(gone))
