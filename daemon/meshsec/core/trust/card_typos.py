"""The checksum of a card's text, and the one slip of a copying hand that explains why it fails.

Theory of operation. Bech32m (BIP-350) is a linear code: every character adds a residue of its own, which depends on its
symbol (five bits) and on how many characters are behind it, and the sum of them all is 0 when the checksum holds. So
one pass over a text shows what each typing error at each place would change, without computing the checksum again.

The code has a distance of four in up to 1023 characters: any three wrong characters are detected, and of the texts that
one wrong character or two swapped neighbours can have come from only one is right. A missing or an extra character
shifts the rest; there a false match has a chance of about 4000 in 2^30.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, reduce
from operator import xor

from bech32m.codecs import BECH32M_CONST, CHARSET, bech32_hrp_expand, bech32_polymod

PREFIX = "meshsec1"

CHECKSUM_LENGTH = 6


class Slip(StrEnum):
    """What a person does to one character when copying."""

    WRONG = "wrong"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Damage:
    """One slip: ``position`` counts the text's characters from 1, ``likely`` is what belongs there."""

    slip: Slip
    position: int
    found: str
    likely: str


def is_intact(text: str) -> bool:
    """Return whether ``text`` has the prefix and a checksum that holds."""
    data = text.removeprefix(PREFIX)
    complete = len(data) >= CHECKSUM_LENGTH and len(text) - len(data) == len(PREFIX)
    return complete and not foreign(data) and _residue(data) == 0


def foreign(data: str) -> list[int]:
    """Return where ``data`` has characters that never occur behind the prefix: indices from 0."""
    return [at for at, character in enumerate(data) if character not in CHARSET]


def find(text: str) -> Damage | None:
    """Return the single typing error that explains ``text``; None when none does."""
    if not text.startswith(PREFIX):
        return next(_in_prefix(text), None)
    offset = len(PREFIX)
    damage = next(_in_data(text[offset:]), None)
    return damage and Damage(damage.slip, damage.position + offset, damage.found, damage.likely)


def _in_prefix(text: str) -> Iterator[Damage]:
    for at, (likely, found) in enumerate(zip(PREFIX, text, strict=False)):
        if is_intact(text[:at] + likely + text[at + 1 :]):
            yield Damage(Slip.WRONG, at + 1, found, likely)
        if is_intact(text[:at] + likely + text[at:]):
            yield Damage(Slip.MISSING, at + 1, "", likely)
        if is_intact(text[:at] + text[at + 1 :]):
            yield Damage(Slip.EXTRA, at + 1, found, "")
        pair = text[at : at + 2]
        if is_intact(text[:at] + pair[::-1] + text[at + 2 :]):
            yield Damage(Slip.SWAPPED, at + 1, pair, pair[::-1])


def _in_data(data: str) -> Iterator[Damage]:
    unknown = foreign(data)
    if len(unknown) > 1:
        return
    if unknown:
        yield from _foreign_character(data, unknown[0])
        return
    symbols = [CHARSET.index(character) for character in data]
    yield from _wrong(symbols, _residue(data), range(len(symbols)))
    yield from _swapped(symbols, _residue(data))
    yield from _missing(symbols, _residue(CHARSET[0] + data))
    yield from _extra(symbols, _residue(data[1:]))


def _foreign_character(data: str, at: int) -> Iterator[Damage]:
    """Return the typing error at a character that no card has: it is wrong, or one too many."""
    blank = data[:at] + CHARSET[0] + data[at + 1 :]
    symbols = [CHARSET.index(character) for character in blank]
    for damage in _wrong(symbols, _residue(blank), range(at, at + 1)):
        yield Damage(Slip.WRONG, damage.position, data[at], damage.likely)
    if is_intact(PREFIX + data[:at] + data[at + 1 :]):
        yield Damage(Slip.EXTRA, at + 1, data[at], "")


def _wrong(symbols: list[int], residue: int, places: range) -> Iterator[Damage]:
    for at in places:
        residues = _residues(len(symbols) - 1 - at)
        if residue in residues:
            likely = symbols[at] ^ residues.index(residue)
            yield Damage(Slip.WRONG, at + 1, CHARSET[symbols[at]], CHARSET[likely])


def _swapped(symbols: list[int], residue: int) -> Iterator[Damage]:
    for at in range(len(symbols) - 1):
        behind, difference = len(symbols) - 1 - at, symbols[at] ^ symbols[at + 1]
        if residue == _residues(behind)[difference] ^ _residues(behind - 1)[difference]:
            found = CHARSET[symbols[at]] + CHARSET[symbols[at + 1]]
            yield Damage(Slip.SWAPPED, at + 1, found, found[::-1])


def _missing(symbols: list[int], residue: int) -> Iterator[Damage]:
    """``residue`` is that of the text with a blank before its first character; the blank moves to the end."""
    for at in range(len(symbols) + 1):
        behind = len(symbols) - at
        if residue in _residues(behind):
            yield Damage(Slip.MISSING, at + 1, "", CHARSET[_residues(behind).index(residue)])
        if behind:
            residue ^= _residues(behind)[symbols[at]] ^ _residues(behind - 1)[symbols[at]]


def _extra(symbols: list[int], residue: int) -> Iterator[Damage]:
    """``residue`` is that of the text without its first character; the gap moves to the end."""
    for at, symbol in enumerate(symbols):
        if residue == 0:
            yield Damage(Slip.EXTRA, at + 1, CHARSET[symbol], "")
        if at + 1 < len(symbols):
            residue ^= _residues(len(symbols) - 2 - at)[symbol ^ symbols[at + 1]]


def _residue(data: str) -> int:
    """Return the sum of all residues: 0 when the checksum holds."""
    symbols = bytes(CHARSET.index(character) for character in data)
    return bech32_polymod(bech32_hrp_expand(PREFIX[:-1]) + symbols) ^ BECH32M_CONST


@cache
def _residues(behind: int) -> tuple[int, ...]:
    """Return the residue of each symbol with ``behind`` symbols after it: linear in its five bits."""
    zero = bech32_polymod(bytes(behind + 1))
    units = [bech32_polymod(bytes([1 << bit]) + bytes(behind)) ^ zero for bit in range(5)]
    return tuple(reduce(xor, (units[bit] for bit in range(5) if symbol >> bit & 1), 0) for symbol in range(32))
