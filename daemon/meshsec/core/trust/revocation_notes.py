"""What people say of the keys on a fleet's trust list: name, date and reason (ADR 0046).

A trust list has fingerprints alone, and nodes of earlier versions read no other. So the notes are signed apart, and a
list counts without them. Octets, big-endian; the Ed25519 signature (64 octets, RFC 8032) covers a text of its own and
all octets before it:

=====  ================================================================================================================
head   0x6e, version 1, fleet's key (32), number of the list (8)
note   fingerprint (32), time (8: seconds since 1970 by the operator's clock), name and reason: each a length (1), UTF-8
=====  ================================================================================================================

Nodes exchange notes as if they were the list of another fleet, whose key follows from the fleet's. A node of an earlier
version does not know that key and passes it over.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshsec.core.trust.fleets import (
    FINGERPRINT_LENGTH,
    LIST_OCTETS_MAX,
    NUMBER_MAX,
    FleetError,
    Fleets,
    as_text,
    from_text,
)
from meshsec.core.trust.identity import KEY_LENGTH, raw_public_key

_TEXT = "meshsec-revocations1:"
REASON_MAX = 200
"""Octets of a reason."""
_NAME_MAX = 32
_KIND, _VERSION = 0x6E, 1
_SIGNATURE = 64
_HEAD = struct.Struct(f"!BB{KEY_LENGTH}sQ")
_NOTE = struct.Struct(f"!{FINGERPRINT_LENGTH}sQB")
_PURPOSE = b"meshsec fleet: revocation notes\0"


@dataclass(frozen=True, slots=True)
class Note:
    """What is said of one revoked key."""

    at: int
    """Seconds since 1970, by the operator's clock."""
    name: str
    reason: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.name, self.reason)))


@dataclass(frozen=True, slots=True)
class Notes:
    """All notes of a fleet, by fingerprint."""

    fleet: bytes
    number: int
    said: Mapping[bytes, Note]
    octets: bytes


def date(number: int) -> str:
    """Return the number of a list, or another time of a fleet, as people read it."""
    try:
        return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(number)


def exchanged_as(fleet: bytes) -> bytes:
    """Return the key under which nodes exchange the notes of a fleet."""
    return sha256(_PURPOSE + fleet).digest()


def are_notes(octets: bytes) -> bool:
    """Return whether octets that came in the place of a list are meant as notes."""
    return octets[:1] == bytes([_KIND])


def are_notes_text(text: str) -> bool:
    """Return whether a text is meant to be notes."""
    return text.strip().startswith(_TEXT)


def text(notes: Notes) -> str:
    """Return notes as one line."""
    return as_text(_TEXT, notes.octets)


def parse(line: str, fleets: Fleets) -> Notes:
    """Return the notes that a text says. Raises FleetError."""
    return read(from_text(line, _TEXT, "line of revocation notes", LIST_OCTETS_MAX), fleets)


def checked_reason(reason: str) -> str:
    """Return a reason that a note may have. Raises FleetError."""
    if len(reason.encode()) > REASON_MAX or not reason.isprintable():
        raise FleetError(f"the reason is {reason[:REASON_MAX]!r}; allowed: {REASON_MAX} octets of printable characters")
    return reason


def sign(key: Ed25519PrivateKey, number: int, said: Mapping[bytes, Note]) -> Notes:
    """Return the notes on the list with this number. Where they find no room, the oldest are left out."""
    fleet = raw_public_key(key.public_key())
    body, kept = _HEAD.pack(_KIND, _VERSION, fleet, number), {}
    for fingerprint, note in sorted(said.items(), key=lambda one: (-one[1].at, one[0])):
        name, reason = note.name.encode(), note.reason.encode()
        octets = _NOTE.pack(fingerprint, note.at, len(name)) + name + bytes([len(reason)]) + reason
        if len(body) + len(octets) + _SIGNATURE > LIST_OCTETS_MAX:
            break
        body += octets
        kept[fingerprint] = note
    return Notes(fleet, number, kept, body + key.sign(_PURPOSE + body))


def read(octets: bytes, fleets: Fleets) -> Notes:
    """Return the notes in ``octets``, after checking their signature first. Raises FleetError."""
    if not _HEAD.size + _SIGNATURE <= len(octets) <= LIST_OCTETS_MAX:
        raise FleetError(
            f"the notes have {len(octets)} octets; allowed: {_HEAD.size + _SIGNATURE} to {LIST_OCTETS_MAX}"
        )
    kind, version, fleet, number = _HEAD.unpack_from(octets)
    if (kind, version) != (_KIND, _VERSION) or fleet not in fleets or number > NUMBER_MAX:
        raise FleetError("these are no notes of a fleet that is joined, or of another version")
    body, signature = octets[:-_SIGNATURE], octets[-_SIGNATURE:]
    try:
        Ed25519PublicKey.from_public_bytes(fleet).verify(signature, _PURPOSE + body)
    except InvalidSignature:
        raise FleetError("the notes are not signed by their fleet, or are damaged") from None
    try:
        return Notes(fleet, number, dict(_said(body[_HEAD.size :])), octets)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FleetError(f"the notes are cut off or no text: {error}") from None


def _said(rest: bytes) -> Iterator[tuple[bytes, Note]]:
    while rest:
        fingerprint, at, length = _NOTE.unpack_from(rest)
        name, rest = rest[_NOTE.size :][:length], rest[_NOTE.size + length :]
        reason, rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
        yield fingerprint, Note(at, _shown(name, _NAME_MAX), _shown(reason, REASON_MAX))


def _shown(octets: bytes, most: int) -> str:
    """Return a text that may be put on a terminal."""
    return "".join(filter(str.isprintable, octets.decode("utf-8")))[:most]
