"""Keep the fleet's key on the operator's machine, away from the nodes (ADR 0046).

The directory has five files. ``fleet.key`` is PKCS#8 in PEM, readable by its owner alone and encrypted if a passphrase
was given (PBES2 as the library chooses it). ``fleet.card`` is what nodes get. ``trust.list`` is the newest signed list,
``revocation.notes`` what is said of the keys on it. ``signed.names`` has fingerprint and name of each card that was
signed here, so that a member can be revoked by its name; it is changed under the lock of ``.lock``, because many cards
may be signed at once.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from meshsec import files
from meshsec.adapters.files.trust_store import lock
from meshsec.core.trust import fleets, revocation_notes
from meshsec.core.trust.fleets import Fleet, FleetError, TrustList
from meshsec.core.trust.identity import IdentityError, checked_name, raw_public_key
from meshsec.core.trust.revocation_notes import Notes
from meshsec.core.values.model import Card

_KEY, _CARD, _LIST = "fleet.key", "fleet.card", "trust.list"
_NOTES, _SIGNED = "revocation.notes", "signed.names"
_LIMIT = 4096
_SIGNED_LIMIT = 4 * 1024 * 1024
"""Octets: some 40 000 cards."""


class FleetKeyError(Exception):
    """The key cannot be made or must not be used. The message says why and never quotes the key."""


def create(directory: Path, name: str, passphrase: str) -> Fleet:
    """Make the key of a fleet, unencrypted if ``passphrase`` is empty. Raises FleetKeyError, also if one exists."""
    key = Ed25519PrivateKey.generate()
    try:
        fleet = fleets.parse_fleet(fleets.fleet_text(Fleet(checked_name(name), raw_public_key(key.public_key()))))
    except (FleetError, IdentityError) as error:
        raise FleetKeyError(str(error)) from error
    encryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if files.exists(directory / _KEY):
            raise FleetKeyError(f"{directory / _KEY} exists: a fleet has one key")
        files.write(directory / _CARD, f"{fleets.fleet_text(fleet)}\n".encode(), 0o644)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        files.write(directory / _KEY, pem, 0o600, replace=False)  # last: until the key exists, no fleet was made
    except OSError as error:
        raise FleetKeyError(f"{directory}: {error.strerror}") from error
    except files.FileError as error:
        raise FleetKeyError(str(error)) from error
    return fleet


def load(directory: Path, ask: Callable[[], str]) -> Ed25519PrivateKey:
    """Load the private key; ``ask`` returns the passphrase of an encrypted one. Raises FleetKeyError."""
    path = directory / _KEY
    try:
        pem = files.read(path, _LIMIT).encode()
        found = path.stat()
    except (files.FileError, OSError) as error:
        raise FleetKeyError(f"{error}: `meshsec fleet init` makes a fleet's key") from error
    if stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid():
        raise FleetKeyError(f"{path}: must be yours and nobody else's to read: chmod 600 {path}")
    passphrase = ask().encode() if b"ENCRYPTED" in pem.partition(b"\n")[0] else None
    try:
        key = load_pem_private_key(pem, passphrase)
    except (TypeError, ValueError):
        why = "the passphrase is wrong, or the file is damaged" if passphrase is not None else "it is no private key"
        raise FleetKeyError(f"{path}: {why}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FleetKeyError(f"{path}: it is no Ed25519 key")
    return key


def fleet(directory: Path) -> Fleet:
    """Read the fleet's card. Raises FleetKeyError."""
    try:
        if not files.exists(directory / _CARD):
            raise FleetKeyError(
                f"{directory / _CARD}: No such file: `meshsec fleet init NAME` makes a fleet's key, and --directory "
                "says where one is"
            )
        return fleets.parse_fleet(files.read(directory / _CARD, _LIMIT))
    except (files.FileError, FleetError) as error:
        raise FleetKeyError(str(error)) from error


def trust_list(directory: Path) -> TrustList | None:
    """Read the newest list that was signed here. Raises FleetKeyError."""
    path, known = directory / _LIST, fleet(directory)
    try:
        if not files.exists(path):
            return None
        return fleets.parse_list(files.read(path, fleets.TEXT_MAX + 2), {known.public_key: known})
    except (files.FileError, FleetError) as error:
        raise FleetKeyError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def save_list(directory: Path, listed: TrustList) -> None:
    """Save a list as the newest one. Raises FleetKeyError."""
    try:
        files.write(directory / _LIST, f"{fleets.list_text(listed)}\n".encode(), 0o644)
    except files.FileError as error:
        raise FleetKeyError(str(error)) from error


def notes(directory: Path) -> Notes | None:
    """Read what is said of the revoked keys. Raises FleetKeyError."""
    path, known = directory / _NOTES, fleet(directory)
    try:
        if not files.exists(path):
            return None
        return revocation_notes.parse(files.read(path, fleets.TEXT_MAX + 2), {known.public_key: known})
    except (files.FileError, FleetError) as error:
        raise FleetKeyError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def save_notes(directory: Path, said: Notes) -> None:
    """Save what is said of the revoked keys. Raises FleetKeyError."""
    try:
        files.write(directory / _NOTES, f"{revocation_notes.text(said)}\n".encode(), 0o644)
    except files.FileError as error:
        raise FleetKeyError(str(error)) from error


def signed_names(directory: Path) -> dict[bytes, str]:
    """Return the names on the cards that were signed here, by fingerprint. Raises FleetKeyError."""
    path = directory / _SIGNED
    try:
        lines = files.read(path, _SIGNED_LIMIT).splitlines() if files.exists(path) else []
        return {bytes.fromhex(key): name for key, _, name in (line.partition(" ") for line in lines)}
    except (files.FileError, ValueError) as error:
        raise FleetKeyError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def remember_signed(directory: Path, card: Card) -> None:
    """Note the name of a card that was signed, also while others are signed. Raises FleetKeyError."""
    try:
        with lock.locked(directory):
            _remember(directory, card)
    except (files.FileError, lock.LockError) as error:
        raise FleetKeyError(str(error)) from error


def _remember(directory: Path, card: Card) -> None:
    known = signed_names(directory)
    if known.get(card.fingerprint) == card.name:
        return
    known[card.fingerprint] = card.name
    text = "".join(f"{key.hex()} {name}\n" for key, name in known.items())
    files.write(directory / _SIGNED, text.encode(), 0o644)
