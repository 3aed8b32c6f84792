"""The facts that doctor gets about nodes whose requests for an SA were refused, and about neighbours."""

import json
from pathlib import Path

from core.world import Driver, card
from meshsec.agent.control.facts import named, unknown
from meshsec.agent.sides.strangers import Stranger
from meshsec.core.trust import card as cards
from meshsec.core.values.model import Neighbour

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


def test_a_neighbour_is_named_by_whichever_address_it_announces_and_another_keeps_its_address() -> None:
    driver = Driver()
    driver.ready(2, 3, 4)
    addresses = [(card(2).locator, False), (card(2).ipv4, True), (card(3).address, True), (card(9).locator, False)]
    neighbours = [Neighbour(address, symmetric) for address, symmetric in addresses if address]
    found = named(neighbours, driver.engine.known.channels())
    assert found == {"n2": True, "n3": True, str(card(9).locator): False}
