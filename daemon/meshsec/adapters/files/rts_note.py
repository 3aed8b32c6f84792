"""Why a radio has its RTS threshold: a line that meshsec-radio leaves in its runtime directory for doctor."""

from pathlib import Path

from meshsec import files

NAME = "rts-threshold"
MEASURED, NOT_MEASURED = "measured: ", "not measured: "
"""How a line begins."""
_DIRECTORY = "/run/meshsec-radio-{}"
"""RuntimeDirectory= of the unit, by interface."""
_LIMIT = 1000
"""Octets; of a file that another user writes no more is read."""


def write(path: Path, text: str) -> None:
    """Write the line. Raises FileError."""
    files.write(path, f"{text}\n".encode()[:_LIMIT], 0o644)


def read(interface: str) -> str:
    """Return the line of an interface; empty when there is none, or anything else in its place.

    The file belongs to another user, who might put a link to a file of root there.
    """
    try:
        text = files.read(Path(_DIRECTORY.format(interface)) / NAME, _LIMIT).strip()
    except files.FileError:
        return ""
    return text if text.isprintable() and text.startswith((MEASURED, NOT_MEASURED)) else ""
