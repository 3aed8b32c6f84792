"""Read secrets that the service manager passes to the process (systemd.exec(5), CREDENTIALS)."""

import os
import stat
from pathlib import Path

from meshsec import files

SAE_PASSWORD = "meshsec.sae-password"  # noqa: S105  (the name of the credential)
ACCESS_PASSWORD = "meshsec.access-password"  # noqa: S105  (the name of the credential)
PASSWORD_OCTETS = (8, 63)
"""Shortest and longest password in bytes that every implementation accepts."""

STORE = Path("/etc/credstore")
_FOR_THIS_BOOT = Path("/run/credstore")
_LIMIT = 4096


class CredentialError(Exception):
    """A secret is missing or unusable. The text says how to fix it and never contains the secret."""


def sae_password() -> bytes:
    """Return the password of the mesh. Raises CredentialError."""
    return _password(SAE_PASSWORD, "the mesh's password", "docs/guide/radio.md")


def access_password() -> bytes:
    """Return the password of the access point. Raises CredentialError."""
    return _password(ACCESS_PASSWORD, "the access point's password", "docs/guide/access.md")


def _password(name: str, what: str, guide: str) -> bytes:
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = Path(directory) / name
    if not directory or not path.is_file():
        raise CredentialError(
            f"there is no credential {name}; fix: put {what} into /etc/credstore/{name} with mode 0600 ({guide})"
        )
    if path.stat().st_mode & stat.S_IRWXO:
        raise CredentialError(f"{path} is open to everybody; fix: chmod o= {path}")
    try:
        password = files.read(path, _LIMIT).removesuffix("\n")
    except files.FileError as error:
        raise CredentialError(str(error)) from None
    return checked(password, str(path))


def checked(password: str, where: str) -> bytes:
    """Return a password's bytes. Raises CredentialError, which names ``where`` it comes from."""
    low, high = PASSWORD_OCTETS
    length = len(password.encode())
    if not low <= length <= high or not password.isprintable():
        raise CredentialError(
            f"{where}: {length} octets are not allowed; allowed: {low} to {high} octets of printable text, one line"
        )
    return password.encode()


def is_stored(name: str) -> bool:
    """Return whether systemd finds a credential of that name by itself (systemd.exec(5))."""
    return any(files.exists(directory / name) for directory in (STORE, _FOR_THIS_BOOT))


def store(name: str, password: bytes) -> None:
    """Put a password where systemd finds it, for root alone. Raises FileError."""
    STORE.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write(STORE / name, password + b"\n", 0o600)
