"""Fleets (ADR 0046): a key that signs the cards of members and the list of revoked keys.

Octets, big-endian. Each ends in an Ed25519 signature (64 octets, RFC 8032) over a text that says what it is for and all
octets before it, so that none can be taken for another.

===============  =======================================================================
fleet's card     version 1, key (32), name; then the first 4 octets of SHA-256 of these
signed card      version 1, fleet's key (32), since (8), until (8; 0: for ever), the card's text
                 (docs/reference/card.md)
trust list       version 1, fleet's key (32), number (8), count (2), fingerprints (32 each), ascending
===============  =======================================================================

Times are seconds since 1970 by the clock of whoever signs; a list's number is the time of its signing, or one more
than that of the list before. A node has no clock that lasts: to it, it is at least as late as the newest list says.
"""

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import KEY_LENGTH, IdentityError, checked_name, raw_public_key, x25519_public
from meshsec.core.values.model import Card

REVOKED_MAX = 4096
"""Keys on a list."""
MEMBERS_MAX = 4096
"""Signed cards that a node keeps, of all its fleets."""
FLEETS_MAX = 16
NUMBER_MAX = 2**63 - 1
"""Largest number of a trust list: a signed 64-bit integer, as other programs read numbers in JSON."""
FINGERPRINT_LENGTH = 32

_VERSION = 1
_SIGNATURE = 64
_CHECK = 4
_CARD_HEAD = struct.Struct(">B32sQQ")
_LIST_HEAD = struct.Struct(">B32sQH")
_CARD_PURPOSE = b"meshsec fleet: signed card\0"
_LIST_PURPOSE = b"meshsec fleet: trust list\0"
_FLEET, _CARD, _LIST = "meshsec-fleet1:", "meshsec-signed-card1:", "meshsec-trust-list1:"

FLEET_OCTETS_MAX = 1 + KEY_LENGTH + 32 + _CHECK
CARD_OCTETS_MAX = _CARD_HEAD.size + cards.LONGEST + _SIGNATURE
LIST_OCTETS_MAX = _LIST_HEAD.size + REVOKED_MAX * FINGERPRINT_LENGTH + _SIGNATURE
TEXT_MAX = len(_LIST) + (LIST_OCTETS_MAX + 2) // 3 * 4
"""Characters of the longest text."""


class FleetError(ValueError):
    """Octets or a text that say nothing to be relied on. The message says why."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet's signing key: given to each node once, by hand."""

    name: str
    public_key: bytes

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the key: six words of it are compared by voice."""
        return sha256(self.public_key).digest()


@dataclass(frozen=True, slots=True)
class SignedCard:
    """A member's card, and from when to when it is one."""

    fleet: bytes
    """The fleet's public key."""
    card: Card
    since: int
    until: int
    """0: for ever."""
    octets: bytes

    def over(self, now: int) -> bool:
        """Return whether its time has ended at ``now``, the number of a list of its fleet."""
        return 0 < self.until < now


@dataclass(frozen=True, slots=True)
class TrustList:
    """The revoked keys of a fleet, complete."""

    fleet: bytes
    number: int
    revoked: frozenset[bytes]
    """Fingerprints."""
    octets: bytes


Fleets = Mapping[bytes, Fleet]
"""Fleets whose signature counts on this node, by public key."""


def fleet_text(fleet: Fleet) -> str:
    """Return a fleet as the line that nodes are given."""
    return as_text(_FLEET, fleet_octets(fleet))


def fleet_octets(fleet: Fleet) -> bytes:
    """Return a fleet's card in octets. Nobody has signed it."""
    octets = bytes([_VERSION]) + fleet.public_key + fleet.name.encode("ascii")
    return octets + sha256(octets).digest()[:_CHECK]


def card_text(signed: SignedCard) -> str:
    """Return a signed card as one line."""
    return as_text(_CARD, signed.octets)


def list_text(listed: TrustList) -> str:
    """Return a trust list as one line."""
    return as_text(_LIST, listed.octets)


def parse_fleet(text: str) -> Fleet:
    """Return the fleet that a text names. Raises FleetError."""
    return read_fleet(from_text(text, _FLEET, "fleet's card", FLEET_OCTETS_MAX))


def read_fleet(octets: bytes) -> Fleet:
    """Return the fleet whose card the octets are. Raises FleetError."""
    if not octets or len(octets) > FLEET_OCTETS_MAX:
        raise FleetError(f"the fleet's card has {len(octets)} octets; allowed: 1 to {FLEET_OCTETS_MAX}")
    body, check = octets[:-_CHECK], octets[-_CHECK:]
    if len(body) < 1 + KEY_LENGTH + 1 or sha256(body).digest()[:_CHECK] != check:
        raise FleetError("the fleet's card is damaged: compare it with the original")
    _checked_version(body[0], "fleet's card")
    key, name = body[1 : 1 + KEY_LENGTH], body[1 + KEY_LENGTH :].decode("ascii", "backslashreplace")
    try:
        x25519_public(key)  # refuses what is no point, and points of small order, for which anybody can sign
        return Fleet(checked_name(name), key)
    except IdentityError as error:
        raise FleetError(f"the fleet's card: {error}") from None


def parse_card(text: str, fleets: Fleets) -> SignedCard:
    """Return the signed card that a text says. Raises FleetError."""
    return read_card(from_text(text, _CARD, "signed card", CARD_OCTETS_MAX), fleets)


def parse_list(text: str, fleets: Fleets) -> TrustList:
    """Return the trust list that a text says. Raises FleetError."""
    return read_list(from_text(text, _LIST, "trust list", LIST_OCTETS_MAX), fleets)


def is_card(text: str) -> bool:
    """Return whether a text is meant to be a signed card."""
    return text.strip().startswith(_CARD)


def read_card(octets: bytes, fleets: Fleets) -> SignedCard:
    """Return the signed card in ``octets``, after checking its signature first. Raises FleetError."""
    _checked_length(octets, "signed card", _CARD_HEAD.size, CARD_OCTETS_MAX)
    _checked_head(octets, fleets, "signed card")
    return _card(octets)


@lru_cache(maxsize=2 * MEMBERS_MAX)
def _card(octets: bytes) -> SignedCard:
    """Read a signed card. The result is cached, because the store is read again often and signatures do not change."""
    body = _signed_body(octets, _CARD_PURPOSE, "signed card")
    _, fleet, since, until = _CARD_HEAD.unpack_from(body)
    try:
        card = cards.parse(body[_CARD_HEAD.size :].decode("ascii"))
    except (cards.CardError, UnicodeDecodeError) as error:
        raise FleetError(f"the signed card: {error}") from None
    return SignedCard(fleet, card, since, until, octets)


def said_key(octets: bytes) -> bytes:
    """Return the key on a signed card whose signature was not checked; empty if there is none."""
    try:
        return cards.parse(octets[_CARD_HEAD.size : -_SIGNATURE].decode("ascii")).public_key
    except (cards.CardError, UnicodeDecodeError):
        return b""


def read_list(octets: bytes, fleets: Fleets) -> TrustList:
    """Return the trust list in ``octets``. Raises FleetError."""
    _checked_length(octets, "trust list", _LIST_HEAD.size, LIST_OCTETS_MAX)
    _checked_head(octets, fleets, "trust list")
    body = _signed_body(octets, _LIST_PURPOSE, "trust list")
    _, fleet, number, count = _LIST_HEAD.unpack_from(body)
    rest = body[_LIST_HEAD.size :]
    if number > NUMBER_MAX:
        raise FleetError(f"the trust list has the number {number}; allowed: {NUMBER_MAX} at most")
    if count > REVOKED_MAX or len(rest) != count * FINGERPRINT_LENGTH:
        raise FleetError(f"the trust list has {len(rest)} octets of fingerprints and says that it has {count} of them")
    revoked = [rest[at : at + FINGERPRINT_LENGTH] for at in range(0, len(rest), FINGERPRINT_LENGTH)]
    if revoked != sorted(set(revoked)):
        raise FleetError("the fingerprints of the trust list are not in ascending order")
    return TrustList(fleet, number, frozenset(revoked), octets)


def sign_card(key: Ed25519PrivateKey, card: Card, since: int, until: int = 0) -> SignedCard:
    """Make ``card`` a member's."""
    fleet = raw_public_key(key.public_key())
    body = _CARD_HEAD.pack(_VERSION, fleet, since, until) + cards.render(card).encode("ascii")
    return SignedCard(fleet, card, since, until, body + key.sign(_CARD_PURPOSE + body))


def sign_list(key: Ed25519PrivateKey, now: int, revoked: Collection[bytes], before: TrustList | None) -> TrustList:
    """Return the list that takes the place of ``before``. Raises FleetError when it would have too many keys."""
    if len(revoked) > REVOKED_MAX:
        raise FleetError(f"the trust list would have {len(revoked)} keys; allowed: {REVOKED_MAX}")
    fleet, number = raw_public_key(key.public_key()), max(now, before.number + 1 if before else 0)
    body = _LIST_HEAD.pack(_VERSION, fleet, number, len(revoked)) + b"".join(sorted(revoked))
    return TrustList(fleet, number, frozenset(revoked), body + key.sign(_LIST_PURPOSE + body))


def _checked_length(octets: bytes, noun: str, head: int, most: int) -> None:
    if not head + _SIGNATURE <= len(octets) <= most:
        raise FleetError(f"the {noun} has {len(octets)} octets; allowed: {head + _SIGNATURE} to {most}")


def _checked_head(octets: bytes, fleets: Fleets, noun: str) -> None:
    _checked_version(octets[0], noun)
    if (key := octets[1 : 1 + KEY_LENGTH]) not in fleets:
        known = ", ".join(fleet.name for fleet in fleets.values()) or "none"
        raise FleetError(f"the {noun} is of a fleet with the key {key.hex()}; joined: {known}")


def _signed_body(octets: bytes, purpose: bytes, noun: str) -> bytes:
    body, signature, key = octets[:-_SIGNATURE], octets[-_SIGNATURE:], octets[1 : 1 + KEY_LENGTH]
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, purpose + body)
    except InvalidSignature:
        raise FleetError(f"the {noun} is not signed by the fleet whose key is {key.hex()}, or is damaged") from None
    return body


def _checked_version(version: int, noun: str) -> None:
    if version != _VERSION:
        raise FleetError(f"the {noun} has version {version}; this meshsec reads version {_VERSION}")


def as_text(prefix: str, octets: bytes) -> str:
    """Return signed octets as one line."""
    return prefix + urlsafe_b64encode(octets).decode("ascii").rstrip("=")


def from_text(text: str, prefix: str, noun: str, most: int) -> bytes:
    """Return the octets of a line, ``most`` at most. Raises FleetError."""
    text = text.strip()
    if not text.startswith(prefix):
        raise FleetError(f"the text begins with {text[: len(prefix)]!r}; a {noun} begins with {prefix!r}")
    coded = text[len(prefix) :]
    if len(coded) > (most + 2) // 3 * 4:
        raise FleetError(f"the {noun} has {len(coded)} characters after {prefix!r}; allowed: {(most + 2) // 3 * 4}")
    if foreign := sorted(set(coded) - _ALPHABET):
        raise FleetError(f"the {noun} has the characters {''.join(foreign)[:8]!r}, which never occur in one")
    try:
        return urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except binascii.Error:
        raise FleetError(f"the {noun} is cut off: it has {len(coded)} characters after {prefix!r}") from None


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
