"""The kernel's side of the drift: XFRM states and policies against the SAs and the rules that should be in force.

The kernel takes the policy with the lowest priority number of those whose selector holds a packet (RFC 4301, section
4.4.1, calls the whole the SPD). So a foreign one may let user data pass in the clear, or stop it, whatever ours say.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshsec.core.channels.desired import CHILD_NETWORKS, host
from meshsec.core.ike.drift import NEGOTIATE_AGAIN, Difference, Wanted, Where
from meshsec.core.values.model import Address, ChildSa, ConnectionSpec, IkeSa, Network, RulesSpec


@dataclass(frozen=True, slots=True)
class XfrmState:
    """An SA of the kernel; its key is not read."""

    source: Address
    destination: Address
    spi: str
    """8 hexadecimal digits."""
    mode: str
    replay_window: int
    """Packets."""
    packets: int = 0
    """That it has protected or taken."""


@dataclass(frozen=True, slots=True)
class XfrmPolicy:
    """A policy of the kernel; those of single sockets are not read."""

    direction: str
    """``in``, ``out`` or ``fwd``."""
    source: Network
    destination: Network
    priority: int
    allows: bool
    """False: it blocks."""
    templates: tuple[tuple[str, bool], ...] = ()
    """Each transformation (ESP, AH, IPComp): its mode, and whether a packet may pass without it."""
    narrowed: bool = False
    """Whether it is narrowed to a protocol, a port, an interface or a mark."""

    @property
    def selector(self) -> tuple[str, Network, Network]:
        """What distinguishes policies in the kernel."""
        return self.direction, self.source, self.destination

    def __str__(self) -> str:
        action = "allow" if self.allows else "block"
        modes = ", ".join(f"ESP {mode}{' or not' if optional else ''}" for mode, optional in self.templates)
        ending = f" with {modes}" if modes else " without IPsec" if self.allows else ""
        return f"priority {self.priority}: {action}{ending}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the kernel has, and by what it is judged."""

    rules: RulesSpec
    block_priority: int
    """Priority of the policies that are the second wall."""
    blocks: frozenset[tuple[str, Network, Network]] = frozenset()
    """Selectors of those that should be installed."""
    endpoints: frozenset[Address] = frozenset()
    """Addresses of this node and of its peers on which IKE runs."""
    states: Sequence[XfrmState] = ()
    policies: Sequence[XfrmPolicy] = ()
    esp: bool = True
    """ESP is the kernel's: SAs of the IKE daemon have states and policies."""
    sas: Mapping[str, Sequence[IkeSa]] = field(default_factory=dict)
    """All, those that are being replaced too: what is none of theirs is foreign."""


def differences(wanted: Wanted, kernel: Kernel) -> Iterator[Difference]:
    """Return all differences in the kernel's states and policies."""
    yield from _walls(kernel)
    yield from _states(wanted, kernel)
    yield from _policies(wanted, kernel)
    yield from _strange_policies(wanted, kernel)


_FLUSH_STATE = "ip xfrm state delete src {0.source} dst {0.destination} proto esp spi 0x{0.spi}"
_FLUSH_POLICY = "ip xfrm policy delete src {0.source} dst {0.destination} dir {0.direction}"
_WALLS = "meshsecd sets it again within a minute; its log says why when it cannot"


def strange_states(
    states: Iterable[XfrmState], sas: Mapping[str, Sequence[IkeSa]], endpoints: Collection[Address]
) -> Iterator[XfrmState]:
    """Return the states between given endpoints that belong to no CHILD_SA."""
    known = {spi for ike_sas in sas.values() for spi in _spis(ike_sas)}
    for state in states:
        if state.spi not in known and (state.source in endpoints or state.destination in endpoints):
            yield state


def _states(wanted: Wanted, kernel: Kernel) -> Iterator[Difference]:
    found = {state.spi: state for state in kernel.states}
    for state in strange_states(kernel.states, kernel.sas, kernel.endpoints):
        what = f"state of SPI {state.spi}, {state.source} to {state.destination}"
        should, fix = "none: no CHILD_SA of the IKE daemon", _FLUSH_STATE.format(state)
        yield Difference(Where.XFRM_STATE, _peer_of(wanted, state), what, "there", should, fix)
    for one in _carrying(wanted, kernel) if kernel.esp else ():
        yield from _state(one, one.spi_in, found.get(one.spi_in))
        if one.spi_out in found or not one.ways_out & found.keys():
            yield from _state(one, one.spi_out, found.get(one.spi_out))


def _state(one: "_Carrying", spi: str, state: XfrmState | None) -> Iterator[Difference]:
    def differs(what: str, is_: str, should: str) -> Difference:
        fix = NEGOTIATE_AGAIN.format(peer=one.peer)
        return Difference(Where.XFRM_STATE, one.peer, f"state of SPI {spi}{what}", is_, should, fix)

    if state is None:
        yield differs("", "none", "that of the CHILD_SA")
        return
    if state.mode != one.mode:
        yield differs(": mode", state.mode, one.mode)
    if spi == one.spi_in and state.replay_window != one.replay_window:
        yield differs(": replay window", str(state.replay_window), str(one.replay_window))


class _Carrying(NamedTuple):
    """A CHILD_SA that carries, and what is wanted of it."""

    peer: str
    spi_in: str
    spi_out: str
    ways_out: frozenset[str]
    """The same of all CHILD_SAs of its name. The end that answers a rekeying sends by the one of before until the peer
    has taken that back, and only then installs the new one outwards."""
    mode: str
    replay_window: int


def _spis(ike_sas: Iterable[IkeSa]) -> Iterator[str]:
    for sa in ike_sas:
        for child in sa.children:
            yield from (child.spi_in, child.spi_out)


def _carrying(wanted: Wanted, kernel: Kernel) -> Iterator[_Carrying]:
    for name, ike_sas in kernel.sas.items():
        spec = wanted.connections.get(name)
        modes = {child.name: child.mode for child in spec.children} if spec else {}
        for child in _live_children(ike_sas):
            if spec and child.name in modes:
                title, mode, ways = wanted.title(name), modes[child.name], _ways_out(ike_sas, child.name)
                yield _Carrying(title, child.spi_in, child.spi_out, ways, mode, spec.replay_window)


def _ways_out(ike_sas: Iterable[IkeSa], name: str) -> frozenset[str]:
    return frozenset(child.spi_out for sa in ike_sas for child in sa.children if child.name == name)


def _live_children(ike_sas: Iterable[IkeSa]) -> list[ChildSa]:
    return [child for sa in ike_sas if sa.is_live for child in sa.children if child.carries]


def _peer_of(wanted: Wanted, state: XfrmState) -> str | None:
    ends = {state.source, state.destination}
    found = (name for name, spec in wanted.connections.items() if ends & {spec.remote_address, spec.remote_id})
    name = next(found, None)
    return wanted.title(name) if name else None


def _policies(wanted: Wanted, kernel: Kernel) -> Iterator[Difference]:
    """Yield the differences of the policies of established CHILD_SAs."""
    if not kernel.esp:
        return
    found = {policy.selector: policy for policy in kernel.policies if not policy.narrowed}
    for name, spec in wanted.connections.items():
        carrying = {child.name for child in _live_children(kernel.sas.get(name, ()))}
        for mode, selector in _selectors(spec, carrying):
            peer, policy = wanted.title(name), found.get(selector)
            is_ = str(policy) if policy else "none"
            if policy is None or not policy.allows or [(mode, False)] != list(policy.templates):
                what, fix = _named(selector), NEGOTIATE_AGAIN.format(peer=peer)
                yield Difference(Where.XFRM_POLICY, peer, what, is_, f"allow with ESP {mode}", fix)


def _selectors(spec: ConnectionSpec, names: Collection[str]) -> Iterator[tuple[str, tuple[str, Network, Network]]]:
    """Return the mode and selectors of the policies of CHILD_SAs. Only those for networks forward user data."""
    for child in spec.children:
        for local in child.local_ts if child.name in names else ():
            for remote in child.remote_ts:
                yield child.mode, ("out", local, remote)
                yield child.mode, ("in", remote, local)
                if child.name.startswith(CHILD_NETWORKS):
                    yield child.mode, ("fwd", remote, local)


def _walls(kernel: Kernel) -> Iterator[Difference]:
    present = {policy.selector for policy in kernel.policies if _is_wall(kernel, policy)}
    for selector in sorted(kernel.blocks - present, key=str):
        should = f"priority {kernel.block_priority}: block"
        yield Difference(Where.XFRM_POLICY, None, _named(selector), "none", should, _WALLS)


def _is_wall(kernel: Kernel, policy: XfrmPolicy) -> bool:
    return not policy.allows and policy.priority == kernel.block_priority and not policy.narrowed


def _strange_policies(wanted: Wanted, kernel: Kernel) -> Iterator[Difference]:
    """Yield policies of unknown origin that match a peer's user data and win over the second wall."""
    ours = {
        selector
        for spec in wanted.connections.values()
        for _, selector in _selectors(spec, {child.name for child in spec.children})
    }
    for policy in kernel.policies:
        is_ours = not policy.narrowed and policy.selector in (ours if kernel.esp else ())
        if is_ours or policy.priority >= kernel.block_priority or not _holds_user_data(kernel.rules, policy):
            continue
        what, fix = _named(policy.selector), _FLUSH_POLICY.format(policy)
        yield Difference(Where.XFRM_POLICY, None, what, str(policy), "none: neither meshsec's nor an SA's", fix)


def _holds_user_data(rules: RulesSpec, policy: XfrmPolicy) -> bool:
    if policy.direction not in ("in", "out"):
        return False
    here, there = policy.source, policy.destination
    if policy.direction == "in":
        here, there = there, here
    return any(_within(own, here) for own in rules.own) and any(_within(peer, there) for peer in rules.protected)


def _within(address: Address, network: Network) -> bool:
    return host(address).version == network.version and address in network


def _named(selector: tuple[str, Network, Network]) -> str:
    direction, source, destination = selector
    return f"policy {source} to {destination}, {direction}"
