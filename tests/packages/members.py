"""What differs between two Debian packages, named by the member of the archive that differs."""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_HEADER = 60
"""Bytes of a member's header in an archive of ar(5): name, time, user, group, mode, size, end."""
_MAGIC = b"!<arch>\n"
_SECONDS = 120
_TARS = {"control.tar": "--ctrl-tarfile", "data.tar": "--fsys-tarfile"}
"""Options of dpkg-deb(1) that write these members without compression."""


def differences(one: Path, other: Path) -> list[str]:
    """Return a line for each member that differs. Empty: the packages have the same bytes."""
    first, second = one.read_bytes(), other.read_bytes()
    if first == second:
        return []
    found = [
        f"{tar}: {line}" for tar in _TARS for line in _between(dict(_members(one, tar)), dict(_members(other, tar)))
    ]
    found += [f"ar: {line}" for line in _between(dict(_headers(first)), dict(_headers(second)))]
    return found or ["the members are the same; their order or their compression is not"]


def _between(one: Mapping[str, Mapping[str, str]], other: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield in words what differs between two sets of members with their attributes."""
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            yield f"{name} is only in the {'first' if name in one else 'second'}"
            continue
        changed = [what for what, value in one[name].items() if other[name][what] != value]
        if changed:
            yield f"{name}: " + ", ".join(f"{what} {one[name][what]} and {other[name][what]}" for what in changed)


def _members(package: Path, tar: str) -> Iterator[tuple[str, dict[str, str]]]:
    argv = ["dpkg-deb", _TARS[tar], str(package)]
    stream = subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=_SECONDS).stdout
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            yield (
                member.name,
                {
                    "type": member.type.decode(),
                    "mode": f"{member.mode:o}",
                    "owner": f"{member.uid}:{member.gid} {member.uname}:{member.gname}",
                    "time": str(member.mtime),
                    "target": member.linkname,
                    "content": hashlib.sha256(content.read()).hexdigest()[:16] if content else "none",
                },
            )


def _headers(package: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the headers of the archive itself, without the sizes, which follow from the contents."""
    place = len(_MAGIC)
    while place < len(package):
        header = package[place : place + _HEADER].decode("ascii")
        yield header[:16].strip(), {"time, owner and mode": header[16:48].strip()}
        size = int(header[48:58])
        place += _HEADER + size + size % 2
