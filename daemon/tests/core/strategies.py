"""Hypothesis strategies for observed states, including impossible ones."""

from hypothesis import strategies as st

from core.world import BACKEND, card, ike_sa, peer
from meshsec.core.channels.desired import connection_spec, rules_spec
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import ConnectionSpec, IkeSa, Observed, RulesSpec
from meshsec.core.values.sa_states import IkeSaState

STRANGERS = (8, 9)
NODE = 3
"""A number between those of the peers, so that it initiates to some and not to others."""
PEERS = (2, 4, 5)


def spec(number: int) -> ConnectionSpec:
    return connection_spec(card(NODE), peer(number), BACKEND, DEFAULT)


@st.composite
def ike_sas(draw: st.DrawFn, number: int) -> tuple[IkeSa, ...]:
    identities = st.sampled_from([None, card(number).address, card(7).address])
    return tuple(
        ike_sa(
            f"n{number}",
            f"{number}-{index}",
            initiator=draw(st.booleans()),
            state=draw(st.sampled_from(IkeSaState)),
            children=draw(st.sampled_from([(), ("mesh",), ("mesh", "mesh"), ("other",)])),
            remote_id=draw(identities),
        )
        for index in range(draw(st.integers(0, 3)))
    )


@st.composite
def rules(draw: st.DrawFn) -> RulesSpec | None:
    numbers = draw(st.none() | st.sets(st.sampled_from(PEERS + STRANGERS)))
    if numbers is None:
        return None
    return rules_spec(
        card(NODE), (card(n).address for n in numbers), (card(n).locator for n in numbers), BACKEND, DEFAULT
    )


@st.composite
def observations(draw: st.DrawFn) -> Observed:
    known = PEERS + STRANGERS
    loaded = draw(st.sets(st.sampled_from(known)))
    return Observed(
        ike_sas={f"n{number}": draw(ike_sas(number)) for number in draw(st.sets(st.sampled_from(known)))},
        connections={f"n{n}": draw(st.sampled_from([None, spec(n), spec(6)])) for n in loaded},
        key_loaded=draw(st.booleans()),
        rules=draw(rules()),
    )
