"""What a fleet's key signs: nothing is accepted that was changed, truncated, confused or signed by another key."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet, FleetError
from meshsec.core.trust.identity import raw_public_key

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
BOAT, SHIP = (cards.parse(VECTORS[index]["card"]) for index in (4, 2))
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([octet]) * 32) for octet in (1, 2))
FLEET = Fleet("rescue", raw_public_key(KEY.public_key()))
FLEETS = {FLEET.public_key: FLEET}


def test_a_fleets_card_is_read_as_it_was_written() -> None:
    assert fleets.parse_fleet(f" {fleets.fleet_text(FLEET)}\n") == FLEET


def test_a_signed_card_and_a_list_are_read_as_they_were_signed() -> None:
    signed = fleets.sign_card(KEY, BOAT, 1000, 2000)
    assert fleets.parse_card(fleets.card_text(signed), FLEETS) == signed
    assert (signed.card, signed.over(2000), signed.over(2001)) == (BOAT, False, True)
    assert not fleets.sign_card(KEY, BOAT, 1000).over(2**60)
    listed = fleets.sign_list(KEY, 1000, {BOAT.fingerprint, SHIP.fingerprint}, None)
    assert fleets.parse_list(fleets.list_text(listed), FLEETS) == listed
    assert listed.number == 1000


def test_the_number_of_a_list_grows_whatever_the_clock_says() -> None:
    first = fleets.sign_list(KEY, 1000, set(), None)
    assert fleets.sign_list(KEY, 500, set(), first).number == 1001
    assert fleets.sign_list(KEY, 5000, set(), first).number == 5000


def test_a_list_with_a_number_that_no_clock_reaches_is_refused() -> None:
    """Only a larger number replaces a list, so such a list could hardly be replaced."""
    largest = fleets.sign_list(KEY, fleets.NUMBER_MAX, set(), None)
    assert fleets.read_list(largest.octets, FLEETS) == largest
    beyond = fleets.sign_list(KEY, 0, set(), largest)
    with pytest.raises(FleetError, match=rf"has the number {2**63}; allowed: {2**63 - 1} at most"):
        fleets.read_list(beyond.octets, FLEETS)


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_changed_bit_is_noticed(at: int, bit: int) -> None:
    signed, listed = fleets.sign_card(KEY, BOAT, 1000), fleets.sign_list(KEY, 1000, {BOAT.fingerprint}, None)
    for octets, read in ((signed.octets, fleets.read_card), (listed.octets, fleets.read_list)):
        changed = bytearray(octets)
        changed[at % len(octets)] ^= 1 << bit
        with pytest.raises(FleetError):
            read(bytes(changed), FLEETS)


@given(st.binary(max_size=400), st.text(max_size=400))
def test_any_bytes_are_accepted_or_refused(octets: bytes, text: str) -> None:
    head = bytes([1]) + FLEET.public_key
    for read in (fleets.read_card, fleets.read_list):
        for came in (octets, head + octets):
            with pytest.raises(FleetError):
                read(came, FLEETS)
    for parse in (fleets.parse_card, fleets.parse_list):
        for prefix in ("", "meshsec-signed-card1:", "meshsec-trust-list1:"):
            with pytest.raises(FleetError):
                parse(prefix + text, FLEETS)
    with pytest.raises(FleetError):
        fleets.parse_fleet("meshsec-fleet1:" + text)


def test_a_signature_serves_one_purpose() -> None:
    """A signed card is no list, a signed list is no card, and another key's signature is neither."""
    listed = fleets.sign_list(KEY, 1000, {BOAT.fingerprint} | {bytes([n]) * 32 for n in range(3)}, None)
    signed = fleets.sign_card(KEY, BOAT, 1000)
    with pytest.raises(FleetError, match="not signed by"):
        fleets.read_card(listed.octets, FLEETS)
    with pytest.raises(FleetError, match="not signed by"):
        fleets.read_list(signed.octets, FLEETS)
    foreign = fleets.sign_card(OTHER, BOAT, 1000)
    with pytest.raises(FleetError, match="joined: rescue"):
        fleets.read_card(foreign.octets, FLEETS)
    forged = signed.octets[:-64] + OTHER.sign(b"meshsec fleet: signed card\0" + signed.octets[:-64])
    with pytest.raises(FleetError, match="not signed by"):
        fleets.read_card(forged, FLEETS)


def test_a_list_with_too_many_keys_is_refused() -> None:
    many = {number.to_bytes(32, "big") for number in range(fleets.REVOKED_MAX + 1)}
    with pytest.raises(FleetError, match="allowed: 4096"):
        fleets.sign_list(KEY, 1, many, None)
    full = fleets.sign_list(KEY, 1, set(list(many)[:-1]), None)
    assert len(full.octets) == fleets.LIST_OCTETS_MAX
    assert fleets.parse_list(fleets.list_text(full), FLEETS) == full
    with pytest.raises(FleetError, match="allowed: 107 to 131179"):
        fleets.read_list(full.octets + b"x", FLEETS)


def test_a_fleet_whose_signatures_anybody_can_make_is_refused() -> None:
    """A fleet's key must not be the neutral element of the curve, of order 1."""
    with pytest.raises(FleetError, match="small order"):
        fleets.parse_fleet(fleets.fleet_text(Fleet("trap", bytes([1]) + bytes(31))))


def test_a_fleet_s_card_has_room_for_the_longest_name() -> None:
    longest = Fleet("r" * 32, FLEET.public_key)
    assert fleets.parse_fleet(fleets.fleet_text(longest)) == longest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("meshsec-fleet1:" + "A" * 93, "has 93 characters after 'meshsec-fleet1:'; allowed: 92"),
        ("meshsec-fleet1:AA!A?", r"has the characters '!\?', which never occur in one"),
        (
            fleets.list_text(fleets.sign_list(OTHER, 1, set(), None)),
            "the trust list is of a fleet with the key .*; joined: rescue",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_text(text: str, reason: str) -> None:
    parse = fleets.parse_fleet if text.startswith("meshsec-fleet1:") else lambda text: fleets.parse_list(text, FLEETS)
    with pytest.raises(FleetError, match=reason):
        parse(text)


def test_the_refusal_of_a_list_names_what_is_wrong_with_it() -> None:
    listed = fleets.sign_list(KEY, 1000, {BOAT.fingerprint}, None)
    with pytest.raises(FleetError, match="the trust list is not signed by the fleet"):
        fleets.read_list(listed.octets[:-1] + bytes([listed.octets[-1] ^ 1]), FLEETS)
    with pytest.raises(FleetError, match="the trust list has version 2; this meshsec reads version 1"):
        fleets.read_list(bytes([2]) + listed.octets[1:], FLEETS)
    with pytest.raises(FleetError, match="joined: none"):
        fleets.read_list(listed.octets, {})
