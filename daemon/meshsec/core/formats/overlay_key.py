"""A public key of the overlay as cjdns's tools and configurations write it: 52 digits of base 32 and ``.k``."""

from meshsec.core.trust.identity import KEY_LENGTH, address_of, is_mesh_address

KEY_RULE = "52 digits of 0-9, b-d, f-h, j-n, p-z and '.k', whose address is in fc00::/8"

_DIGITS = "0123456789bcdfghjklmnpqrstuvwxyz"
_LENGTH = 52
_SUFFIX = ".k"


def encode(key: bytes) -> str:
    """Return the text of an X25519 public key of 32 octets, the least significant bits first."""
    number = int.from_bytes(key, "little")
    return "".join(_DIGITS[number >> 5 * index & 31] for index in range(_LENGTH)) + _SUFFIX


def decode(text: str) -> bytes:
    """Return the X25519 public key in a text. Raises ValueError for a key that no node can have."""
    digits = text.removesuffix(_SUFFIX).lower()
    if not text.endswith(_SUFFIX) or len(digits) != _LENGTH or set(digits) - set(_DIGITS):
        raise ValueError(KEY_RULE)
    number = sum(_DIGITS.index(digit) << 5 * index for index, digit in enumerate(digits))
    if number >> 8 * KEY_LENGTH:
        raise ValueError(KEY_RULE)
    key = number.to_bytes(KEY_LENGTH, "little")
    if not is_mesh_address(address_of(key)):
        raise ValueError(KEY_RULE)
    return key
