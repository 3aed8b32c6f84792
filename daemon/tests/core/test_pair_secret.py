"""The secret that two nodes derive from their keys alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsec.core.trust.identity import IdentityError, public_key_of
from meshsec.core.trust.pair_secret import LENGTH, pair_secret

SEEDS = st.binary(min_size=32, max_size=32)
ONE, OTHER, THIRD = (bytes([value]) * 32 for value in (1, 2, 3))


@given(SEEDS, SEEDS)
@settings(max_examples=30, deadline=None)
def test_both_ends_compute_the_same_secret(one: bytes, other: bytes) -> None:
    if one != other:
        assert pair_secret(one, public_key_of(other)) == pair_secret(other, public_key_of(one))


def test_each_pair_has_a_secret_of_its_own() -> None:
    found = {
        pair_secret(ONE, public_key_of(OTHER)),
        pair_secret(ONE, public_key_of(THIRD)),
        pair_secret(OTHER, public_key_of(THIRD)),
    }
    assert len(found) == 3
    assert {len(secret) for secret in found} == {LENGTH}


def test_the_derivation_never_changes() -> None:
    """Nodes of different versions must agree, so a change needs another purpose in the derivation."""
    assert (
        pair_secret(ONE, public_key_of(OTHER)).hex()
        == "e1519d7c070ab7a92cb6694c090846d50aa9d460f7752aa7bb5657582c0f3347"
    )


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), bytes(31), public_key_of(ONE)])
def test_a_key_that_is_no_peers_is_refused(key: bytes) -> None:
    """A point of small order, which gives everybody the same secret, malformed keys and the own key are refused."""
    with pytest.raises(IdentityError):
        pair_secret(ONE, key)
