"""Apply the fail-closed rules (``core/channels/nft_rules.py``) and read them back.

If the kernel does ESP, XFRM block policies with a lower precedence than charon's are a second barrier. Peers whose user
data may use the overlay have none, because XFRM cannot distinguish devices.
"""

import itertools
import json
from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from meshsec.adapters.kernel.nft import RulesError, altered, entries_of, run, settled_entries
from meshsec.core.channels import nft_rules
from meshsec.core.channels.nft_rules import TABLE
from meshsec.core.channels.nft_text import HOOKS
from meshsec.core.ike import guard
from meshsec.core.ike.guard import Contest
from meshsec.core.values.bench import CLEAR_PORT
from meshsec.core.values.model import Address, EspBackend, RulesSpec, UnknownNodes

BLOCK_PRIORITY = 4_000_000_000
"""XFRM prefers the lower number; charon's own policies stay below 400000."""
OPEN_PRIORITY = CLEAR_PORT
"""Before charon's policies for user data, which stay above 100000, and nobody else's."""


def render_block_policies(spec: RulesSpec) -> list[str]:
    """Return lines for ``ip -batch`` that set the policies of ``block_selectors``."""
    return [f"src {source} dst {target} dir {direction}" for direction, source, target in block_selectors(spec)]


def render_open_policies(spec: RulesSpec) -> list[str]:
    """Return the same lines for the flow of a benchmark, which neither charon's policies nor the others may take.

    They outlive meshsecd and open nothing by themselves: the rules drop what has no mark of its own (``nft_bench``).
    That is also what restricts the client's TCP port, which no policy can name in advance.
    """
    opening = spec.opening
    if spec.backend is not EspBackend.KERNEL or opening is None:
        return []
    to_server, to_client, both = f"dport {CLEAR_PORT}", f"sport {CLEAR_PORT}", f"sport {CLEAR_PORT} dport {CLEAR_PORT}"
    arriving, leaving = (to_server, to_client) if opening.serves else (to_client, to_server)
    own, peer = IPv6Network(opening.own), IPv6Network(opening.peer)
    return [
        f"src {source} dst {target} proto {protocol} {ports} dir {direction}"
        for protocol, directions in (("tcp", (arriving, leaving)), ("udp", (both, both)))
        for direction, source, target, ports in (("in", peer, own, directions[0]), ("out", own, peer, directions[1]))
    ]


def block_selectors(spec: RulesSpec) -> list[tuple[str, IPv6Network, IPv6Network]]:
    """Return direction, source and destination of the XFRM policies that block what charon's policies do not take.

    Outbound policies begin only at this node's own address: the kernel applies them to forwarded packets too, and a
    relay forwards its peers' packets. The address has a prefix of one bit less, because the kernel keeps one policy for
    each selector, so the same selector would replace charon's. No node has the second address.

    IPv4 is left to nftables: the second address could be a neighbour's, and OLSR's multicast comes from the peers' own
    addresses. Without kernel ESP there are none, because they would block charon's TUN device.
    """
    if spec.backend is not EspBackend.KERNEL:
        return []
    own = [IPv6Network((address, 127), strict=False) for address in _ipv6(spec.own)]
    peers = _ipv6(spec.protected - spec.admitted)
    out = [("out", network, IPv6Network(peer)) for network, peer in itertools.product(own, peers)]
    return out + [("in", IPv6Network(peer), _ANYWHERE) for peer in peers]


_ANYWHERE = IPv6Network("::/0")


def _ipv6(addresses: Iterable[Address]) -> list[IPv6Address]:
    return sorted(address for address in addresses if isinstance(address, IPv6Address))


class Nftables:
    """Apply the rules and report whether they are still in force."""

    def __init__(self) -> None:
        self._applied: tuple[RulesSpec, list[str]] | None = None
        self._guard: list[str] = []
        self.guard_problem = ""
        """Why the guard of the IKE daemon's ports is missing; empty if it is in force."""

    async def apply(self, spec: RulesSpec) -> None:
        """Replace the rules and read them back. Raises ``RulesError``, and then the previous rules stay in force."""
        await run("nft", "-f", "-", text=nft_rules.render(spec))
        await self._apply_policies(spec)
        listing = await entries_of(TABLE)
        _verify(spec, listing)
        self._applied = (spec, settled_entries(listing))
        await self._apply_guard(spec)

    async def found(self, backend: EspBackend) -> RulesSpec | None:
        """Return the rules that a predecessor left, as far as the sets show: the closed addresses. None without
        rules.
        """
        try:
            sets = _sets(await entries_of(TABLE), ("protected6", "protected4", "locators"))
        except RulesError:
            return None
        protected = sets.get("protected6", set()) | sets.get("protected4", set())
        return RulesSpec(
            backend=backend,
            own=frozenset(),
            protected=frozenset(map(ip_address, protected)),
            locators=frozenset(map(IPv6Address, sets.get("locators", set()))),
            mesh_prefixes=(),
            unknown_nodes=UnknownNodes.DROP,
        )

    async def in_force(self) -> RulesSpec | None:
        """Return the rules in force if they are those applied last; None if they are missing, changed or foreign."""
        if self._applied is None:
            return None
        spec, applied = self._applied
        try:
            intact = settled_entries(await entries_of(TABLE)) == applied
            intact = intact and await self._guard_is_intact()
            present = [await _policies(spec.backend, priority) for _, priority, _ in _wanted_policies(spec)]
        except RulesError:
            return None
        wanted = [lines for _, _, lines in _wanted_policies(spec)]
        return spec if intact and present == wanted else None

    async def altered(self) -> list[str]:
        """Return in words how the kernel's rules differ from those applied last; empty if they do not."""
        if self._applied is None:
            return ["none were applied"]
        of_guard = [] if self.guard_problem else await altered(guard.TABLE, self._guard)
        return await altered(TABLE, self._applied[1]) + of_guard

    async def counters(self) -> dict[str, int]:
        """Return packets by counter since the last ``apply``."""
        return {
            entry["counter"]["name"]: int(entry["counter"]["packets"])
            for entry in await entries_of(TABLE)
            if "counter" in entry
        }

    async def guard_counters(self) -> dict[str, int]:
        """Return by reason how many datagrams to the IKE daemon the guard dropped since the last ``apply``."""
        entries = await entries_of(guard.TABLE)
        return {one["counter"]["name"]: int(one["counter"]["packets"]) for one in entries if "counter" in one}

    async def contested(self) -> dict[IPv6Address, Contest]:
        """Return the peers' addresses in whose name more than one end answers IKE_SA_INIT, and what."""
        refused = dict.fromkeys(await self._guard_set(Contest.REFUSED), Contest.REFUSED)
        return refused | dict.fromkeys(await self._guard_set(Contest.ANSWERED), Contest.ANSWERED)

    async def _guard_set(self, name: Contest) -> frozenset[IPv6Address]:
        listed = await run("nft", "-j", "list", "set", "inet", guard.TABLE, name)
        try:
            return guard.addresses(json.loads(listed)["nftables"])
        except (ValueError, KeyError, TypeError) as error:
            raise RulesError(f"nft -j list set {name}: no valid answer ({error})") from error

    async def _apply_guard(self, spec: RulesSpec) -> None:
        """Replace the guard in a separate transaction, so that a kernel that cannot have it still has the rules."""
        self._guard, self.guard_problem = [], ""
        try:
            await run("nft", "-f", "-", text=guard.render(spec))
            self._guard = settled_entries(await entries_of(guard.TABLE))
        except RulesError as error:
            self.guard_problem = str(error)

    async def _guard_is_intact(self) -> bool:
        return bool(self.guard_problem) or settled_entries(await entries_of(guard.TABLE)) == self._guard

    async def _apply_policies(self, spec: RulesSpec) -> None:
        lines: list[str] = []
        for action, priority, wanted in _wanted_policies(spec):
            in_force = await _policies(spec.backend, priority)
            lines += [f"xfrm policy update {line} action {action} priority {priority}" for line in sorted(wanted)]
            lines += [f"xfrm policy delete {line}" for line in sorted(in_force - wanted)]
        if lines:
            await run("ip", "-batch", "-", text="\n".join(lines) + "\n")


def _wanted_policies(spec: RulesSpec) -> Iterator[tuple[str, int, set[str]]]:
    """Yield action, priority and lines of our policies of each kind."""
    yield "block", BLOCK_PRIORITY, set(render_block_policies(spec))
    yield "allow", OPEN_PRIORITY, set(render_open_policies(spec))


async def _policies(backend: EspBackend, priority: int) -> set[str]:
    """Return our policies of a kind in the form of ``render_block_policies``. They are recognised by their priority."""
    try:
        output = await run("ip", "xfrm", "policy", "list", "priority", str(priority))
    except RulesError:
        if backend is EspBackend.KERNEL:
            raise
        return set()  # a kernel without XFRM has no policies
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = set()
    for selector, detail in itertools.pairwise(lines):
        if selector.startswith("src ") and detail.startswith("dir ") and f"priority {priority}" in detail:
            found.add(f"{selector} {' '.join(detail.split()[:2])}")
    return found


async def rewriting_chains() -> tuple[str, ...]:
    """Return other programs' chains that may rewrite addresses before or after our rules see a packet."""
    try:
        entries = json.loads(await run("nft", "-j", "list", "chains"))["nftables"]
    except (RulesError, ValueError, KeyError):
        return ()
    chains = (entry["chain"] for entry in entries if "chain" in entry)
    return tuple(f"{one['family']} {one['table']} {one['name']}" for one in chains if one.get("type") == "nat")


def _verify(spec: RulesSpec, listing: list[dict[str, Any]]) -> None:
    """Compare the kernel's rules with the intended ones, independently of how they were written."""
    meant = nft_rules.set_contents(spec)
    sets = _sets(listing, meant.keys())
    hooks = {entry["chain"]["hook"] for entry in listing if "chain" in entry and "hook" in entry["chain"]}
    if sets != meant or hooks != HOOKS:
        raise RulesError(f"the table inet {TABLE} does not read back as it was written")


def _sets(listing: list[dict[str, Any]], names: Collection[str]) -> dict[str, set[str]]:
    """Return the sets of these names, which are sets of single addresses."""
    listed = (entry["set"] for entry in listing if "set" in entry)
    return {found["name"]: set(found.get("elem", [])) for found in listed if found["name"] in names}
