"""The table of the channel's life cycle, against its theory of operation."""

import pytest

from meshsec.core.channels.lifecycle import TABLE, State, Trigger, transition

WITHOUT_ROUTE = {State.NO_ROUTE, State.HELD}
STANDING = {State.PROTECTED, State.HELD}


def test_every_state_has_a_row_and_the_rows_are_in_the_order_of_life() -> None:
    assert list(TABLE) == list(State)


def test_every_state_can_be_reached_and_left() -> None:
    reached = {step.state for row in TABLE.values() for step in row.values()}
    assert reached == set(State)
    assert all(row for row in TABLE.values())


def test_every_trigger_has_an_effect_in_some_state() -> None:
    assert {trigger for row in TABLE.values() for trigger in row} == set(Trigger)


def test_every_transition_changes_the_state_and_says_why() -> None:
    for state, row in TABLE.items():
        for step in row.values():
            assert step.state is not state
            assert step.reason


@pytest.mark.parametrize("state", State)
def test_the_catch_all_leaves_the_state_alone(state: State) -> None:
    for trigger in set(Trigger) - TABLE[state].keys():
        assert transition(state, trigger) is None


@pytest.mark.parametrize("state", State)
def test_a_route_lost_leads_to_a_state_without_route_and_found_to_one_with(state: State) -> None:
    lost, found = transition(state, Trigger.ROUTE_LOST), transition(state, Trigger.ROUTE_FOUND)
    assert (lost is None) == (state in WITHOUT_ROUTE)
    assert (found is None) == (state not in WITHOUT_ROUTE)
    assert lost is None or lost.state in WITHOUT_ROUTE
    assert found is None or found.state not in WITHOUT_ROUTE


def test_an_sa_outlives_the_route_and_protects_again_when_the_route_is_back() -> None:
    lost = transition(State.PROTECTED, Trigger.ROUTE_LOST)
    assert lost is not None
    assert lost.state is State.HELD
    back = transition(State.HELD, Trigger.ROUTE_FOUND)
    assert back is not None
    assert back.state is State.PROTECTED


@pytest.mark.parametrize("state", State)
def test_only_route_triggers_and_the_hold_time_cross_between_with_and_without_route(state: State) -> None:
    for trigger, step in TABLE[state].items():
        if trigger not in {Trigger.ROUTE_FOUND, Trigger.ROUTE_LOST}:
            assert (step.state in WITHOUT_ROUTE) == (state in WITHOUT_ROUTE), trigger


@pytest.mark.parametrize("state", State)
def test_an_sa_leads_to_a_state_with_an_sa_and_its_loss_to_one_without(state: State) -> None:
    up, lost = transition(state, Trigger.SA_UP), transition(state, Trigger.SA_LOST)
    assert (up is None) == (state in STANDING)
    assert (lost is None) == (state not in STANDING)
    assert up is None or up.state in STANDING
    assert lost is None or lost.state not in STANDING


@pytest.mark.parametrize("state", State)
def test_without_the_ike_daemon_no_state_has_an_sa(state: State) -> None:
    step = transition(state, Trigger.IKE_DAEMON_LOST)
    assert (step.state if step else state) in {State.NO_ROUTE, State.WAITING}
