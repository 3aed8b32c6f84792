"""The text form of a card (docs/card.md): bech32m (BIP-350) with the prefix ``meshsec``.

The checksum is a BCH code that detects any three wrong characters in up to 1023. With a distance of four, one wrong
character or two swapped neighbours can be located without doubt; a missing or an extra character is found by
trying each place, where a false match has a chance below one in 10^5.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, reduce
from ipaddress import IPv4Address
from itertools import pairwise
from operator import xor

from bech32m.codecs import (
    BECH32M_CONST,
    CHARSET,
    DecodeError,
    Encoding,
    bech32_encode,
    bech32_hrp_expand,
    bech32_polymod,
    convertbits,
)

from meshsec.core.identity import KEY_LENGTH, IdentityError, make_card
from meshsec.core.model import Card

PREFIX = "meshsec1"
VERSION = 1
LONGEST = 126
"""Characters of a card with an IPv4 address and a name of 32 characters."""
GROUP = 4

_HRP = PREFIX[:-1]
_HAS_IPV4 = 0x01
_SHORTEST = 70
_TEXT_LIMIT = 1024
"""Characters of input, with its spaces, that are looked at."""


class Slip(StrEnum):
    """What a person does to one character when copying."""

    WRONG = "wrong"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Damage:
    """One slip: ``position`` counts the card's characters from 1 without spaces, ``likely`` is what belongs there."""

    slip: Slip
    position: int
    found: str
    likely: str


class CardError(ValueError):
    """A text that is no card. ``damage`` is the slip that explains it, where one does."""

    def __init__(self, message: str, damage: Damage | None = None) -> None:
        super().__init__(message)
        self.damage = damage


def render(card: Card) -> str:
    """The card as one line of lower-case characters."""
    ipv4 = b"" if card.ipv4 is None else card.ipv4.packed
    flags = _HAS_IPV4 if ipv4 else 0
    octets = bytes([VERSION, flags]) + card.public_key + ipv4 + card.name.encode("ascii")
    return bech32_encode(_HRP, bytes(convertbits(octets, 8, 5)), Encoding.BECH32M)


def grouped(text: str) -> str:
    """A card in groups of four characters, for reading aloud; ``parse`` takes this form too."""
    return " ".join(text[start : start + GROUP] for start in range(0, len(text), GROUP))


def parse(text: str) -> Card:
    """The card that ``text`` says, whatever its case, spaces, hyphens and line breaks. Raises CardError."""
    if len(text) > _TEXT_LIMIT:
        raise CardError(f"the text has {len(text)} characters; a card has at most {LONGEST}")
    plain = "".join(text.replace("-", " ").split()).lower()
    if not _is_codeword(plain):
        raise _explained(plain)
    return _decoded(plain)


def _decoded(plain: str) -> Card:
    symbols = bytes(CHARSET.index(character) for character in plain[len(PREFIX) : -6])
    try:
        octets = bytes(convertbits(symbols, 5, 8, False))
    except DecodeError:
        raise CardError("the card's last character carries bits that belong to no octet") from None
    if not octets or octets[0] != VERSION:
        raise CardError(f"the card has version {octets[0] if octets else 'none'}; this meshsec reads version {VERSION}")
    return _card_of(octets)


def _card_of(octets: bytes) -> Card:
    fixed = 2 + KEY_LENGTH
    flags = octets[1] if len(octets) > 1 else 0
    if flags & ~_HAS_IPV4:
        raise CardError(f"the card's flags are {flags:#04x}; allowed: 0x00 and {_HAS_IPV4:#04x}")
    name_at = fixed + 4 if flags else fixed
    if len(octets) <= name_at:
        raise CardError(f"the card has {len(octets)} octets; with its flags it needs more than {name_at}")
    ipv4 = IPv4Address(octets[fixed:name_at]) if flags else None
    try:
        return make_card(octets[name_at:].decode("ascii", "backslashreplace"), octets[2:fixed], ipv4)
    except IdentityError as error:
        raise CardError(str(error)) from None


def _is_codeword(plain: str) -> bool:
    data = plain.removeprefix(PREFIX)
    return (
        len(plain) <= LONGEST
        and len(plain) - len(data) == len(PREFIX)
        and len(data) >= 6
        and all(character in CHARSET for character in data)
        and _residue(data) == 0
    )


def _residue(data: str) -> int:
    """The remainder of the checksum: 0 when it holds."""
    return bech32_polymod(bech32_hrp_expand(_HRP) + bytes(CHARSET.index(c) for c in data)) ^ BECH32M_CONST


def _explained(plain: str) -> CardError:
    if not plain:
        return CardError("the card is empty")
    damage = None if len(plain) > LONGEST + 1 else next(_damages(plain), None)
    if damage:
        return CardError(_told(damage, plain), damage)
    if not plain.startswith(PREFIX):
        return CardError(f"the text begins with {plain[: len(PREFIX)]!r}; a card begins with {PREFIX!r}")
    if not _SHORTEST <= len(plain) <= LONGEST:
        return CardError(f"the card has {len(plain)} characters; allowed: {_SHORTEST} to {LONGEST}")
    foreign = [f"{position} ({c!r})" for position, c in enumerate(plain, 1) if position > 8 and c not in CHARSET]
    if foreign:
        return CardError(f"these characters never occur in a card: {', '.join(foreign)}; allowed: {CHARSET}")
    return CardError("the checksum does not hold and more than one character is wrong: compare it group by group")


def _told(damage: Damage, plain: str) -> str:
    at = damage.position
    first = (at - 1) // GROUP * GROUP
    where = f"character {at} (group {first // GROUP + 1}, {plain[first : first + GROUP]!r})"
    match damage.slip:
        case Slip.WRONG:
            return f"{where} is {damage.found!r}, likely {damage.likely!r}"
        case Slip.SWAPPED:
            return f"{where} and the next are {damage.found!r}, likely swapped: {damage.likely!r}"
        case Slip.MISSING:
            return f"character {at} is missing before {plain[at - 1 : at - 1 + GROUP]!r}, likely {damage.likely!r}"
        case Slip.EXTRA:
            return f"{where} is {damage.found!r}, likely one too many"


def _damages(plain: str) -> Iterator[Damage]:
    """The single slips that lead from a card to ``plain``, the commonest kind first."""
    for at, found in enumerate(plain):
        if (likely := _fitting(plain, at)) is not None:
            yield Damage(Slip.WRONG, at + 1, found, likely)
    for at, pair in enumerate(pairwise(plain)):
        if _is_codeword(plain[:at] + pair[1] + pair[0] + plain[at + 2 :]):
            yield Damage(Slip.SWAPPED, at + 1, "".join(pair), pair[1] + pair[0])
    for at in range(len(plain) + 1):
        if (likely := _fitting(plain[:at] + CHARSET[0] + plain[at:], at)) is not None:
            yield Damage(Slip.MISSING, at + 1, "", likely)
    for at, found in enumerate(plain):
        if _is_codeword(plain[:at] + plain[at + 1 :]):
            yield Damage(Slip.EXTRA, at + 1, found, "")


def _fitting(plain: str, at: int) -> str | None:
    """The character that makes ``plain`` a codeword when it stands at index ``at``; None when none does."""
    if at < len(PREFIX):
        return PREFIX[at] if _is_codeword(plain[:at] + PREFIX[at] + plain[at + 1 :]) else None
    blank = plain[len(PREFIX) : at] + CHARSET[0] + plain[at + 1 :]
    if not plain.startswith(PREFIX) or any(character not in CHARSET for character in blank):
        return None
    symbol = _residues_at(len(plain) - 1 - at).get(_residue(blank))
    return None if symbol is None or len(plain) > LONGEST else CHARSET[symbol]


@cache
def _residues_at(behind: int) -> dict[int, int]:
    """The residue that each symbol leaves, ``behind`` symbols before the end: a linear function of its five bits."""
    zero = bech32_polymod(bytes(behind + 1))
    units = [bech32_polymod(bytes([1 << bit]) + bytes(behind)) ^ zero for bit in range(5)]
    return {reduce(xor, (units[bit] for bit in range(5) if symbol >> bit & 1), 0): symbol for symbol in range(32)}
