"""The lines of hosts(5) that belong to meshsec, in a file of which all other lines are the administrator's."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from itertools import pairwise, takewhile
from typing import NamedTuple

from meshsec.core.names.names import DOMAIN, Named
from meshsec.core.values.host_names import LABEL_PATTERN, ClientName

BEGIN = "# BEGIN meshsec: the nodes that this node trusts. meshsec keeps these lines; write yours outside of them."
END = "# END meshsec"

_LINE = re.compile(rf"([0-9a-f:.]+) (?:({LABEL_PATTERN})\.)?({LABEL_PATTERN})\.{DOMAIN}")
"""The groups are the address, the name of a client or nothing, and that of a node."""
_MARK = re.compile(
    rb"^[ \t\v\f\r]*(?:(%b)|%b)[ \t\v\f\r]*(?:\n|\Z)" % (re.escape(BEGIN.encode()), re.escape(END.encode())),
    re.MULTILINE,
)
"""The line of a mark; the group is of the first one."""
_ANY_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class HostsError(ValueError):
    """A text that meshsecd did not write. The message names the line."""


class Parts(NamedTuple):
    """A hosts file, taken apart."""

    before: bytes
    """The administrator's lines before those of meshsec; all of them where meshsec has none."""
    lines: tuple[str, ...]
    """Those of meshsec."""
    after: bytes
    """The administrator's lines after those of meshsec."""


def render(names: Iterable[Named]) -> str:
    """Return the lines for names: one for each address, so that an address leads back to its name."""
    return "".join(f"{address} {one.full}\n" for one in names for address in one.addresses)


def parse(text: str) -> tuple[str, ...]:
    """Return the lines of a text that ``render`` wrote. Raises HostsError."""
    lines = tuple(text.splitlines())
    for number, line in enumerate(lines, 1):
        if not _is_own(line):
            raise HostsError(f"line {number} is {line!r}; allowed: an address and a name in {DOMAIN}")
    return lines


def of_nodes(lines: Iterable[str]) -> tuple[str, ...]:
    """Return those of the lines that ``render`` wrote which name nodes, without those of clients."""
    return tuple(line for line in lines if (one := _LINE.fullmatch(line)) and not one[2])


def clients(lines: Iterable[str]) -> Mapping[str, tuple[ClientName, ...]]:
    """Return the names of clients in lines that ``render`` wrote, by the names of their nodes."""
    found: dict[str, dict[str, ClientName]] = {}
    for line in lines:
        if (one := _LINE.fullmatch(line)) and one[2]:
            names = found.setdefault(one[3], {})
            before = names.get(one[2], ClientName(one[2], ()))
            names[one[2]] = before._replace(addresses=(*before.addresses, ip_address(one[1])))
    return {node: tuple(names.values()) for node, names in found.items()}


def parts(content: bytes) -> Parts:
    """Take a hosts file apart. Only lines that meshsec could have written, and only between its marks, are meshsec's.

    Somebody may have removed a mark or written between them, and no line of his gets lost.
    """
    before, lines, after = _taken_apart(content)
    return Parts(b"".join(before), lines, b"".join(after))


def joined(content: bytes, lines: Sequence[str]) -> bytes:
    """Return a hosts file with these lines in the place of meshsec's, and no other change; without lines, no marks."""
    before, present, after = _taken_apart(content)
    block = "".join(f"{line}\n" for line in (BEGIN, *lines, END)).encode() if lines else b""
    if present == tuple(lines) and (block in content if block else not _MARK.search(content)):
        return content
    last = next((part[-1:] for part in reversed(before) if part), b"\n")
    gap = b"\n" if block and last != b"\n" else b""
    return b"".join((*before, gap, block, *after))


def _taken_apart(content: bytes) -> tuple[list[memoryview], tuple[str, ...], list[memoryview]]:
    """Return ``Parts`` without a copy of the administrator's lines, which may be megabytes."""
    marks = list(_MARK.finditer(content))
    own = [line for mark, following in pairwise([*marks, None]) if mark and mark[1] for line in _own(mark, following)]
    begin = min((mark.start() for mark in marks if mark[1]), default=len(content))
    cuts = sorted(found.span() for found in (*marks, *own))
    return (
        _kept(content, 0, begin, [cut for cut in cuts if cut[0] < begin]),
        tuple(_text(line) for line in own),
        _kept(content, begin, len(content), [cut for cut in cuts if cut[0] >= begin]),
    )


def _own(mark: re.Match[bytes], following: re.Match[bytes] | None) -> Iterator[re.Match[bytes]]:
    """Give meshsec's lines after a first mark; without a last mark, those before the first that is not meshsec's."""
    if following and not following[1]:
        lines = _ANY_LINE.finditer(mark.string, mark.end(), following.start())
        return (line for line in lines if _is_own(_text(line)))
    return takewhile(lambda line: _is_own(_text(line)), _ANY_LINE.finditer(mark.string, mark.end()))


def _kept(content: bytes, start: int, stop: int, cuts: Sequence[tuple[int, int]]) -> list[memoryview]:
    """Return what is left between two places without the cuts, which are in order."""
    starts, stops = [start, *(cut[1] for cut in cuts)], [*(cut[0] for cut in cuts), stop]
    return [memoryview(content)[one:other] for one, other in zip(starts, stops, strict=True)]


def _text(line: re.Match[bytes]) -> str:
    return line[0].decode("ascii", "replace").strip()


def _is_own(line: str) -> bool:
    found = _LINE.fullmatch(line)
    if not found:
        return False
    try:
        ip_address(found[1])
    except ValueError:
        return False
    return True
