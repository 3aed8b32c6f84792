"""The table of the clients' side of an access node: who may send from which address, and what reaches whom (nft(8)).

Theory of operation. A client sends only from addresses that belong to it (RFC 6620, RFC 7039); the sets say which. By
DHCP it asks for itself alone: who may name others as the asking client (chaddr) could take all leases, and have
meshsecd serve clients that do not exist. The name must be the source of a frame that came in the last minutes. Of what
it sends to the node itself only DHCP, DNS, ICMP and neighbour discovery pass, and what asks for the page where clients
may see it. What goes from client to client passes
through the node's routes, so that the same rules judge it: the bridge's ports are isolated from each other.

A flow to the outside stays with its gateway while the client moves, because the former node says which that is. It gets
the gateway's mark before the table of flows sees it (``nft_flows``).

A move changes elements of sets and no rule. Where its packets go is a matter of the fail-closed rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from meshsec.core.access.clients import Client
from meshsec.core.access.messages import Flow
from meshsec.core.access.shared_address import DEVICE, addresses_of
from meshsec.core.channels.nft_text import chain
from meshsec.core.values.model import Network

TABLE: Final = "meshsec_access"
_FAMILIES = {4: "ip", 6: "ip6"}
_FLOW = "ipv{0}_addr . ipv{0}_addr . inet_proto . inet_service . inet_service"
_KEY = "{0} saddr . {0} daddr . meta l4proto . th sport . th dport"
_ON_LINK = "ip6 saddr fe80::/10 ip6 daddr { fe80::/10, ff02::/16 }"
_ASKS = (
    "udp dport 67 update @asks { @ll,48,48 }",
    'udp dport 67 @th,288,48 != @asks counter name "foreign_source" drop',
)
"""The frame's source, and the first six octets of chaddr behind the UDP header (RFC 2131, section 2)."""
_TO_NODE = (
    "udp dport { 53, 67, 547 } accept",
    "tcp dport 53 accept",
    "meta l4proto { icmp, icmpv6 } accept",
)


def render(networks: Iterable[Network], *, isolated: bool, page_port: int | None = None) -> str:
    """Return the table without clients. ``networks`` are the clients'; ``page_port``: where they see the page."""
    between = [
        f'iifname "{DEVICE}" {_FAMILIES[one.version]} daddr {one} counter name "between_clients" drop'
        for one in networks
        if isolated
    ]
    return "\n".join(
        [
            f"table inet {TABLE} {{",
            "  counter foreign_source { }",
            "  counter to_node { }",
            "  counter between_clients { }",
            "  set asks { typeof @ll,48,48; size 1024; flags dynamic,timeout; timeout 5m; }",
            "  set bound4 { type ether_addr . ipv4_addr; }",
            "  set bound6 { type ether_addr . ipv6_addr; }",
            *(f"  map moved{version} {{ type {_FLOW.format(version)} : mark; }}" for version in _FAMILIES),
            chain(
                "prerouting",
                [
                    "type filter hook prerouting priority raw - 5; policy accept;",
                    f'iifname != "{DEVICE}" accept',
                    *_ASKS,
                    "ether saddr . ip saddr @bound4 accept",
                    "ether saddr . ip6 saddr @bound6 accept",
                    "ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
                    f"{_ON_LINK} accept",
                    "ip6 saddr :: icmpv6 type { nd-neighbor-solicit, nd-router-solicit, mld2-listener-report } accept",
                    'counter name "foreign_source" drop',
                ],
            ),
            chain(
                "moved",
                [
                    "type filter hook prerouting priority mangle - 5; policy accept;",
                    f'iifname != "{DEVICE}" accept',
                    "ct mark != 0x0 accept",
                    *(f"ct mark set {_KEY.format(family)} map @moved{one}" for one, family in _FAMILIES.items()),
                ],
            ),
            chain(
                "input",
                [
                    "type filter hook input priority filter - 5; policy accept;",
                    f'iifname != "{DEVICE}" accept',
                    "ct state established accept",
                    *_TO_NODE,
                    *_page(networks, page_port),
                    'counter name "to_node" drop',
                ],
            ),
            chain("forward", ["type filter hook forward priority filter - 5; policy accept;", *between]),
            "}\n",
        ]
    )


def _page(networks: Iterable[Network], port: int | None) -> Iterator[str]:
    """Yield what lets clients see the page, at the nodes' address in their networks alone."""
    for one in addresses_of(networks) if port is not None else ():
        yield f"{_FAMILIES[one.version]} daddr {one.ip} tcp dport {port} accept"


def contents(clients: Iterable[Client], marks: Mapping[Flow, int]) -> str:
    """Return the commands that make these the clients from whom packets are taken, and give their flows these marks."""
    pairs = [(client.mac, address) for client in clients for address in client.addresses]
    lines = []
    for version in (4, 6):
        lines.append(f"flush set inet {TABLE} bound{version}")
        elements = sorted(f"{mac} . {address}" for mac, address in pairs if address.version == version)
        if elements:
            lines.append(f"add element inet {TABLE} bound{version} {{ {', '.join(elements)} }}")
        lines.append(f"flush map inet {TABLE} moved{version}")
        moved = sorted(f"{_tuple(flow)} : {mark:#x}" for flow, mark in marks.items() if flow.source.version == version)
        if moved:
            lines.append(f"add element inet {TABLE} moved{version} {{ {', '.join(moved)} }}")
    return "\n".join((*lines, ""))


def _tuple(flow: Flow) -> str:
    ports = f"{flow.source_port} . {flow.target_port}"
    return f"{flow.source} . {flow.target} . {flow.protocol} . {ports}"
