"""The files of sysctl.d(5), as systemd-sysctl reads them, and what of meshsec's own files has to go back."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from meshsec import files
from meshsec.core.uninstall import sysctls
from meshsec.core.uninstall.sysctls import Change

OWN = ("60-meshsec.conf", "60-meshsec-scheduling.conf")
"""meshsec's files. Those of others are none of its business."""
ROOT = Path("/")
_ADMINISTRATORS = ("etc/sysctl.d", "run/sysctl.d")
_PROGRAMS = ("usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d")
"""Directories, the first ones first: a file hides those of the same name in later ones."""
_VALUES = "proc/sys"
_LIMIT = 1 << 20
"""Bytes of a file."""


def look(interfaces: Collection[str]) -> tuple[Change, ...]:
    """Return what comes back when meshsec's files go, also on the mesh interfaces. Raises FileError.

    A file by which an administrator has replaced one of meshsec's is not meshsec's.
    """
    found = _files()
    own = [name for name in OWN if name in found and found[name].parent in {ROOT / one for one in _PROGRAMS}]
    texts = {name: files.read(path, _LIMIT) for name, path in sorted(found.items()) if path.exists()}
    others = {str(found[name]): text for name, text in texts.items() if name not in own}
    ours = [texts[name] for name in own]
    return sysctls.changes(ours, others, _present(sysctls.keys(ours, interfaces)), interfaces)


def put(change: Change) -> None:
    """Give a sysctl its value back. Raises FileError."""
    path = ROOT / _VALUES / change.key
    try:
        path.write_text(f"{change.after}\n", encoding="ascii")
    except OSError as error:
        raise files.FileError(f"{path}: {error.strerror}") from error


def _files() -> Mapping[str, Path]:
    """Return the files in force by name. A link to /dev/null hides others and says nothing."""
    found: dict[str, Path] = {}
    for directory in (*_ADMINISTRATORS, *_PROGRAMS):
        for path in (ROOT / directory).glob("*.conf"):
            found.setdefault(path.name, path)
    return {name: path for name, path in found.items() if path.resolve() != Path("/dev/null")}


def _present(keys: Iterable[str]) -> Mapping[str, str]:
    """Return the values of all keys that can be written: a container may not set some."""
    base = ROOT / _VALUES
    return dict(_values(base, sorted({path for key in keys for path in base.glob(key) if os.access(path, os.W_OK)})))


def _values(base: Path, paths: list[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        yield str(path.relative_to(base)), sysctls.normal(files.read(path, _LIMIT))
