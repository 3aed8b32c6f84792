"""Save by which uplink this node is a gateway, as the operator chose, in ``gateway.json``."""

from pathlib import Path

import msgspec

from meshsec import files

_MODE = 0o644
_LIMIT = 1024


class GatewayStoreError(Exception):
    """The file cannot be read or written. The message names it and says why."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    uplink: str
    """Empty: the node is no gateway."""


def load(path: Path) -> str | None:
    """Return the chosen uplink, empty for none; None where nothing was chosen. Raises GatewayStoreError."""
    try:
        return msgspec.json.decode(files.read(path, _LIMIT), type=_File).uplink if files.exists(path) else None
    except files.FileError as error:
        raise GatewayStoreError(str(error)) from error
    except ValueError as error:
        hint = "remove it, and choose with `meshsec gateway on` or `off`"
        raise GatewayStoreError(f"{path}: {error}; {hint}") from error


def save(path: Path, uplink: str) -> None:
    """Write the choice atomically. Raises GatewayStoreError and then changes nothing."""
    try:
        files.make_directory(path.parent)
        files.write(path, msgspec.json.encode(_File(uplink)) + b"\n", _MODE)
    except files.FileError as error:
        raise GatewayStoreError(str(error)) from error
