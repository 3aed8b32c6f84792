"""The facts that doctor gets about nodes whose requests for an SA were refused."""

import json
from pathlib import Path

from meshsec.agent.control.facts import unknown
from meshsec.agent.sides.strangers import Stranger
from meshsec.core.trust import card as cards

VECTORS = json.loads((Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8"))


def test_this_node_and_present_peers_are_no_strangers_whichever_address_they_asked_from() -> None:
    own, boat, ship = (cards.parse(VECTORS[number]["card"]) for number in (1, 3, 4))
    asked = [
        Stranger(str(address), "no card of this node is trusted", 1, 0.0)
        for card in (own, boat, ship)
        for address in (card.address, card.locator, card.ipv4)
        if address
    ]
    assert {one.address for one in unknown(asked, [own, boat])} == {
        str(address) for address in (ship.address, ship.locator, ship.ipv4) if address
    }
