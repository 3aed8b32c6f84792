"""The types of charon's SA states (strongSwan 5.9 and 6.0), and of states that it does not have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.adapters.ike.charon_states import child_sa_state, ike_sa_state
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

OF_IKE_SA = {
    "CREATED": IkeSaState.CONNECTING,
    "CONNECTING": IkeSaState.CONNECTING,
    "ESTABLISHED": IkeSaState.ESTABLISHED,
    "PASSIVE": IkeSaState.OTHER,
    "REKEYING": IkeSaState.REKEYING,
    "REKEYED": IkeSaState.REKEYED,
    "DELETING": IkeSaState.DELETING,
    "DESTROYING": IkeSaState.DELETING,
}
OF_CHILD_SA = {
    "CREATED": ChildSaState.OTHER,
    "ROUTED": ChildSaState.OTHER,
    "INSTALLING": ChildSaState.OTHER,
    "INSTALLED": ChildSaState.INSTALLED,
    "UPDATING": ChildSaState.INSTALLED,
    "REKEYING": ChildSaState.INSTALLED,
    "REKEYED": ChildSaState.REKEYED,
    "RETRYING": ChildSaState.OTHER,
    "DELETING": ChildSaState.OTHER,
    "DELETED": ChildSaState.OTHER,
    "DESTROYING": ChildSaState.OTHER,
}


@pytest.mark.parametrize(("word", "state"), OF_IKE_SA.items())
def test_each_state_of_an_ike_sa_has_its_type(word: str, state: IkeSaState) -> None:
    assert ike_sa_state(word) is state


@pytest.mark.parametrize(("word", "state"), OF_CHILD_SA.items())
def test_each_state_of_a_child_sa_has_its_type(word: str, state: ChildSaState) -> None:
    assert child_sa_state(word) is state


@given(st.text().filter(lambda word: word not in OF_IKE_SA and word not in OF_CHILD_SA))
def test_unknown_words_are_other_states(word: str) -> None:
    assert ike_sa_state(word) is IkeSaState.OTHER
    assert child_sa_state(word) is ChildSaState.OTHER


def test_an_ike_sa_carries_child_sas_before_and_while_it_is_rekeyed() -> None:
    assert {state for state in IkeSaState if state.is_live} == {IkeSaState.ESTABLISHED, IkeSaState.REKEYING}
    assert {state for state in IkeSaState if state.is_in_rekeying} == {IkeSaState.REKEYING, IkeSaState.REKEYED}
