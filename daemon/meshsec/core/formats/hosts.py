"""The lines of hosts(5) that belong to meshsec, in a file of which all other lines are the administrator's."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from meshsec.core.names.names import DOMAIN, Named

BEGIN = "# BEGIN meshsec: the nodes that this node trusts. meshsec keeps these lines; write yours outside of them."
END = "# END meshsec"

_LINE = re.compile(rf"([0-9a-f:.]+) [a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.{DOMAIN}")


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


def parts(content: bytes) -> Parts:
    """Take a hosts file apart. Only lines that meshsec could have written, and only between its marks, are meshsec's.

    Somebody may have removed a mark or written between them, and no line of his gets lost.
    """
    lines = content.splitlines(keepends=True)
    texts = [line.decode("ascii", "replace").strip() for line in lines]
    taken: set[int] = set()
    for begin in (number for number, text in enumerate(texts) if text == BEGIN):
        end = _end(texts, begin)
        taken |= {begin, *(number for number in range(begin + 1, end) if _is_own(texts[number]))}
    marks = taken | {number for number, text in enumerate(texts) if text == END}
    first = min(taken, default=len(lines))
    return Parts(
        b"".join(line for number, line in enumerate(lines[:first]) if number not in marks),
        tuple(texts[number] for number in sorted(taken) if texts[number] != BEGIN),
        b"".join(line for number, line in enumerate(lines) if number > first and number not in marks),
    )


def joined(content: bytes, lines: Sequence[str]) -> bytes:
    """Return a hosts file with these lines in the place of meshsec's, and no other change; without lines, no marks."""
    before, present, after = parts(content)
    block = "".join(f"{line}\n" for line in (BEGIN, *lines, END)).encode() if lines else b""
    if present == tuple(lines) and (block in content if block else not _has_marks(content)):
        return content
    gap = b"\n" if block and before and not before.endswith(b"\n") else b""
    return before + gap + block + after


def _end(texts: Sequence[str], begin: int) -> int:
    """Return where what follows a first mark ends; without a last mark, before the first line that is not meshsec's."""
    for number in range(begin + 1, len(texts)):
        if texts[number] == END:
            return number
        if texts[number] == BEGIN:
            break
    return next((number for number in range(begin + 1, len(texts)) if not _is_own(texts[number])), len(texts))


def _has_marks(content: bytes) -> bool:
    return any(line.strip() in (BEGIN.encode(), END.encode()) for line in content.splitlines())


def _is_own(line: str) -> bool:
    found = _LINE.fullmatch(line)
    if not found:
        return False
    try:
        ip_address(found[1])
    except ValueError:
        return False
    return True
