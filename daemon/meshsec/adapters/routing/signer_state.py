"""Ask olsrv2d's text interface whether this router's messages are signed."""

import socket
from pathlib import Path
from typing import Literal

import msgspec

QUERY = "query.sock"
"""The text interface's socket, beside that of the change stream."""
_SECONDS = 5.0
_LIMIT = 4096
"""Bytes of an answer; it has about 150."""


class SignerState(msgspec.Struct):
    """olsrv2d's answer to ``signatures``."""

    signer: Literal["connected", "away", "off"]
    verified: int


class SignerStateError(Exception):
    """olsrv2d gave no usable answer; the message says why."""


def ask(changes: Path) -> SignerState:
    """Return the state that olsrv2d reports; ``changes`` is its change stream's socket. Raises SignerStateError."""
    path = changes.with_name(QUERY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(path))
            connection.sendall(b"/signatures\n")
            with connection.makefile("rb") as answer:
                return msgspec.json.decode(answer.read(_LIMIT), type=SignerState)
    except (OSError, msgspec.DecodeError) as error:
        raise SignerStateError(f"olsrv2d at {path}: {error}") from error
