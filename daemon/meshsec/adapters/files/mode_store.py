"""Save the data plane that the operator chose for each peer in ``modes.json``, so that it outlives meshsecd."""

from ipaddress import IPv6Address
from pathlib import Path
from typing import Literal

import msgspec

from meshsec import files
from meshsec.core.values.model import DataPlane, Modes

_MODE = 0o644
_LIMIT = 1024 * 1024
"""Limit in bytes: enough for some ten thousand peers."""

_Plane = Literal["ipsec", "overlay"]


class ModeStoreError(Exception):
    """The file cannot be read or written. The message names it and says why."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    default: _Plane | None = None
    peers: dict[str, _Plane] = {}


def load(path: Path) -> Modes:
    """Read the chosen modes; none without a file. Raises ModeStoreError."""
    try:
        if not files.exists(path):
            return Modes()
        content = msgspec.json.decode(files.read(path, _LIMIT), type=_File)
        peers = {IPv6Address(address): DataPlane(plane) for address, plane in content.peers.items()}
    except files.FileError as error:
        raise ModeStoreError(str(error)) from error
    except ValueError as error:
        raise ModeStoreError(f"{path}: {error}; remove it, and choose with `meshsec mode`") from error
    return Modes(DataPlane(content.default) if content.default else None, peers)


def save(path: Path, modes: Modes) -> None:
    """Write the chosen modes atomically. Raises ModeStoreError and then changes nothing."""
    table = {
        "default": None if modes.default is None else str(modes.default),
        "peers": {str(address): str(plane) for address, plane in sorted(modes.peers.items())},
    }
    try:
        files.make_directory(path.parent)
        files.write(path, msgspec.json.format(msgspec.json.encode(table)) + b"\n", _MODE)
    except files.FileError as error:
        raise ModeStoreError(str(error)) from error
