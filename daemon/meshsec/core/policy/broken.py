"""The algorithms that are below the floor of every profile, wherever they are in a table."""

import re
from collections.abc import Iterable, Iterator, Mapping

from meshsec.core.values.definition import Path

_WEAK = re.compile(r"(des|3des|null|blowfish|cast|rc4|md5|sha1|prfmd5|prfsha1|modp(768|1024|1536)|modp1024s160)(\d*)")
STRONG = "algorithms that are not broken: no DES, 3DES, MD5, SHA-1, null encryption, MODP group of less than 2048 bits"


def broken(table: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    """Yield the proposals of a policy's table that contain a broken algorithm, each with its path."""
    for path, proposal in _written(table):
        if any(_WEAK.fullmatch(word) for word in proposal.split("-")):
            yield path, proposal


def _written(table: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    for name in ("ike_proposals", "esp_proposals"):
        for index, one in enumerate(_entries(table.get(name))):
            yield (name, index), str(one)
    for index, suite in enumerate(_entries(table.get("suites"))):
        found = suite if isinstance(suite, Mapping) else {}
        yield from ((("suites", index, name), str(found[name])) for name in ("ike", "esp") if name in found)


def _entries(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()
