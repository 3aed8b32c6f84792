"""A node's addresses follow from its key."""

import json
from contextlib import suppress
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsec.core.trust import identity

VECTORS = Path(__file__).parents[3] / "tests/vectors"
CJDNS_KEYS = json.loads((VECTORS / "cjdns/keys.json").read_text())
SEEDS = st.binary(min_size=32, max_size=32)


@pytest.mark.parametrize("key", CJDNS_KEYS, ids=lambda key: key["ipv6"])
def test_address_is_the_one_that_cjdns_derives(key: dict[str, str]) -> None:
    assert identity.address_of(bytes.fromhex(key["publicKeyHex"])) == IPv6Address(key["ipv6"])


@given(SEEDS)
@settings(max_examples=50)
def test_both_ways_to_the_x25519_key_agree(seed: bytes) -> None:
    """Mapping the public key gives the same key as multiplying the base point by the private one."""
    private = X25519PrivateKey.from_private_bytes(identity.x25519_private(seed))
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    assert identity.x25519_public(identity.public_key_of(seed)) == public


def test_x25519_private_form_is_clamped() -> None:
    scalar = identity.x25519_private(bytes(32))
    assert (scalar[0] & 7, scalar[31] & 0xC0) == (0, 0x40)


def test_generation_repeats_until_the_address_is_in_fc00_8() -> None:
    numbers = count()
    seed = identity.generate(lambda: sha256(next(numbers).to_bytes(4, "big")).digest())
    card = identity.make_card("node", identity.public_key_of(seed))
    assert card.address.packed[0] == 0xFC
    assert card.locator.packed == b"\xfd" + card.address.packed[1:]
    assert card.fingerprint == sha256(card.public_key).digest()
    assert next(numbers) > 1, "the first seed of this series does not do"


def test_generation_from_a_broken_source_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_GENERATION_LIMIT", 3)
    with pytest.raises(identity.IdentityError, match="not random"):
        identity.generate(lambda: bytes(32))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(identity.IdentityError, match=f"has {length} octets; allowed: 32"):
        identity.x25519_public(bytes(length))


@given(SEEDS, st.integers(1, 255))
@settings(max_examples=200)
def test_bytes_that_are_no_key_are_refused(seed: bytes, change: int) -> None:
    key = bytes([identity.public_key_of(seed)[0] ^ change, *identity.public_key_of(seed)[1:]])
    with suppress(identity.IdentityError):
        assert len(identity.x25519_public(key)) == 32
        return
    with pytest.raises(identity.IdentityError, match=key.hex()):
        identity.x25519_public(key)


@pytest.mark.parametrize("name", ["a", "7", "rescue-1", "a--b", "a" * 32])
def test_an_allowed_name_is_accepted(name: str) -> None:
    assert identity.checked_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a b", "ä", "a" * 33, "a\n", "..", "a/b"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(identity.IdentityError, match="allowed: 1 to 32 characters"):
        identity.checked_name(name)


@pytest.mark.parametrize("address", ["1.0.0.0", "10.77.0.1", "126.255.255.255", "169.253.0.1", "223.255.255.255"])
def test_an_allowed_ipv4_address_is_accepted(address: str) -> None:
    assert identity.checked_ipv4(IPv4Address(address)) == IPv4Address(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.1",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.1",
        "224.0.0.109",
        "240.0.0.1",
        "255.255.255.255",
    ],
)
def test_a_bad_ipv4_address_is_refused(address: str) -> None:
    with pytest.raises(identity.IdentityError, match=f"is {address}; allowed: a unicast"):
        identity.checked_ipv4(IPv4Address(address))


def test_addresses_of_other_keys_and_their_locators_are_stale_and_nothing_else_is() -> None:
    own, former, other = (IPv6Address(f"fc00::{number}") for number in (1, 2, 3))
    assigned: set[IPv4Address | IPv6Address] = {
        *(own, identity.locator_of(own), former, identity.locator_of(former)),
        *(identity.locator_of(other), IPv6Address("::1"), IPv6Address("fe80::1"), IPv4Address("10.0.0.1")),
    }
    assert identity.stale_addresses(assigned, [own, identity.locator_of(own)]) == {former, identity.locator_of(former)}
