"""The lives in which this node has claimed that it asks a peer in vain (core/trust/twins.py): a file beside its key.

A node must recognize each claim of its own, however old, because somebody may have recorded it. So a life is written
down before its first claim is sent.
"""

import re
from pathlib import Path

from meshsec import files
from meshsec.core.trust.twins import NUMBER_LENGTH

NAME = "lives"
KEPT = 1024
"""Lives that are kept, the last ones. A node needs one for each start of meshsecd, and each six hours, in which a peer
did not answer."""

_LINE = re.compile(rf"[0-9a-f]{{{2 * NUMBER_LENGTH}}}")
_LIMIT = KEPT * (2 * NUMBER_LENGTH + 1)


def read(key: Path) -> frozenset[bytes]:
    """Return the lives of the node with this key file. Raises FileError if they cannot be known."""
    return frozenset(_listed(key.with_name(NAME)))


def add(key: Path, life: bytes) -> None:
    """Write down a life durably. Raises FileError."""
    path = key.with_name(NAME)
    kept = [*_listed(path), life][-KEPT:]
    files.write(path, "".join(f"{one.hex()}\n" for one in kept).encode("ascii"), 0o600)


def _listed(path: Path) -> list[bytes]:
    if not files.exists(path):
        return []
    lines = files.read(path, _LIMIT).splitlines()
    for number, line in enumerate(lines, 1):
        if not _LINE.fullmatch(line):
            wanted = f"{2 * NUMBER_LENGTH} hexadecimal digits"
            raise files.FileError(f"{path}:{number}: {line[:40]!r}; allowed: {wanted}. `rm {path}` begins it again")
    return [bytes.fromhex(line) for line in lines]
