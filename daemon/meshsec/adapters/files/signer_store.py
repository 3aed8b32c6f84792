"""Save which peers' routers have been seen to sign, and with which key, in ``signers.json`` (ADR 0094)."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import msgspec

from meshsec import files
from meshsec.core.trust.identity import KEY_LENGTH
from meshsec.core.values.model import Address

_LIMIT = 4 << 20
"""Limit in bytes: enough for some ten thousand peers, each with three addresses."""


class SignerStoreError(Exception):
    """The file cannot be read. The message names it and says why."""


def load(path: Path) -> dict[Address, bytes]:
    """Return the key of each address whose router signs; none without a file. Raises SignerStoreError."""
    try:
        if not files.exists(path):
            return {}
        content = msgspec.json.decode(files.read(path, _LIMIT), type=dict[str, str])
        return {ip_address(address): _key(text) for address, text in content.items()}
    except files.FileError as error:
        raise SignerStoreError(str(error)) from error
    except ValueError as error:
        raise SignerStoreError(f"{path}: {error}") from error


def text(signers: Mapping[Address, bytes]) -> str:
    """Return what the file has for these."""
    table = {str(address): key.hex() for address, key in signers.items()}
    return msgspec.json.format(msgspec.json.encode(table, order="sorted")).decode() + "\n"


def _key(digits: str) -> bytes:
    key = bytes.fromhex(digits)
    if len(key) != KEY_LENGTH:
        raise ValueError(f"a key of {len(key)} bytes; allowed: {KEY_LENGTH}")
    return key
