"""What a new node and the members of a fleet say to each other before they trust each other (ADR 0070).

Datagrams in the clear, because there is no SA yet, between the addresses that the routers announce: the ``fc..`` one,
or the locator where ESP is in user space. Octets, big-endian; the first two are the version 1 and the kind:

========  ====  ==================================================================================================
message   kind  then
========  ====  ==================================================================================================
request   1     fleet's key (32), cookie (16; zeros: none yet), the card's text, signature of the card's key (64)
cookie    2     cookie (16): repeat the request with it
receipt   3     the request's cookie (16), standing (1)
approval  4     the request's cookie (16), length (2) and the new node's signed card, then a member's signed card
search    8     what six words say of a fleet's key (9), cookie (16; zeros: none yet)
found     9     the search's cookie (16), the fleet's card
========  ====  ==================================================================================================

Who knows only the six words of the fleet searches for it first (ADR 0070). Kinds 5 to 7: ``twins.py``.

Whoever gets a request or a search answers it with a cookie, which is shorter than either, and keeps nothing of it. Only
one that brings the cookie of its own source address is read on: the answer then goes to somebody who asked.
"""

import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv6Address
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshsec.core.trust import card as cards
from meshsec.core.trust.card_typos import is_intact
from meshsec.core.trust.fingerprint_words import SAID_OCTETS
from meshsec.core.trust.fleets import CARD_OCTETS_MAX, FLEET_OCTETS_MAX
from meshsec.core.trust.identity import KEY_LENGTH
from meshsec.core.values.model import Card

PORT: Final = 17183
"""UDP port of both ends."""
VERSION = 1
"""First octet of every datagram."""
COOKIE_LENGTH = 16
NO_COOKIE = bytes(COOKIE_LENGTH)
COOKIE_SECONDS = 60.0
"""A cookie is good for as long, and at most for twice as long: for the time of one more exchange."""

_SIGNATURE = 64
_PURPOSE = b"meshsec join: request\0"
_HEAD = struct.Struct("!BB")
_REQUEST_HEAD = struct.Struct(f"!BB{KEY_LENGTH}s{COOKIE_LENGTH}s")
_APPROVAL_HEAD = struct.Struct(f"!{COOKIE_LENGTH}sH")

REQUEST_MAX = _REQUEST_HEAD.size + cards.LONGEST + _SIGNATURE
SIZE_MAX = _HEAD.size + _APPROVAL_HEAD.size + 2 * CARD_OCTETS_MAX
"""Octets of the longest datagram, which fits into IPv6's smallest MTU."""


class _Kind(IntEnum):
    REQUEST = 1
    COOKIE = 2
    RECEIPT = 3
    APPROVAL = 4
    SEARCH = 8
    FOUND = 9


KINDS = frozenset(_Kind)


class JoinError(ValueError):
    """Octets that are no message, or that prove nothing. The message says why."""


class Standing(IntEnum):
    """What a member says of a request."""

    WAITING = 0
    REFUSED = 1


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose signature has not been checked yet."""

    fleet: bytes
    """Public key of the fleet that the node asks to join."""
    cookie: bytes
    card_text: bytes
    octets: bytes


@dataclass(frozen=True, slots=True)
class Cookie:
    """Repeat the request with this cookie."""

    cookie: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The request was understood. Nothing proves who says so."""

    cookie: bytes
    standing: Standing


@dataclass(frozen=True, slots=True)
class Approval:
    """The fleet has signed the new node's card. The signatures prove it, not the sender."""

    cookie: bytes
    own: bytes
    """The new node's signed card."""
    member: bytes
    """That of the member that says so."""


@dataclass(frozen=True, slots=True)
class Search:
    """Which fleet is it whose key these words mean?"""

    sought: bytes
    cookie: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """The fleet. Its key proves itself by the words; nothing proves its name."""

    cookie: bytes
    fleet: bytes
    """Its card in octets, which have not been read."""


Message = Request | Cookie | Receipt | Approval | Search | Found


def request(key: Ed25519PrivateKey, card: Card, fleet: bytes, cookie: bytes) -> bytes:
    """Return the request of a node with this key and card."""
    body = _REQUEST_HEAD.pack(VERSION, _Kind.REQUEST, fleet, cookie) + cards.render(card).encode("ascii")
    return body + key.sign(_PURPOSE + body)


def encode(message: Cookie | Receipt | Approval | Search | Found) -> bytes:
    """Return the octets of a message that nobody signs."""
    match message:
        case Search():
            return _HEAD.pack(VERSION, _Kind.SEARCH) + message.sought + message.cookie
        case Found():
            return _HEAD.pack(VERSION, _Kind.FOUND) + message.cookie + message.fleet
        case Cookie():
            return _HEAD.pack(VERSION, _Kind.COOKIE) + message.cookie
        case Receipt():
            return _HEAD.pack(VERSION, _Kind.RECEIPT) + message.cookie + bytes([message.standing])
        case Approval():
            head = _APPROVAL_HEAD.pack(message.cookie, len(message.own))
            return _HEAD.pack(VERSION, _Kind.APPROVAL) + head + message.own + message.member


def decode(octets: bytes) -> Message:
    """Return the message as far as its form says it. Raises JoinError."""
    if not _HEAD.size <= len(octets) <= SIZE_MAX:
        raise JoinError(f"{len(octets)} octets; allowed: {_HEAD.size} to {SIZE_MAX}")
    version, kind = _HEAD.unpack_from(octets)
    if version != VERSION:
        raise JoinError(f"version {version}; this meshsec reads version {VERSION}")
    rest = octets[_HEAD.size :]
    match kind:
        case _Kind.REQUEST:
            return _read_request(octets)
        case _Kind.COOKIE if len(rest) == COOKIE_LENGTH:
            return Cookie(rest)
        case _Kind.RECEIPT if len(rest) == COOKIE_LENGTH + 1 and rest[-1] in set(Standing):
            return Receipt(rest[:-1], Standing(rest[-1]))
        case _Kind.APPROVAL if len(rest) > _APPROVAL_HEAD.size:
            cookie, length = _APPROVAL_HEAD.unpack_from(rest)
            signed = rest[_APPROVAL_HEAD.size :]
            if length < len(signed):
                return Approval(cookie, signed[:length], signed[length:])
        case _Kind.SEARCH if len(rest) == SAID_OCTETS + COOKIE_LENGTH:
            return Search(rest[:SAID_OCTETS], rest[SAID_OCTETS:])
        case _Kind.FOUND if COOKIE_LENGTH < len(rest) <= COOKIE_LENGTH + FLEET_OCTETS_MAX:
            return Found(rest[:COOKIE_LENGTH], rest[COOKIE_LENGTH:])
    raise JoinError(f"kind {kind} with {len(octets)} octets")


def _read_request(octets: bytes) -> Request:
    if not _REQUEST_HEAD.size + _SIGNATURE < len(octets) <= REQUEST_MAX:
        raise JoinError(f"a request of {len(octets)} octets; allowed: at most {REQUEST_MAX}")
    _, _, fleet, cookie = _REQUEST_HEAD.unpack_from(octets)
    return Request(fleet, cookie, octets[_REQUEST_HEAD.size : -_SIGNATURE], octets)


def checked_card(said: Request, sender: IPv6Address) -> Card:
    """Return the card in a request. Raises JoinError if the sender has another address, or did not sign it."""
    text = said.card_text.decode("ascii", "replace")
    if not is_intact(text):  # before parse, which takes its time to find out which character is wrong
        raise JoinError("the card's checksum does not hold")
    try:
        card = cards.parse(text)
    except cards.CardError as error:
        raise JoinError(f"the card: {error}") from None
    if sender not in {card.address, card.locator}:
        raise JoinError(f"the card of {card.address} came from {sender}")
    body, signature = said.octets[:-_SIGNATURE], said.octets[-_SIGNATURE:]
    try:
        Ed25519PublicKey.from_public_bytes(card.public_key).verify(signature, _PURPOSE + body)
    except InvalidSignature:
        raise JoinError("the request is not signed by the key on its card") from None
    return card


class Cookies:
    """Cookies that need no memory: each follows from a secret, the time and the address that it was sent to."""

    def __init__(self, secret: bytes) -> None:
        """``secret``: 32 fresh random octets."""
        self._secret = secret

    def of(self, address: IPv6Address, now: float) -> bytes:
        """Return the present cookie of an address. ``now``: monotonic seconds."""
        return self._in(address, int(now // COOKIE_SECONDS))

    def hold(self, cookie: bytes, address: IPv6Address, now: float) -> bool:
        """Return whether an address was sent this cookie lately."""
        period = int(now // COOKIE_SECONDS)
        return any(hmac.compare_digest(cookie, self._in(address, one)) for one in (period, period - 1))

    def _in(self, address: IPv6Address, period: int) -> bytes:
        return hmac.digest(self._secret, struct.pack("!q", period) + address.packed, "sha256")[:COOKIE_LENGTH]
