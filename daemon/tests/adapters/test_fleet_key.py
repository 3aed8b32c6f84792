"""The files of a fleet's operator."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from meshsec.adapters.files import fleet_key
from meshsec.core.trust.identity import generate, make_card, public_key_of


def test_no_name_is_lost_while_many_cards_are_signed_at_once(tmp_path: Path) -> None:
    keys = [public_key_of(generate(lambda: os.urandom(32))) for _ in range(16)]
    cards = [make_card(f"n{number}", key) for number, key in enumerate(keys)]
    with ThreadPoolExecutor(len(cards)) as many:
        list(many.map(partial(fleet_key.remember_signed, tmp_path), cards))
    assert fleet_key.signed_names(tmp_path) == {card.fingerprint: card.name for card in cards}
