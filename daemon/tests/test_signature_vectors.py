"""tests/vectors/signatures is what tools/signature-vectors writes, and a third implementation, OpenSSL, agrees."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from runpy import run_path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from meshsec.core.trust.identity import IdentityError, address_of, locator_of, x25519_public

ROOT = Path(__file__).parents[2]
TOOL = run_path(str(ROOT / "tools/signature-vectors"))
FOLDER = ROOT / "tests/vectors/signatures"
ICV, TIMESTAMP, OWN = 5, 6, 252
DOMAIN = b"meshsec OLSRv2 message 1\0"
LENIENT = {
    "R is the identity, and the equation holds": "OpenSSL lets R have a small order, as RFC 8032 does",
}
"""Signatures that OpenSSL accepts and icv refuses."""
Case = tuple[str, bytes, str]


def _cases(file: str) -> Iterator[Case]:
    for case in (FOLDER / f"{file}.vectors").read_text().split("\n== ")[1:]:
        name, _, rest = case.partition("\n")
        message, _, verdict = rest.partition("\n->\n")
        yield name, bytes.fromhex(message), verdict.strip()


def _tlvs(block: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield type, type extension, value and octets of each TLV (RFC 5444, section 5.4.1)."""
    while block:
        flags, at = block[1], 2
        extension = block[at] if flags & 0x80 else 0
        at += bool(flags & 0x80)
        size = (2 if flags & 0x08 else 1) if flags & 0x10 else 0
        end = at + size + int.from_bytes(block[at : at + size], "big")
        yield block[0], extension, block[at + size : end], block[:end]
        block = block[end:]


@dataclass(frozen=True)
class Read:
    """What a message says, and what its signature covers (RFC 7182, section 9.1)."""

    originator: bytes
    icvs: list[bytes]
    stamps: list[bytes]
    covered: bytes

    @property
    def key(self) -> bytes:
        """Return the public key."""
        return self.icvs[0][:32]

    def is_signed(self, domain: bytes = DOMAIN) -> bool:
        """Return whether OpenSSL verifies the signature."""
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.icvs[0][32:], domain + self.covered)
        except InvalidSignature:
            return False
        return True


def _read(message: bytes) -> Read:
    flags, length = message[1], (message[1] & 15) + 1
    at = 4 + length * bool(flags & 0x80)
    hops = bool(flags & 0x40) + bool(flags & 0x20)
    end = at + hops + 2 * bool(flags & 0x10)
    size = int.from_bytes(message[end : end + 2], "big")
    found = list(_tlvs(message[end + 2 : end + 2 + size]))
    kept = b"".join(octets for kind, _, _, octets in found if kind != ICV)
    behind = message[end + 2 + size :]
    total = end + 2 + len(kept) + len(behind)
    covered = message[:2] + total.to_bytes(2, "big") + message[4:at] + bytes(hops) + message[at + hops : end]
    values = {
        of: [value for kind, extension, value, _ in found if (kind, extension) == (of, OWN)] for of in (ICV, TIMESTAMP)
    }
    covered += len(kept).to_bytes(2, "big") + kept + behind
    return Read(message[4:at], values[ICV], values[TIMESTAMP], covered)


def _with_verdict(start: str) -> list[tuple[str, Read, str]]:
    cases = (case for file in TOOL["FILES"] for case in _cases(file))
    return [(name, _read(message), verdict) for name, message, verdict in cases if verdict.startswith(start)]


def _is_own(read: Read) -> bool:
    """Return whether the originator is the address or the locator of the key."""
    address, originator = address_of(x25519_public(read.key)), IPv6Address(read.originator)
    return originator in (address, locator_of(address))


@pytest.mark.parametrize("file", TOOL["FILES"])
def test_the_tool_writes_what_is_recorded(file: str) -> None:
    assert TOOL["text"](file) == (FOLDER / f"{file}.vectors").read_text(), "run tools/signature-vectors"


def test_openssl_verifies_each_message_that_counts_as_signed() -> None:
    signed = _with_verdict("signed")
    assert len(signed) == 39
    for name, read, verdict in signed:
        assert read.is_signed(), name
        assert not read.is_signed(DOMAIN[:-1]), name
        counter, age = (int.from_bytes(part, "big") for part in (read.stamps[0][:8], read.stamps[0][8:]))
        assert verdict == f"signed counter {counter} age {age} floor {max(counter - age, 0)}"
        assert read.originator[0] & 0xFE != 0xFC or _is_own(read), name


def test_openssl_refuses_each_false_signature() -> None:
    false = _with_verdict("signature")
    assert len(false) > 40
    assert [name for name, read, _ in false if read.is_signed()] == list(LENIENT)


def test_the_addresses_that_are_refused_are_no_hashes_of_their_keys() -> None:
    foreign = _with_verdict("address")
    assert len(foreign) > 4
    assert [name for name, read, _ in foreign if _is_own(read)] == []


def test_no_card_can_have_a_key_that_is_refused() -> None:
    refused = _with_verdict("key")
    assert len(refused) > 40
    for _, read, _ in refused:
        with pytest.raises(IdentityError):
            x25519_public(read.key)
