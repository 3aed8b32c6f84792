"""The text form of a card: vectors, and the typos of somebody who copies it."""

import json
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bech32m.codecs import CHARSET, Encoding, bech32_encode
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.trust import card as cards
from meshsec.core.trust import identity
from meshsec.core.trust.card_typos import CHECKSUM_LENGTH, PREFIX, Damage, Slip
from meshsec.core.values.model import Card, Network

VECTORS = Path(__file__).parents[3] / "tests/vectors/cards"
VALID: list[dict[str, Any]] = json.loads((VECTORS / "valid.json").read_text())
INVALID: list[dict[str, str]] = json.loads((VECTORS / "invalid.json").read_text())

TEXTS = st.sampled_from([vector["card"] for vector in VALID])
SHORTEST: str = VALID[0]["card"]
NETWORKS = st.one_of(
    st.builds(
        lambda number, length: IPv4Network((number >> (32 - length) << (32 - length), length)),
        st.integers(0x0A000000, 0x0AFFFFFF),
        st.integers(8, 32),
    ),
    st.builds(
        lambda number, length: IPv6Network((number >> (128 - length) << (128 - length), length)),
        st.integers(0x20010DB8 << 96, (0x20010DB9 << 96) - 1),
        st.integers(3, 128),
    ),
    st.sampled_from([IPv4Network("0.0.0.0/0"), IPv6Network("::/0")]),
)
KEYS = [bytes.fromhex(vector["public_key"]) for vector in VALID]


def damage_of(text: str) -> Damage | None:
    with pytest.raises(cards.CardError) as caught:
        cards.parse(text)
    return caught.value.damage


@pytest.mark.parametrize("vector", VALID, ids=lambda vector: vector["name"])
def test_a_recorded_card_is_read_and_written(vector: dict[str, Any]) -> None:
    card = cards.parse(vector["card"])
    assert card == Card(
        name=vector["name"],
        public_key=identity.public_key_of(bytes.fromhex(vector["seed"])),
        address=card.address,
        locator=card.locator,
        fingerprint=bytes.fromhex(vector["fingerprint"]),
        ipv4=IPv4Address(vector["ipv4"]) if vector["ipv4"] else None,
        by_secret=vector["by_secret"],
        networks=tuple(map(ip_network, vector["networks"])),
    )
    assert (str(card.address), str(card.locator)) == (vector["address"], vector["locator"])
    assert identity.x25519_public(card.public_key).hex() == vector["x25519_public_key"]
    assert cards.render(card) == vector["card"]


@pytest.mark.parametrize("vector", INVALID, ids=lambda vector: vector["case"])
def test_a_recorded_bad_card_is_refused_with_its_message(vector: dict[str, str]) -> None:
    with pytest.raises(cards.CardError) as caught:
        cards.parse(vector["text"])
    assert str(caught.value) == vector["message"]


@given(
    st.sampled_from(KEYS),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True),
    st.none() | st.integers(0x01000000, 0x7EFFFFFF).map(IPv4Address),
    st.booleans(),
    st.lists(NETWORKS, max_size=identity.NETWORKS_MAX),
)
def test_every_card_comes_back(
    key: bytes, name: str, ipv4: IPv4Address | None, by_secret: bool, networks: list[Network]
) -> None:
    card = identity.make_card(name, key, ipv4, by_secret=by_secret, networks=networks)
    text = cards.render(card)
    assert len(text) <= cards.LONGEST
    assert cards.parse(text) == card


@given(TEXTS, st.integers(0, 2**32))
def test_case_spaces_hyphens_and_line_breaks_do_not_matter(text: str, seed: int) -> None:
    """A seeded generator chooses for each character, because as many draws of hypothesis would be slow."""
    random, separators = Random(seed), ("", "", "", " ", "-", "\n", "\r\n", "\t", "\u00a0")
    written = "".join(random.choice([c, c.upper()]) + random.choice(separators) for c in text)
    assert cards.parse(written) == cards.parse(text)
    assert cards.parse(cards.grouped(text)) == cards.parse(text)


def some(characters: str, at: int, text: str) -> str:
    """Return the characters to try at one place: all of them in the shortest card, a fifth in others.

    Neighbouring places get another fifth, so that each place and each character is tried.
    """
    return characters if text == SHORTEST else characters[at % 5 :: 5]


@pytest.mark.parametrize("text", [SHORTEST, VALID[2]["card"]], ids=["shortest", "longest"])
def test_every_single_substitution_is_located(text: str) -> None:
    for at, right in enumerate(text):
        for wrong in set(some(CHARSET + "1bio!é", at, text)) - {right}:
            damage = damage_of(text[:at] + wrong + text[at + 1 :])
            assert damage == Damage(Slip.WRONG, at + 1, wrong, right)


@pytest.mark.parametrize("text", [vector["card"] for vector in VALID], ids=len)
def test_every_swap_of_neighbours_is_located(text: str) -> None:
    for at in range(len(text) - 1):
        left, right = text[at], text[at + 1]
        if left != right:
            damage = damage_of(text[:at] + right + left + text[at + 2 :])
            assert damage == Damage(Slip.SWAPPED, at + 1, right + left, left + right)


@pytest.mark.parametrize("text", [vector["card"] for vector in VALID], ids=len)
def test_every_missing_character_is_located(text: str) -> None:
    """In a run of equal characters the first is named, because any of them may be the missing one."""
    for at, missing in enumerate(text):
        damage = damage_of(text[:at] + text[at + 1 :])
        first = len(text[: at + 1].rstrip(missing)) + 1
        assert damage == Damage(Slip.MISSING, first, "", missing)


@pytest.mark.parametrize("text", [vector["card"] for vector in VALID], ids=len)
def test_every_extra_character_is_located(text: str) -> None:
    """In a run of equal characters the first after the prefix is named, because any of them may be the extra one."""
    for at in range(len(text) + 1):
        for extra in some(CHARSET + "1b", at, text):
            written = text[:at] + extra + text[at:]
            start = len(PREFIX) if written.startswith(PREFIX) else 0
            first = start + len(text[start:at].rstrip(extra)) + 1
            assert damage_of(written) == Damage(Slip.EXTRA, first, extra, "")


@given(TEXTS, st.data())
def test_three_wrong_characters_are_always_detected(text: str, data: st.DataObject) -> None:
    written = list(text)
    for at in data.draw(st.sets(st.integers(len(PREFIX), len(text) - 1), min_size=1, max_size=3)):
        written[at] = data.draw(st.sampled_from(sorted(set(CHARSET) - {text[at]})))
    with pytest.raises(cards.CardError):
        cards.parse("".join(written))


@given(st.text(max_size=200) | st.text(CHARSET, max_size=140).map(lambda text: PREFIX + text))
def test_any_text_is_a_card_or_refused(text: str) -> None:
    with pytest.raises(cards.CardError):
        cards.parse(text)


def test_no_typo_is_searched_in_a_text_that_is_two_characters_too_long() -> None:
    symbols = cards.LONGEST + 2 - len(PREFIX) - CHECKSUM_LENGTH
    for length, slip in ((symbols - 1, Slip.WRONG), (symbols, None)):
        text = bech32_encode(PREFIX[:-1], bytes(length), Encoding.BECH32M)
        damage = damage_of(text[:-1] + ("q" if text[-1] != "q" else "p"))
        assert (damage and damage.slip) == slip


def test_a_long_text_is_refused_unread() -> None:
    with pytest.raises(cards.CardError, match="1025 characters"):
        cards.parse("q" * 1025)


def test_spaces_around_a_card_count_only_towards_the_limit_of_the_text() -> None:
    (text, *_) = (vector["card"] for vector in VALID)
    assert cards.parse(text.ljust(1024)) == cards.parse(text)
    with pytest.raises(cards.CardError, match="1025 characters"):
        cards.parse(text.ljust(1025))
