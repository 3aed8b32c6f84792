"""The rules for `meshsec bench throughput`: what lets its flow pass in the clear, and what keeps strangers from it.

Theory of operation. The fail-closed rules need no daemon to stay in force, so an opening in them would survive
meshsecd. They therefore accept the flow only with a mark, and a table of its own sets that mark. The table belongs to a
netlink socket of meshsecd, so the kernel removes it the moment meshsecd ends, however it ends. An element with a
timeout says for how long it marks, so the kernel closes the flow, too, when meshsecd does not (ADR 0084).

A source port proves nothing: whoever forges the peer's address chooses it. So UDP has the same fixed port at both ends.
iperf3 lets the kernel choose the client's TCP port of its control connection, so the table learns that port when this
node connects. Towards the node that measures no rule lets a TCP connection begin.
"""

from ipaddress import IPv6Address

from meshsec.core.channels.nft_text import chain
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT, Opening
from meshsec.core.values.model import RulesSpec

TABLE = "meshsec_bench"
COUNTERS = ("bench_out", "bench_in")
"""Names of the counters of what passed in the clear."""
MARK = 0x6D626E63
"""Packets of the flow have it within this node. Only what has CAP_NET_ADMIN could set it otherwise."""
_PROTOCOLS = ("tcp", "udp")
_BEGINS = "tcp flags & (syn | ack) == syn"
_GOES_ON = "tcp flags & (syn | ack) != syn"
_UDP = f"udp sport {CLEAR_PORT} udp dport {CLEAR_PORT}"
_TCP = {True: f"tcp dport {CLEAR_PORT}", False: f"tcp sport {CLEAR_PORT} {_GOES_ON}"}
"""What TCP looks like on its way to the node that serves, and on its way back."""
_CONNECTED = 256
"""TCP ports of this node that one opening learns at most; a step connects some twice."""


def arriving(spec: RulesSpec) -> list[str]:
    """Return what lets the flow in."""
    return _passing(spec.opening, "in")


def leaving(spec: RulesSpec) -> list[str]:
    """Return what lets the flow out."""
    return _passing(spec.opening, "out")


def _passing(opening: Opening | None, direction: str) -> list[str]:
    if opening is None:
        return []
    return [
        f'meta mark {MARK:#x} {_flow(opening, direction)} {ports} counter name "bench_{direction}" accept'
        for ports in (_TCP[_to_server(opening, direction)], _UDP)
    ]


def render(peers: frozenset[IPv6Address], opening: Opening | None, seconds: int, *, serves: bool) -> str:
    """Return the transaction for the table that meshsecd owns.

    ``peers``: the addresses of the peer, from which alone a node that serves is asked. ``seconds``: how long the
    opening lasts at most.
    """
    parts = []
    if opening is not None:
        marked = f"meta mark set {MARK:#x}"
        element = f"elements = {{ {opening.peer} timeout {seconds}s }}"
        parts += [
            f"  set open {{ type ipv6_addr; flags timeout; {element} }}",
            f"  set connected {{ type inet_service; flags dynamic; size {_CONNECTED}; }}",
            _hooked("prerouting", "raw - 10", _marking(opening, "in", marked)),
            _hooked("output", "filter - 10", _marking(opening, "out", marked)),
        ]
    if serves:
        parts.append(_strangers(peers))
    body = "\n".join(parts)
    flags = "  flags owner;\n"
    head = f"add table inet {TABLE} {{\n{flags}}}\ndelete table inet {TABLE}\n"
    return f"{head}table inet {TABLE} {{\n{flags}{body}\n}}\n"


def _marking(opening: Opening, direction: str, marked: str) -> list[str]:
    still = f"ip6 {'saddr' if direction == 'in' else 'daddr'} @open"
    tcp = _TCP[_to_server(opening, direction)]
    if opening.serves:
        matches = [tcp, _UDP]
    elif direction == "out":
        matches = [f"{tcp} {_BEGINS} add @connected {{ tcp sport }}", f"{tcp} tcp sport @connected", _UDP]
    else:
        matches = [f"{tcp} tcp dport @connected", _UDP]
    return [f"{still} {_flow(opening, direction)} {one} {marked}" for one in matches]


def _strangers(peers: frozenset[IPv6Address]) -> str:
    ports = f"{{ {CLEAR_PORT}, {FLOW_PORT}, {TALK_PORT} }}"
    allowed = ", ".join(map(str, sorted(peers)))
    rules = [f"{protocol} dport {ports} ip6 saddr != {{ {allowed} }} drop" for protocol in _PROTOCOLS]
    ipv4 = [f"meta nfproto ipv4 {protocol} dport {ports} drop" for protocol in _PROTOCOLS]
    return _hooked("input", "filter - 5", [*rules, *ipv4])


def _hooked(hook: str, priority: str, rules: list[str]) -> str:
    return chain(hook, [f"type filter hook {hook} priority {priority}; policy accept;", *rules])


def _flow(opening: Opening, direction: str) -> str:
    source, target = (opening.peer, opening.own) if direction == "in" else (opening.own, opening.peer)
    return f"ip6 saddr {source} ip6 daddr {target}"


def _to_server(opening: Opening, direction: str) -> bool:
    """Return whether packets of this direction go to the node that serves."""
    return opening.serves == (direction == "in")
