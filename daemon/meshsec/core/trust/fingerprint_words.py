"""A key's fingerprint as words, to compare two cards by voice.

Six words of the BIP-39 English list (2048 words, distinct in their first four letters) are 66 bits of the SHA-256
fingerprint. To find a second key with the same words and an address that begins with fc takes some 2^74 key pairs.
"""

from collections.abc import Sequence
from difflib import get_close_matches

WORD_COUNT = 6
_BITS_PER_WORD = 11
_TELLING_LETTERS = 4
SAID_OCTETS = 9
"""Octets that hold the bits of six words."""
_UNSAID = SAID_OCTETS * 8 - WORD_COUNT * _BITS_PER_WORD


class WordsError(ValueError):
    """What was said is not six words of the list. The message says which word is meant instead, if one is near."""


def spoken(fingerprint: bytes, wordlist: Sequence[str]) -> tuple[str, ...]:
    """Return the six words of a fingerprint (SHA-256, 32 octets), or of its first octets (``first_octets``)."""
    bits = int.from_bytes(first_octets(fingerprint), "big") >> _UNSAID
    shifts = range((WORD_COUNT - 1) * _BITS_PER_WORD, -1, -_BITS_PER_WORD)
    return tuple(wordlist[bits >> shift & 0x7FF] for shift in shifts)


def first_octets(fingerprint: bytes) -> bytes:
    """Return what the six words say of a fingerprint: its first 66 bits, in octets, with zeros behind."""
    first = int.from_bytes(fingerprint[:SAID_OCTETS], "big")
    return (first >> _UNSAID << _UNSAID).to_bytes(SAID_OCTETS, "big")


def said_octets(said: str, wordlist: Sequence[str]) -> bytes:
    """Return the ``first_octets`` of the fingerprint that is meant by six words, or the first four letters of each.

    Raises WordsError when it is not six words of the list.
    """
    heard = [_known(word, wordlist) for word in said.replace(",", " ").lower().split()]
    if len(heard) != WORD_COUNT:
        raise WordsError(f"{len(heard)} words; a fingerprint has {WORD_COUNT}")
    bits = 0
    for word in heard:
        bits = bits << _BITS_PER_WORD | wordlist.index(word)
    return (bits << _UNSAID).to_bytes(SAID_OCTETS, "big")


def matches(fingerprint: bytes, said: str, wordlist: Sequence[str]) -> bool:
    """Return whether ``said`` (six words, or the first four letters of each, in any case) is this fingerprint.

    Raises WordsError when it is not six words of the list.
    """
    return said_octets(said, wordlist) == first_octets(fingerprint)


def _known(word: str, wordlist: Sequence[str]) -> str:
    for known in wordlist:
        if known == word or (len(word) == _TELLING_LETTERS and known.startswith(word)):
            return known
    near = get_close_matches(word, wordlist, n=1)
    hint = f"; perhaps {near[0]!r}" if near else ""
    raise WordsError(f"{word!r} is not a word of the list{hint}")
