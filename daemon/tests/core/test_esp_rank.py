"""Equally strong ESP proposals stand in the order of this processor's speed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from meshsec.core.policy.esp_rank import STRENGTH, applied, ranked
from meshsec.core.policy.policy import DEFAULT, EspRank

WITH_AES = {"aes256gcm16": 5e9, "chacha20poly1305": 2e9, "aes128gcm16": 6e9}
WITHOUT_AES = {"aes256gcm16": 4e7, "chacha20poly1305": 2e8, "aes128gcm16": 5e7}


def test_with_aes_instructions_the_default_profile_stays_as_it_is_listed() -> None:
    assert applied(DEFAULT, WITH_AES) == DEFAULT


def test_without_them_chacha_comes_first_and_what_is_weaker_stays_last() -> None:
    assert applied(DEFAULT, WITHOUT_AES).esp_proposals == (
        "chacha20poly1305-x25519-ke1_mlkem768",
        "aes256gcm16-x25519-ke1_mlkem768",
        "chacha20poly1305-x25519",
        "aes256gcm16-x25519",
        "aes128gcm16-x25519",
    )


@pytest.mark.parametrize("chacha", [4.1e7, 4.7e7])
def test_a_little_faster_is_not_enough(chacha: float) -> None:
    assert applied(DEFAULT, {**WITHOUT_AES, "chacha20poly1305": chacha}) == DEFAULT


def test_as_listed_where_the_profile_says_so_where_nothing_was_measured_and_where_suites_are_chosen() -> None:
    listed = structs.replace(DEFAULT, esp_rank=EspRank.LISTED)
    assert applied(listed, WITHOUT_AES) == listed
    assert applied(DEFAULT, {}) == DEFAULT


@given(
    st.lists(
        st.tuples(st.sampled_from([*STRENGTH, "aes256ccm16", "aes128-sha256"]), st.sampled_from(["x25519", "ecp384"])),
        unique=True,
    ),
    st.dictionaries(st.sampled_from(list(STRENGTH)), st.floats(1, 1e10)),
)
def test_none_is_lost_and_the_strengths_keep_their_order(
    proposals: list[tuple[str, str]], rates: dict[str, float]
) -> None:
    given_ = ["-".join(one) for one in proposals]
    found = ranked(given_, rates)
    assert sorted(found) == sorted(given_)
    assert [_kind(one) for one in found] == [_kind(one) for one in given_]
    assert ranked(found, rates) == found


def _kind(proposal: str) -> tuple[object, str]:
    cipher, _, rest = proposal.partition("-")
    return STRENGTH.get(cipher, cipher), rest
