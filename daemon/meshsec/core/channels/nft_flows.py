"""The table that keeps flows to the outside with their gateway (nft(8); ``core/networks/flow_marks.py``).

A flow gets its mark before its first packet is routed, so that the packet takes the gateway of the mark whatever the
main table says meanwhile.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from meshsec.core.channels.nft_networks import PRIVATE
from meshsec.core.channels.nft_text import chain, prefixes, set_of
from meshsec.core.networks.flow_marks import BASE, LAST
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.model import Network
from meshsec.core.values.networks import TunnelRoute

TABLE: Final = "meshsec_flows"
_FAMILIES = {4: "ip", 6: "ip6"}
_OURS = f"ct mark {{ 0x0, {BASE:#x}-{LAST:#x} }}"
"""A flow that another program has marked is that program's."""


def render(networks: Iterable[Network]) -> str:
    """Return the table, with nothing of the gateways in it. ``networks`` are those that do not lie outside."""
    inside = [*networks]
    return "\n".join(
        [
            f"table inet {TABLE} {{",
            set_of("inside4", "ipv4_addr", prefixes(inside, IPv4Network), interval=True),
            set_of("inside6", "ipv6_addr", prefixes(inside, IPv6Network), interval=True),
            "  set living { type mark; }",
            "  map current { type nf_proto : mark; }",
            chain("beginning", [f"{_OURS} ct mark != @living ct mark set meta nfproto map @current"]),
            chain("outside", [f"{_outside(version)} jump beginning" for version in _FAMILIES]),
            chain(
                "prerouting",
                [
                    "type filter hook prerouting priority mangle; policy accept;",
                    f'iifname "{DEVICE}" accept',
                    "ct direction reply accept",
                    f'fib daddr oifname "{DEVICE}" jump outside',
                    "ct mark @living meta mark set ct mark",
                ],
            ),
            chain(
                "output",
                [
                    "type route hook output priority mangle; policy accept;",
                    "ct direction reply accept",
                    f'oifname "{DEVICE}" jump outside',
                    "ct mark @living meta mark set ct mark",
                ],
            ),
            chain(
                "postrouting",
                [
                    "type filter hook postrouting priority mangle; policy accept;",
                    f'oifname "{DEVICE}" meta mark set 0',
                ],
            ),
            "}\n",
        ]
    )


def contents(routes: Iterable[TunnelRoute]) -> str:
    """Return the commands that put the gateways into the table; empty where none lives.

    They change no rule: while rules are replaced, a packet may meet neither the old nor the new ones, and take a flow
    to another gateway, whose other address would end a TCP connection.
    """
    routes = [*routes]
    marks = sorted({one.mark for one in routes if one.mark})
    if not marks:
        return ""
    lines = [f"flush set inet {TABLE} living", f"flush map inet {TABLE} current"]
    lines.append(f"add element inet {TABLE} living {{ {', '.join(map(hex, marks))} }}")
    used = {version: mark for version in _FAMILIES if (mark := _used(version, routes))}
    lines += [f"add element inet {TABLE} current {{ ipv{version} : {mark:#x} }}" for version, mark in used.items()]
    return "\n".join((*lines, ""))


def _used(version: int, routes: Iterable[TunnelRoute]) -> int:
    """Return the mark of the gateway in use for an IP version; 0 if there is none."""
    defaults = [one for one in routes if one.destination.version == version and not one.destination.prefixlen]
    used = next((one.peer for one in defaults if not one.mark), None)
    return next((one.mark for one in defaults if one.mark and one.peer == used), 0)


def _outside(version: int) -> str:
    family = _FAMILIES[version]
    return f"{family} daddr != {PRIVATE[version]} {family} daddr != @inside{version}"
