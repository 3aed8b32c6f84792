"""Reconciling leads from any observed state to the desired one in a safe order, and then does nothing more."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.strategies import NODE, PEERS, observations, spec
from core.world import BACKEND, card, ike_sa, peer
from meshsec.core.channels.actions import (
    Action,
    Initiate,
    LoadConnection,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.desired import DesiredPeer, Wish, connection_spec, initiates
from meshsec.core.channels.reconcile import ObservedPeer, keeper, reconcile_peer
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import ConnectionSpec, EspBackend, IkeSa, Observed
from meshsec.core.values.sa_states import IkeSaState

ROUTED = PEERS[:2]
TIMEOUT = 10.0


def wanted() -> dict[str, DesiredPeer]:
    return {f"n{number}": wanted_peer(number, Wish.OPEN if number in ROUTED else Wish.CLOSE) for number in PEERS}


def wanted_peer(number: int, wish: Wish, backend: EspBackend = BACKEND) -> DesiredPeer:
    node, other = card(NODE), peer(number)
    return DesiredPeer(connection_spec(node, other, backend, DEFAULT), wish, initiates(node, other.card))


def reconcile(observed: Observed) -> list[Action]:
    """Return what all peers lack, in the order of their names."""
    actions: list[Action] = []
    for name in sorted(wanted().keys() | observed.connections.keys() | observed.ike_sas.keys()):
        has = ObservedPeer(name in observed.connections, observed.connections.get(name), observed.ike_sas.get(name, ()))
        actions += reconcile_peer(name, wanted().get(name), has, TIMEOUT)
    return actions


class FakeDaemon:
    """Applies actions one at a time and refuses those out of order."""

    def __init__(self, observed: Observed) -> None:
        self.now = observed
        self.made = 0

    def apply(self, action: Action) -> None:
        match action:
            case LoadConnection(connection):
                self.now = replace(self.now, connections={**self.now.connections, connection.name: connection})
            case UnloadConnection(name):
                self.now = replace(self.now, connections=without(self.now.connections, name))
            case Initiate(name, children):
                self._initiate(name, children)
            case Terminate(unique_id, name):
                sas = self.now.ike_sas[name]
                assert unique_id in {sa.unique_id for sa in sas}, "an IKE_SA that is not there is closed"
                self._put(name, tuple(sa for sa in sas if sa.unique_id != unique_id))

    def _initiate(self, name: str, children: tuple[str, ...]) -> None:
        assert self.now.connections.get(name) == spec(int(name[1:])), "a negotiation without configuration"
        assert children, "a negotiation of nothing"
        self.made += 1
        new = ike_sa(name, f"new{self.made}", children=children, remote_id=card(int(name[1:])).address)
        self._put(name, (*self.now.ike_sas.get(name, ()), new))

    def _put(self, name: str, sas: tuple[IkeSa, ...]) -> None:
        self.now = replace(self.now, ike_sas={**self.now.ike_sas, name: sas})

    def time_passes(self) -> None:
        """End all transient states."""
        for name, sas in self.now.ike_sas.items():
            self._put(name, tuple(replace(sa, state=IkeSaState.ESTABLISHED) for sa in sas if sa.is_live))


def without(mapping: Mapping[str, ConnectionSpec | None], name: str) -> dict[str, ConnectionSpec | None]:
    assert name in mapping, f"{name} is unloaded and was not loaded"
    return {key: value for key, value in mapping.items() if key != name}


def assert_as_desired(observed: Observed) -> None:
    assert observed.connections == {f"n{number}": spec(number) for number in PEERS}
    for name, sas in observed.ike_sas.items():
        assert bool(sas) == (name in {f"n{number}" for number in ROUTED}), name
        for sa in sas:
            assert sa.is_live
            assert "mesh" in {child.name for child in sa.children if child.carries}
            assert sa.remote_id in {None, card(int(name[1:])).address}
    assert all(len(sas) <= 1 for sas in observed.ike_sas.values())


@given(observed=observations(), failures=st.lists(st.booleans(), max_size=30), seed=st.integers())
def test_the_plan_leads_from_any_state_to_the_desired_one_and_then_is_empty(
    observed: Observed, failures: list[bool], seed: int
) -> None:
    daemon, shuffle = FakeDaemon(observed), Random(seed)
    for _ in range(40):
        actions = reconcile(daemon.now)
        if not actions and not any(not sa.is_live for sas in daemon.now.ike_sas.values() for sa in sas):
            break
        for action in actions:
            if failures and failures.pop():
                break
            daemon.apply(action)
        if shuffle.random() < 0.5:
            daemon.time_passes()
    daemon.time_passes()
    for action in reconcile(daemon.now):
        daemon.apply(action)
    assert reconcile(daemon.now) == []
    assert_as_desired(daemon.now)


@given(observed=observations())
def test_an_sa_without_trust_is_closed_in_any_state(observed: Observed) -> None:
    actions = reconcile(observed)
    for name in ("n8", "n9"):
        doomed = {sa.unique_id for sa in observed.ike_sas.get(name, ()) if sa.state is not IkeSaState.DELETING}
        assert {
            action.unique_id for action in actions if isinstance(action, Terminate) and action.peer == name
        } == doomed
        assert (UnloadConnection(name) in actions) == (name in observed.connections)


def open_peer(*, initiator: bool = True) -> DesiredPeer:
    return DesiredPeer(spec(4), Wish.OPEN, initiator)


def test_without_a_route_nothing_is_negotiated_and_a_held_sa_is_kept() -> None:
    held = replace(open_peer(), wish=Wish.KEEP)
    loaded = ObservedPeer(loaded=True, connection=spec(4))
    assert reconcile_peer("n4", held, loaded, TIMEOUT) == []
    assert reconcile_peer("n4", held, replace(loaded, ike_sas=(ike_sa("n4"),)), TIMEOUT) == []


def test_an_sa_of_a_wrong_identity_or_a_revoked_card_is_closed_and_replaced() -> None:
    wrong = ike_sa("n4", "7", remote_id=card(5).address)
    for observed in (
        ObservedPeer(loaded=True, connection=spec(4), ike_sas=(wrong,)),
        ObservedPeer(loaded=True, connection=spec(4), ike_sas=(ike_sa("n4", "7"),), revoked=frozenset({"7"})),
    ):
        terminate, initiate = reconcile_peer("n4", open_peer(), observed, TIMEOUT)
        assert isinstance(terminate, Terminate)
        assert terminate.unique_id == "7"
        assert initiate == Initiate("n4", ("mesh",), TIMEOUT)


@pytest.mark.parametrize(("children", "closed"), [(16, False), (17, True)])
def test_an_ike_sa_whose_peer_opens_child_sas_without_end_is_closed(children: int, closed: bool) -> None:
    filled = ike_sa("n4", "7", children=("mesh",) * children)
    actions = reconcile_peer("n4", open_peer(), ObservedPeer(True, spec(4), (filled,)), TIMEOUT)
    assert [action.unique_id for action in actions if isinstance(action, Terminate)] == ["7"] * closed


def test_missing_child_sas_alone_are_negotiated() -> None:
    both = wanted_peer(4, Wish.OPEN, EspBackend.KERNEL)
    observed = ObservedPeer(loaded=True, connection=both.connection, ike_sas=(ike_sa("n4"),))
    assert reconcile_peer("n4", both, observed, TIMEOUT) == [Initiate("n4", ("mesh4",), TIMEOUT)]


@pytest.mark.parametrize("initiator", [True, False])
def test_both_ends_keep_the_duplicate_that_the_initiating_end_began(initiator: bool) -> None:
    """``initiator`` is seen from one end, so the other end has it inverted."""
    sas = tuple(ike_sa("n4", str(i), initiator=i in {2, 3}, spi=f"{9 - i}") for i in range(5))
    here = ObservedPeer(ike_sas=sas)
    there = ObservedPeer(ike_sas=tuple(replace(sa, initiator=not sa.initiator) for sa in reversed(sas)))
    kept = keeper(open_peer(initiator=initiator), here)
    also = keeper(open_peer(initiator=not initiator), there)
    assert kept is not None
    assert also is not None
    assert kept.unique_id == also.unique_id == ("3" if initiator else "4")


def test_an_older_sa_carries_ipv4_until_its_successor_does_and_one_of_them_alone() -> None:
    both = wanted_peer(4, Wish.OPEN, EspBackend.KERNEL)
    olds = tuple(ike_sa("n4", f"old{i}", children=("mesh", "mesh4"), spi=f"{i}") for i in range(3))
    half, whole = ike_sa("n4", "new", children=("mesh",)), ike_sa("n4", "new", children=("mesh", "mesh4"))

    def closed(*sas: IkeSa) -> list[str]:
        seen = {sa.unique_id: 100.0 if sa.unique_id == "new" else 0.0 for sa in sas}
        observed = ObservedPeer(loaded=True, connection=both.connection, ike_sas=sas, seen=seen)
        actions = reconcile_peer("n4", both, observed, TIMEOUT)
        assert [one.children for one in actions if isinstance(one, Initiate)] == ([("mesh4",)] if half in sas else [])
        return [one.unique_id for one in actions if isinstance(one, Terminate)]

    assert closed(olds[0], half) == []
    assert closed(olds[0], whole) == ["old0"]
    assert closed(*olds, half) == ["old1", "old2"]


def test_both_ends_keep_the_same_of_two_sas_without_ike_spis() -> None:
    """libreswan reports no IKE SPIs; an inbound SPI here is an outbound one there."""
    spis = {"1": ("c7", "c3"), "2": ("c9", "c1")}
    here: list[IkeSa] = []
    there: list[IkeSa] = []
    for number, (inward, outward) in spis.items():
        sa = ike_sa("n4", number, spi=number)
        (child,) = sa.children
        here.append(replace(sa, children=(replace(child, spi_in=inward, spi_out=outward),)))
        child = replace(child, spi_in=outward, spi_out=inward)
        there.insert(0, replace(sa, spi_initiator="", spi_responder="", initiator=not sa.initiator, children=(child,)))
    for initiator in (True, False):
        kept = keeper(open_peer(initiator=initiator), ObservedPeer(ike_sas=tuple(here)))
        also = keeper(open_peer(initiator=not initiator), ObservedPeer(ike_sas=tuple(there)))
        assert kept is not None
        assert also is not None
        assert kept.unique_id == also.unique_id == "2"


@pytest.mark.parametrize(("later", "kept_one"), [(3.0, "1"), (30.0, "2")])
def test_a_much_newer_sa_of_the_peer_is_kept_before_one_that_it_may_have_lost(later: float, kept_one: str) -> None:
    """libreswan ignores INITIAL_CONTACT for its connections of the same peer."""
    old, new = ike_sa("n4", "1"), ike_sa("n4", "2", initiator=False)
    observed = ObservedPeer(loaded=True, connection=spec(4), ike_sas=(new, old), seen={"1": 100.0, "2": 100.0 + later})
    kept = keeper(open_peer(), observed)
    assert kept is not None
    assert kept.unique_id == kept_one
    (action,) = reconcile_peer("n4", open_peer(), observed, TIMEOUT)
    assert isinstance(action, Terminate)
    assert action.unique_id == {"1": "2", "2": "1"}[kept_one]


def test_an_ike_sa_without_child_sas_replaces_no_other() -> None:
    sas = (ike_sa("n4", "1"), ike_sa("n4", "2", children=()))
    kept = keeper(open_peer(), ObservedPeer(ike_sas=sas, seen={"1": 100.0, "2": 200.0}))
    assert kept is not None
    assert kept.unique_id == "1"


def test_a_complete_ike_sa_is_kept_before_an_incomplete_one() -> None:
    observed = ObservedPeer(ike_sas=(ike_sa("n4", "1", children=()), ike_sa("n4", "2", initiator=False)))
    kept = keeper(open_peer(), observed)
    assert kept is not None
    assert kept.unique_id == "2"


@pytest.mark.parametrize("state", [IkeSaState.REKEYING, IkeSaState.REKEYED])
def test_rekeying_makes_no_duplicates(state: IkeSaState) -> None:
    sas = (ike_sa("n4", "1", state=state), ike_sa("n4", "2"))
    observed = ObservedPeer(loaded=True, connection=spec(4), ike_sas=sas)
    assert reconcile_peer("n4", open_peer(), observed, TIMEOUT) == []


def test_a_configuration_with_unknown_content_is_loaded_again_and_the_sa_is_kept() -> None:
    observed = ObservedPeer(loaded=True, connection=None, ike_sas=(ike_sa("n4"),))
    assert reconcile_peer("n4", open_peer(), observed, TIMEOUT) == [LoadConnection(spec(4))]
