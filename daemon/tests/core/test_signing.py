"""What doctor and explain say of signatures of routing messages."""

from dataclasses import replace

import pytest

from core.world import card, route
from meshsec.core.config.routing_settings import Signatures
from meshsec.core.explain import signing
from meshsec.core.explain.findings import Level
from meshsec.core.values.model import Neighbour, Route
from meshsec.core.values.refusals import Refusal
from meshsec.core.values.topology import Topology

PEER = card(2).locator
SIGNING = Topology(signing=frozenset({PEER}))
NEAR = Topology(neighbours=(Neighbour(PEER, symmetric=True, signs=True),))
MUTE = Topology(nodes=(PEER,), signing=frozenset({card(3).locator}))
IGNORED = (Refusal("not_signed", 7), Refusal("over_limit", 1))
FORGED = (Refusal("forged", 5),)
UNCONFIRMED, CONFIRMED = route(2), replace(route(2), confirmed=True)


def said(
    signatures: Signatures, topology: Topology, way: Route | None, refusals: tuple[Refusal, ...] = ()
) -> list[str]:
    return [*signing.sentences(signatures, topology, [PEER], way, refusals)]


@pytest.mark.parametrize(
    ("signatures", "topology", "way", "refusals", "why"),
    [
        (Signatures.PREFER, MUTE, UNCONFIRMED, (), "the peer's router signs nothing"),
        (Signatures.PREFER, SIGNING, UNCONFIRMED, IGNORED, "a link on it is not signed by both ends"),
        (Signatures.PREFER, NEAR, UNCONFIRMED, (), "a link on it is not signed by both ends"),
        (Signatures.REQUIRE, SIGNING, None, IGNORED, "no path of links that both ends have signed"),
        (Signatures.REQUIRE, MUTE, None, IGNORED, "7 unsigned messages were ignored"),
        (Signatures.PREFER, MUTE, None, FORGED, "refused 5 forged routing messages"),
    ],
)
def test_explain_says_in_one_sentence_why_a_route_is_not_taken(
    signatures: Signatures, topology: Topology, way: Route | None, refusals: tuple[Refusal, ...], why: str
) -> None:
    (sentence,) = said(signatures, topology, way, refusals)
    assert why in sentence


@pytest.mark.parametrize(
    ("signatures", "way", "refusals"),
    [
        (Signatures.OFF, None, (*IGNORED, *FORGED)),
        (Signatures.OFF, UNCONFIRMED, (*IGNORED, *FORGED)),
        (Signatures.PREFER, CONFIRMED, FORGED),
        (Signatures.REQUIRE, CONFIRMED, (*IGNORED, *FORGED)),
        (Signatures.REQUIRE, None, ()),  # it may be out of reach
        (Signatures.PREFER, None, IGNORED),
    ],
)
def test_explain_says_nothing_of_signatures_where_they_are_not_why(
    signatures: Signatures, way: Route | None, refusals: tuple[Refusal, ...]
) -> None:
    assert said(signatures, MUTE, way, refusals) == []


def test_a_signer_that_is_away_fails_and_one_that_is_there_is_well() -> None:
    away = signing.signer("away", 3)
    assert away.level is Level.FAIL
    assert "sends nothing" in away.found
    assert "systemctl start olsrv2-signer" in away.fix
    assert signing.signer("off", 0).level is Level.WARN
    there = signing.signer("connected", 3)
    assert (there.level, there.fix) == (Level.OK, "")
    assert "3 of other nodes were verified" in there.found
