"""The fingerprint as words to read aloud."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnemonic import Mnemonic

from meshsec.core.trust import fingerprint_words

WORDS: list[str] = Mnemonic("english").wordlist
VALID: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
FINGERPRINTS = st.binary(min_size=32, max_size=32)


@pytest.mark.parametrize("vector", VALID, ids=lambda vector: vector["name"])
def test_a_recorded_fingerprint_has_its_words(vector: dict[str, str]) -> None:
    assert " ".join(fingerprint_words.spoken(bytes.fromhex(vector["fingerprint"]), WORDS)) == vector["words"]


def test_words_are_the_first_bits_in_order() -> None:
    bits = 0b00000000000_00000000001_00000000010_11111111111_10000000000_00000000011 << (256 - 66)
    assert fingerprint_words.spoken(bits.to_bytes(32, "big"), WORDS) == tuple(
        WORDS[index] for index in (0, 1, 2, 2047, 1024, 3)
    )


@given(FINGERPRINTS)
def test_whole_words_four_letters_and_any_case_are_understood(fingerprint: bytes) -> None:
    spoken = fingerprint_words.spoken(fingerprint, WORDS)
    assert fingerprint_words.matches(fingerprint, ", ".join(spoken).upper(), WORDS)
    assert fingerprint_words.matches(fingerprint, " ".join(word[:4] for word in spoken), WORDS)


@given(FINGERPRINTS)
def test_words_say_the_first_66_bits_and_no_more(fingerprint: bytes) -> None:
    first = fingerprint_words.first_octets(fingerprint)
    assert fingerprint_words.said_octets(" ".join(fingerprint_words.spoken(fingerprint, WORDS)), WORDS) == first
    assert fingerprint_words.spoken(first, WORDS) == fingerprint_words.spoken(fingerprint, WORDS)
    for octet, bit, is_said in ((8, 0x40, True), (8, 0x20, False), (9, 0x80, False)):
        other = bytearray(fingerprint)
        other[octet] ^= bit
        assert (fingerprint_words.first_octets(bytes(other)) != first) is is_said


@given(FINGERPRINTS, st.integers(0, 5), st.sampled_from(WORDS))
def test_one_wrong_word_does_not_match(fingerprint: bytes, at: int, other: str) -> None:
    said = list(fingerprint_words.spoken(fingerprint, WORDS))
    expected = said[at] == other
    said[at] = other
    assert fingerprint_words.matches(fingerprint, " ".join(said), WORDS) is expected


def test_a_word_outside_the_list_names_the_nearest() -> None:
    with pytest.raises(fingerprint_words.WordsError, match="'abndon' is not a word of the list; perhaps 'abandon'"):
        fingerprint_words.matches(bytes(32), "abndon", WORDS)


@pytest.mark.parametrize("said", ["", "abandon", " ".join(["abandon"] * 7)])
def test_another_number_of_words_is_refused(said: str) -> None:
    with pytest.raises(fingerprint_words.WordsError, match="a fingerprint has 6"):
        fingerprint_words.matches(bytes(32), said, WORDS)


def test_a_word_that_is_near_no_word_of_the_list_gets_no_hint() -> None:
    with pytest.raises(fingerprint_words.WordsError, match=r"'qqqqqqqq' is not a word of the list$"):
        fingerprint_words.matches(bytes(32), "qqqqqqqq", WORDS)
