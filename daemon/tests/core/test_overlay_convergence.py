"""Two data planes in a strict fake world with any observations, choices and failures.

Nothing ever leaves in the clear, a switch interrupts nothing, and the desired state is reached.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.strategies import PEERS, observations, spec
from core.test_convergence import Solo, disturb
from core.world import card, peer, route
from meshsec.core.channels.actions import Action, ApplyRules, Keep, Permit, RouteOverlay
from meshsec.core.channels.desired import DesiredPeer, Wish
from meshsec.core.channels.events import (
    Event,
    IkeDaemonUp,
    ModesSet,
    OverlayDown,
    OverlayObserved,
    OverlayRoutesObserved,
    OverlayUp,
    PeerRemoved,
    PeerSet,
    RouteSet,
    RoutesReset,
    RulesObserved,
)
from meshsec.core.channels.reconcile import ObservedPeer, missing
from meshsec.core.values.model import DataPlane, Modes, Observed

DEVICE = "overlay0"
BY_ADDRESS = {card(number).address: number for number in PEERS}
Addresses = frozenset[IPv6Address]


class Both(Solo):
    """A node with overlayd, the kernel's routes into its device, and peers some of which it reaches."""

    def __init__(self, observed: Observed, routes: Addresses, reachable: Addresses) -> None:
        super().__init__(observed, DEVICE)
        self.up = True
        self.permitted: Addresses = frozenset()
        self.keeping: Addresses = frozenset()
        self.routes = routes
        self.reachable = reachable
        self.callers: Addresses = frozenset()
        """Peers that have a session with us because they asked for it."""
        self.trusted = set(PEERS)
        self.never_without: Addresses = frozenset()
        """Peers to which a data plane must carry from now on."""

    @property
    def ruled(self) -> bool:
        """True when the rules are ours, neither a predecessor's nor removed by another program."""
        return self.rules is not None and self.rules.overlay_device == DEVICE

    @property
    def kept(self) -> Addresses:
        return self.permitted & self.keeping & self.reachable

    @property
    def observed_overlay(self) -> OverlayObserved:
        return OverlayObserved(self.kept, self.kept | (self.callers & self.permitted))

    def _check(self, action: Action) -> None:
        super()._check(action)
        match action:
            case ApplyRules(rules):
                assert rules.overlay_device == DEVICE
                assert rules.admitted <= {card(number).address for number in self.trusted}
            case Permit(addresses):
                assert addresses <= {card(number).address for number in self.trusted}
            case Keep(addresses):
                assert addresses <= self.permitted, "a session before the permission"
            case RouteOverlay(addresses) if addresses - self.routes:
                assert self.rules is not None, "a route before the rules"
                assert addresses - self.routes <= self.rules.admitted, "a route before its rules"

    def apply(self, action: Action) -> str | None:
        """Carry out an action as an overlayd that is up; one that is away refuses (``complete``)."""
        match action:
            case Permit(addresses):
                self.permitted = addresses
            case Keep(addresses):
                self.keeping = addresses
            case RouteOverlay(addresses):
                self.routes = addresses if self.up else frozenset()
                self.tell(OverlayRoutesObserved(self.routes))
            case _:
                return super().apply(action)
        return None

    def complete(self, index: int, *, seen_first: bool = True) -> None:
        action = self.running[index]
        if isinstance(action, Permit | Keep) and not self.up:
            self.fail(index)
            return
        super().complete(index, seen_first=seen_first)
        if isinstance(action, Permit | Keep):
            self.tell(self.observed_overlay)
        assert self.never_without <= self.protected(), f"{action} left nothing that protects"

    def protected(self) -> Addresses:
        """Return the peers that user data reaches with the present routes, sessions and SAs."""
        by_overlay = self.routes & self.kept
        return frozenset(address for address in BY_ADDRESS if address in by_overlay or self.has_sa(address))

    def has_sa(self, address: IPv6Address) -> bool:
        number = BY_ADDRESS[address]
        wanted = DesiredPeer(spec(number), Wish.KEEP, initiator=True)
        return not missing(wanted, ObservedPeer(ike_sas=self.sas.get(f"n{number}", ())))

    def leaks(self) -> set[IPv6Address]:
        """Return the peers to which data would go in the clear: without route, SA and drop rule."""
        closed = self.rules.protected if self.rules is not None else frozenset()
        return {address for address in BY_ADDRESS if address not in self.routes and address not in closed} - {
            address for address in BY_ADDRESS if self.has_sa(address)
        }

    def dies(self) -> None:
        """Let overlayd die; its device and the routes go with it."""
        self.up, self.permitted, self.keeping, self.routes = False, frozenset(), frozenset(), frozenset()
        self.tell(OverlayDown("killed on purpose"), OverlayRoutesObserved(self.routes))

    def starts(self) -> None:
        self.up = True
        self.tell(OverlayUp(), self.observed_overlay)

    def choose(self, modes: Iterable[tuple[int, DataPlane]]) -> None:
        self.tell(ModesSet(Modes(peers={card(number).address: mode for number, mode in modes})))


MODES = st.sampled_from([DataPlane.IPSEC, DataPlane.OVERLAY])
NUMBERS = st.sets(st.sampled_from(PEERS))


def addresses(numbers: Iterable[int]) -> Addresses:
    return frozenset(card(number).address for number in numbers)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(observed=observations(), routed=NUMBERS, left=NUMBERS, reachable=NUMBERS, data=st.data())
def test_from_any_state_with_any_choice_and_failures_it_comes_to_rest_and_nothing_leaks(
    observed: Observed, routed: set[int], left: set[int], reachable: set[int], data: st.DataObject
) -> None:
    both = Both(observed, addresses(left), addresses(reachable))
    modes = {number: data.draw(MODES) for number in PEERS}
    both.driver.engine.handle(0.0, ModesSet(Modes(peers={card(n).address: mode for n, mode in modes.items()})))
    trust: list[Event] = [PeerSet(peer(number)) for number in PEERS]
    both.tell(*trust, RulesObserved(both.rules), OverlayRoutesObserved(both.routes))
    both.tell(RoutesReset({route(number).destination: route(number) for number in routed}))
    both.tell(IkeDaemonUp(both.observed(), daemon_restarted=False))
    both.starts()
    for _ in range(data.draw(st.integers(0, 25))):
        shaken = data.draw(st.sampled_from(["as before", "as before", "overlay", "mode"]))
        if shaken == "as before":
            disturb(both, data, routed)
        elif shaken == "overlay":
            disturb_overlay(both, data)
        else:
            modes[data.draw(st.sampled_from(PEERS))] = data.draw(MODES)
            both.choose(modes.items())
        assert not both.leaks() or not both.ruled, "a way out in the clear"
    both.end_transients()
    if not both.up:
        both.starts()
    both.tell(*(RouteSet(route(number)) for number in routed), RulesObserved(both.rules))
    both.come_to_rest()
    assert_as_desired(both, modes, routed)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_during_a_switch_one_data_plane_always_carries(data: st.DataObject) -> None:
    both = Both(Observed(), frozenset(), addresses(PEERS))
    modes = dict.fromkeys(PEERS, DataPlane.IPSEC)
    both.tell(*(PeerSet(peer(number)) for number in PEERS), RulesObserved(None))
    both.tell(RoutesReset({route(number).destination: route(number) for number in PEERS}))
    both.tell(IkeDaemonUp(both.observed(), daemon_restarted=False))
    both.starts()
    both.come_to_rest()
    both.never_without = addresses(PEERS)
    for _ in range(data.draw(st.integers(1, 30))):
        if data.draw(st.booleans()) or not both.running:
            modes[data.draw(st.sampled_from(PEERS))] = data.draw(MODES)
            both.choose(modes.items())
        else:
            both.complete(data.draw(st.integers(0, len(both.running) - 1)), seen_first=data.draw(st.booleans()))
        both.pass_time(data.draw(st.sampled_from([0.0, 0.01, 3.0])))
    both.come_to_rest()
    assert_as_desired(both, modes, set(PEERS))


def disturb_overlay(both: Both, data: st.DataObject) -> None:
    match data.draw(st.sampled_from(["dies", "starts", "reach", "call", "distrust"])):
        case "dies" if both.up:
            both.dies()
        case "starts" if not both.up:
            both.starts()
        case "reach" if both.up:
            both.reachable = addresses(data.draw(NUMBERS))
            both.tell(both.observed_overlay)
        case "call" if both.up:
            both.callers = addresses(data.draw(NUMBERS))
            both.tell(both.observed_overlay)
        case "distrust":
            number = data.draw(st.sampled_from(PEERS))
            both.trusted.discard(number)
            both.tell(PeerRemoved(f"n{number}"))
            both.trusted.add(number)
            both.tell(PeerSet(peer(number)))


def assert_as_desired(both: Both, modes: dict[int, DataPlane], routed: set[int]) -> None:
    engine = both.driver.engine
    assert engine.plan(both.driver.now) == []
    assert both.rules == engine.known.rules.wanted()
    assert both.leaks() == set()
    assert both.permitted == addresses(PEERS)
    for number in PEERS:
        address, wanted = card(number).address, modes[number] is DataPlane.OVERLAY
        if wanted and address in both.reachable:
            assert address in both.routes, "the overlay is wanted and can be had"
        if not wanted:
            assert both.has_sa(address) == (number in routed)
            assert address not in both.routes or not both.has_sa(address)
        if wanted:
            assert address in both.keeping
