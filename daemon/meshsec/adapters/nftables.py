"""The fail-closed rules: one nftables table, replaced as a whole in one transaction.

Theory of operation. The table ``inet meshsec`` hooks into output and input, not into forward: a relay forwards the
packets of strangers, and those of its own peers among them. User data to or from a peer passes only inside IPsec: on
the kernel ground a packet that has a transformation (``rt ipsec``, ``meta ipsec``), on the libipsec ground one that
takes charon's TUN device. IKE, ESP and the ICMPv6 errors of path MTU discovery pass in the clear. The rules need no
daemon to stay in force, and without a daemon there is neither transformation nor TUN device: all is dropped. A peer
that was removed is barred, which closes IPsec too, for as long as its SAs take to end. While meshsecd runs, the table
``inet meshsec_held`` (or ``meshsec_held2``) says the same again: nobody else can remove that one (ADR 0045).

Where there is an overlay, its TUN device is the second protected way, whatever a peer's mode is: the two ends of a pair
may switch one after the other, and a switch changes no rule. By that device user data passes with those alone who are
trusted now; what leads there is a route, and without overlayd there is no such device.

On the kernel ground XFRM block policies below charon's own are a second wall, but for those with whom user data may
pass by the overlay: XFRM cannot tell by which device it does.
"""

import asyncio
import itertools
import json
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from meshsec.core.model import Address, Bypass, EspGround, Network, RulesSpec, UnknownNodes

TABLE = "meshsec"
HELD_TABLES = ("meshsec_held", "meshsec_held2")
"""One at a time, but while a meshsecd takes over from another."""
_HELD_PRIORITY = "filter + 10"
"""Behind the table proper, which so counts what is dropped."""
TUN_DEVICE = "ipsec0"
"""What charon's kernel-libipsec calls its device when no other has that name."""

BLOCK_PRIORITY = 4_000_000_000
"""XFRM prefers the lower number; charon's own policies stay below 400000."""

_TIMEOUT = 60.0
"""Seconds for one run of nft or ip; the first use loads kernel modules, which a slow machine takes long for."""

_IKE = "udp sport { 500, 4500 } udp dport { 500, 4500 }"
_ERRORS6 = "destination-unreachable, packet-too-big, time-exceeded, parameter-problem"
_ICMPV6_ERRORS = f"icmpv6 type {{ {_ERRORS6} }}"
_ICMPV6_ON_LINK = f"icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert, {_ERRORS6} }}"
_ICMP_ERRORS = "icmp type { destination-unreachable, time-exceeded, parameter-problem }"
_OLSR = "ip daddr 224.0.0.109 udp sport 269 udp dport 269"
"""LL-MANET-Routers and the manet port (RFC 5498): routers on interfaces without addresses of their own."""

_STRANGERS_RATE = "limit rate 50/second burst 100 packets"
"""IKE of nodes without a card: they get their refusal, but cannot make charon work without bound."""


class RulesError(Exception):
    """The rules could not be set or read; the text is that of nft or ip."""


def render(spec: RulesSpec) -> str:
    """The transaction for ``nft -f``: whatever stood before is gone when it is through, and not a moment earlier."""
    return _transaction(TABLE, "", _body(spec, "filter"))


def render_held(spec: RulesSpec, table: str) -> str:
    """The same rules for a table that belongs to whoever runs this transaction."""
    return _transaction(table, "  flags owner;\n", _body(spec, _HELD_PRIORITY))


def _transaction(name: str, flags: str, body: str) -> str:
    fresh = f"add table inet {name}" + (f" {{\n{flags}}}" if flags else "")
    return f"{fresh}\ndelete table inet {name}\ntable inet {name} {{\n{flags}{body}\n}}\n"


def _body(spec: RulesSpec, priority: str) -> str:
    sets = [
        _set("protected6", "ipv6_addr", _sorted6(spec.protected)),
        _set("protected4", "ipv4_addr", _sorted4(spec.protected)),
        _set("locators", "ipv6_addr", sorted(spec.locators)),
        _set("barred6", "ipv6_addr", _sorted6(spec.barred)),
        _set("barred4", "ipv4_addr", _sorted4(spec.barred)),
        _set("admitted6", "ipv6_addr", sorted(spec.admitted)),
        _set("mesh6", "ipv6_addr", _prefixes(spec.mesh_prefixes, IPv6Network), interval=True),
        _set("mesh4", "ipv4_addr", _prefixes(spec.mesh_prefixes, IPv4Network), interval=True),
    ]
    chains = [_chain("output", priority, _output(spec)), _chain("input", priority, _input(spec))]
    return "\n".join(_COUNTERS + sets + chains)


_COUNTER_NAMES = (
    "clear_out",
    "clear_in",
    "unknown_out",
    "unknown_in",
    "barred_out",
    "barred_in",
    "overlay_out",
    "overlay_in",
    "spoofed",
    "bypass_out",
    "bypass_in",
)

_COUNTERS = [f"  counter {name} {{ }}" for name in _COUNTER_NAMES]


def _output(spec: RulesSpec) -> list[str]:
    protected = _IPSEC_OUT[spec.ground]
    rules = [
        'oifname "lo" accept',
        *_barred(spec.ground, "daddr", "barred_out"),
        *_overlay(spec, "oifname", "daddr", "overlay_out"),
        *protected,
        f"ip6 daddr @locators {_IKE} accept",
        f"ip6 daddr @locators {_ICMPV6_ERRORS} accept",
        *_drop("daddr", "clear_out"),
        *(rule for one in spec.bypass for rule in _bypass(one, "daddr", "dport", "bypass_out")),
    ]
    return rules + (_unknown("daddr", "unknown_out") if spec.unknown_nodes is UnknownNodes.DROP else [])


def _input(spec: RulesSpec) -> list[str]:
    rules = [
        'iifname "lo" accept',
        'ip6 saddr @mesh6 fib saddr type local counter name "spoofed" drop',
        'ip saddr @mesh4 fib saddr type local counter name "spoofed" drop',
        *_barred(spec.ground, "saddr", "barred_in"),
        *_overlay(spec, "iifname", "saddr", "overlay_in"),
        *_IPSEC_IN[spec.ground],
        f"ip6 saddr @locators {_IKE} accept",
        f"ip6 saddr @locators {_ICMPV6_ERRORS} accept",
        f"{_OLSR} accept",
        *_drop("saddr", "clear_in"),
        *(rule for one in spec.bypass for rule in _bypass(one, "saddr", "sport", "bypass_in")),
    ]
    return rules + (_unknown("saddr", "unknown_in") if spec.unknown_nodes is UnknownNodes.DROP else [])


_IPSEC_OUT = {
    EspGround.LIBIPSEC: [f'oifname "{TUN_DEVICE}" accept'],
    EspGround.KERNEL: [
        "rt ipsec exists accept",
        f"ip6 daddr @protected6 {_IKE} accept",
        "ip6 daddr @protected6 meta l4proto esp accept",
    ],
}

_IPSEC_IN = {
    EspGround.LIBIPSEC: [f'iifname "{TUN_DEVICE}" accept'],
    EspGround.KERNEL: [
        "meta ipsec exists accept",
        f"ip6 saddr @protected6 {_IKE} accept",
        "ip6 saddr @protected6 meta l4proto esp accept",
        f"ip6 saddr @protected6 {_ICMPV6_ERRORS} accept",
    ],
}


def _barred(ground: EspGround, direction: str, counter: str) -> list[str]:
    """Before what passes inside IPsec. On the kernel ground IKE, which has to close the SAs, uses the same address."""
    ike = [f"ip6 {direction} @barred6 {_IKE} accept"] if ground is EspGround.KERNEL else []
    return [
        *ike,
        f'ip6 {direction} @barred6 counter name "{counter}" drop',
        f'ip {direction} @barred4 counter name "{counter}" drop',
    ]


def _overlay(spec: RulesSpec, interface: str, direction: str, counter: str) -> list[str]:
    """The device of the overlay. The kernel's own multicast on it is nobody's user data, and is not counted."""
    if not spec.overlay_device:
        return []
    device = f'{interface} "{spec.overlay_device}"'
    return [
        f"{device} ip6 {direction} @admitted6 accept",
        f"{device} ip6 daddr ff00::/8 drop",
        f'{device} counter name "{counter}" drop',
    ]


def _drop(direction: str, counter: str) -> list[str]:
    return [
        f'ip6 {direction} @locators counter name "{counter}" drop',
        f'ip6 {direction} @protected6 counter name "{counter}" drop',
        f'ip {direction} @protected4 counter name "{counter}" drop',
    ]


def _bypass(entry: Bypass, address: str, port: str, counter: str) -> list[str]:
    """Behind what drops a peer's user data. Narrowed to a protocol, it needs word of the way besides."""
    family, errors = ("ip", _ICMP_ERRORS) if entry.prefix.version == 4 else ("ip6", _ICMPV6_ON_LINK)
    there = f"{family} {address} {entry.prefix}"
    narrowed = f" {entry.protocol} {port} {entry.port}" if entry.port else f" meta l4proto {entry.protocol}"
    passes = f'{there}{narrowed if entry.protocol else ""} counter name "{counter}" accept'
    return [passes, f"{there} {errors} accept"] if entry.protocol else [passes]


def _unknown(direction: str, counter: str) -> list[str]:
    return [
        f"ip6 {direction} @mesh6 {_IKE} {_STRANGERS_RATE} accept",
        f"ip6 {direction} @mesh6 {_ICMPV6_ERRORS} accept",
        f'ip6 {direction} @mesh6 counter name "{counter}" drop',
        f'ip {direction} @mesh4 counter name "{counter}" drop',
    ]


def _set(name: str, kind: str, elements: Sequence[object], *, interval: bool = False) -> str:
    flags = " flags interval; auto-merge;" if interval else ""
    content = f" elements = {{ {', '.join(map(str, elements))} }}" if elements else ""
    return f"  set {name} {{ type {kind};{flags}{content} }}"


def _chain(hook: str, priority: str, rules: Iterable[str]) -> str:
    lines = "\n".join(f"    {rule}" for rule in rules)
    return f"  chain {hook} {{\n    type filter hook {hook} priority {priority}; policy accept;\n{lines}\n  }}"


def _sorted6(addresses: Iterable[Address]) -> list[IPv6Address]:
    return sorted(address for address in addresses if isinstance(address, IPv6Address))


def _sorted4(addresses: Iterable[Address]) -> list[IPv4Address]:
    return sorted(address for address in addresses if isinstance(address, IPv4Address))


def _prefixes(networks: Iterable[Network], kind: type[IPv4Network] | type[IPv6Network]) -> list[str]:
    return sorted(str(network) for network in networks if isinstance(network, kind))


def render_block_policies(spec: RulesSpec) -> list[str]:
    """Lines for ``ip -batch`` with ``block_selectors``."""
    return [f"src {source} dst {target} dir {direction}" for direction, source, target in block_selectors(spec)]


def block_selectors(spec: RulesSpec) -> list[tuple[str, IPv6Network, IPv6Network]]:
    """Those of XFRM policies that block what charon's policies, which win over them, do not take: direction, from, to.

    Outbound only from this node's own address, because the kernel asks outbound policies about forwarded packets too,
    and a relay forwards those of its peers. Its prefix is one bit short, because the kernel keeps one policy for each
    selector whatever the priority, so that the same selector would replace charon's; the address beside is nobody's.
    IPv4 is left to nftables: there the address beside may be a neighbour's, and OLSR's multicast comes from the peers'
    own addresses. None where ESP is not the kernel's: they would block charon's TUN device.
    """
    if spec.ground is not EspGround.KERNEL:
        return []
    own = [IPv6Network((address, 127), strict=False) for address in _sorted6(spec.own)]
    peers = _sorted6(spec.protected - spec.admitted)
    out = [("out", network, IPv6Network(peer)) for network, peer in itertools.product(own, peers)]
    return out + [("in", IPv6Network(peer), _ANYWHERE) for peer in peers]


_ANYWHERE = IPv6Network("::/0")


class Nftables:
    """Applies the rules and tells whether they still stand as applied."""

    def __init__(self) -> None:
        self._applied: tuple[RulesSpec, list[str]] | None = None

    async def apply(self, spec: RulesSpec) -> None:
        """Replace the rules and read them back. Raises ``RulesError``; what stood before then stands."""
        await _run("nft", "-f", "-", text=render(spec))
        await self._apply_block_policies(spec)
        listing = await _listing()
        _verify(spec, listing)
        self._applied = (spec, _settled_entries(listing))

    async def found(self, ground: EspGround) -> RulesSpec | None:
        """What a predecessor left, as far as its sets tell: whose addresses are closed. None when there is nothing."""
        try:
            sets = _sets(await _listing())
        except RulesError:
            return None
        protected = sets.get("protected6", set()) | sets.get("protected4", set())
        return RulesSpec(
            ground=ground,
            own=frozenset(),
            protected=frozenset(map(ip_address, protected)),
            locators=frozenset(map(IPv6Address, sets.get("locators", set()))),
            mesh_prefixes=(),
            unknown_nodes=UnknownNodes.DROP,
        )

    async def standing(self) -> RulesSpec | None:
        """The rules that stand, when they are those that were applied last; None when gone, altered or foreign."""
        if self._applied is None:
            return None
        spec, applied = self._applied
        try:
            stands = _settled_entries(await _listing()) == applied
            blocked = await _block_policies(spec.ground)
        except RulesError:
            return None
        return spec if stands and blocked == set(render_block_policies(spec)) else None

    async def altered(self) -> list[str]:
        """What of the rules that were applied last is not there, and what is there besides; empty when they stand."""
        if self._applied is None:
            return ["none were applied"]
        applied = self._applied[1]
        try:
            standing = _settled_entries(await _listing())
        except RulesError:
            return [f"the table inet {TABLE} is not there"]
        gone = [f"{_described(entry)} is not there as it was applied" for entry in applied if entry not in standing]
        return gone + [f"{_described(entry)} is not meshsecd's" for entry in standing if entry not in applied]

    async def counters(self) -> dict[str, int]:
        """Packets by counter since the rules were applied last."""
        return {
            entry["counter"]["name"]: int(entry["counter"]["packets"])
            for entry in await _listing()
            if "counter" in entry
        }

    async def _apply_block_policies(self, spec: RulesSpec) -> None:
        wanted = set(render_block_policies(spec))
        standing = await _block_policies(spec.ground)
        lines = [f"xfrm policy update {line} action block priority {BLOCK_PRIORITY}" for line in sorted(wanted)]
        lines += [f"xfrm policy delete {line}" for line in sorted(standing - wanted)]
        if lines:
            await _run("ip", "-batch", "-", text="\n".join(lines) + "\n")


async def _block_policies(ground: EspGround) -> set[str]:
    """The block policies that are ours, known by their priority, in the form of ``render_block_policies``."""
    try:
        output = await _run("ip", "xfrm", "policy", "list", "priority", str(BLOCK_PRIORITY))
    except RulesError:
        if ground is EspGround.KERNEL:
            raise
        return set()  # a kernel without XFRM has no policy of ours either
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = set()
    for selector, detail in itertools.pairwise(lines):
        if selector.startswith("src ") and detail.startswith("dir ") and f"priority {BLOCK_PRIORITY}" in detail:
            found.add(f"{selector} {' '.join(detail.split()[:2])}")
    return found


async def _listing() -> list[dict[str, Any]]:
    output = await _run("nft", "-j", "list", "table", "inet", TABLE)
    try:
        entries: list[dict[str, Any]] = json.loads(output)["nftables"]
    except (ValueError, KeyError) as error:
        raise RulesError(f"nft -j list table inet {TABLE}: no valid answer ({error})") from error
    return entries


async def rewriting_chains() -> tuple[str, ...]:
    """The chains, of other programs, that may rewrite addresses before our rules see a packet, or after."""
    try:
        entries = json.loads(await _run("nft", "-j", "list", "chains"))["nftables"]
    except (RulesError, ValueError, KeyError):
        return ()
    chains = (entry["chain"] for entry in entries if "chain" in entry)
    return tuple(f"{one['family']} {one['table']} {one['name']}" for one in chains if one.get("type") == "nat")


def _settled_entries(listing: list[dict[str, Any]]) -> list[str]:
    """The listing without what changes by itself: handles, counts, the version of nft."""
    return [json.dumps(_settled(entry), sort_keys=True) for entry in listing if "metainfo" not in entry]


def _described(settled: str) -> str:
    """An entry of ``_settled_entries`` in words."""
    ((kind, entry),) = json.loads(settled).items()
    return f"a rule of the chain {entry['chain']}" if kind == "rule" else f"the {kind} {entry['name']}"


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _settled(part) for key, part in value.items() if key not in {"handle", "packets", "bytes"}}
    if isinstance(value, list):
        return [_settled(part) for part in value]
    return value


def _verify(spec: RulesSpec, listing: list[dict[str, Any]]) -> None:
    """Compare what the kernel has with what was meant, independently of how it was written."""
    meant = {
        "protected6": {str(address) for address in _sorted6(spec.protected)},
        "protected4": {str(address) for address in _sorted4(spec.protected)},
        "locators": {str(address) for address in spec.locators},
        "barred6": {str(address) for address in _sorted6(spec.barred)},
        "barred4": {str(address) for address in _sorted4(spec.barred)},
        "admitted6": {str(address) for address in spec.admitted},
    }
    sets = {name: elements for name, elements in _sets(listing).items() if name in meant}
    hooks = {entry["chain"].get("hook") for entry in listing if "chain" in entry}
    if sets != meant or hooks != {"output", "input"}:
        raise RulesError(f"the table inet {TABLE} does not read back as it was written")


def _sets(listing: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Sets of single addresses; those of prefixes are left out."""
    listed = (entry["set"] for entry in listing if "set" in entry)
    return {found["name"]: set(found.get("elem", [])) for found in listed if "interval" not in found.get("flags", [])}


async def _run(*command: str, text: str = "") -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise RulesError(f"{command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(_TIMEOUT):
            output, errors = await process.communicate(text.encode())
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise RulesError(f"{' '.join(command)}: no answer within {_TIMEOUT:.0f} s") from error
    if process.returncode:
        raise RulesError(f"{' '.join(command)}: {errors.decode('utf-8', 'replace').strip()}")
    return output.decode("utf-8", "replace")
