"""What a machine calls itself: one label of a domain name (RFC 1035, section 2.3.1; RFC 1123, section 2.1)."""

import re
from typing import Final, NamedTuple

from meshsec.core.values.model import Address

LABEL_PATTERN: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A label in small letters, at most 63 octets."""

_LABEL = re.compile(LABEL_PATTERN.encode("ascii"))
_ALMOST = bytes.maketrans(b"_ ", b"--")
"""What host names have although they must not: boards say ``ESP_1A2B3C``, and people write blanks."""


class ClientName(NamedTuple):
    """What a client calls itself, and its addresses."""

    label: str
    addresses: tuple[Address, ...]


def label(octets: bytes) -> str:
    """Return the first label of a host name, as a stranger says it; empty: it says none that a name can have."""
    first = octets.partition(b".")[0].rstrip(b"\0").translate(_ALMOST).lower()
    return first.decode("ascii") if _LABEL.fullmatch(first) else ""
