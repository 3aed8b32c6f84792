"""The trust store: one file ``NAME.card`` for each peer. Who writes a card here trusts its node."""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from meshsec import files
from meshsec.core import card as cards
from meshsec.core.identity import IdentityError, checked_name
from meshsec.core.model import Card, Peer

SUFFIX = ".card"

_MODE = 0o644
_LIMIT = 1024
"""Octets of a card file."""


class TrustStoreError(Exception):
    """A change of the trust store that is refused. The message says why; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A card file that is not in force."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def load(directory: Path, own: Card) -> tuple[dict[str, Peer], tuple[Problem, ...]]:
    """The trusted peers by name, and every file that is refused; one bad card does not hide the others.

    Of two cards that contradict each other none is in force: which of them is meant cannot be known. A directory that
    does not exist trusts nobody. Raises TrustStoreError when the directory cannot be read.
    """
    peers: dict[str, Peer] = {}
    problems: list[Problem] = []
    for path in _card_files(directory):
        try:
            peers[path.stem] = _peer(path)
        except (files.FileError, cards.CardError, IdentityError, _UnsafeError) as error:
            problems.append(Problem(path, str(error).removeprefix(f"{path}: ")))
    for name, message in _conflicts(peers, own).items():
        del peers[name]
        problems.append(Problem(directory / f"{name}{SUFFIX}", message))
    return peers, tuple(sorted(problems, key=str))


def add(directory: Path, name: str, card: Card, own: Card) -> Peer:
    """Trust ``card`` under ``name``. Adding the same card again changes nothing. Raises TrustStoreError."""
    try:
        peer = Peer(checked_name(name), card)
    except IdentityError as error:
        raise TrustStoreError(str(error)) from error
    with _locked(directory):
        peers, _ = load(directory, own)
        path = directory / f"{name}{SUFFIX}"
        if peers.get(name) == peer:
            return peer
        if path.exists():
            raise TrustStoreError(f"{path}: there is a peer {name!r} with another card; remove it first")
        conflict = _conflicts({**peers, name: peer}, own).get(name)
        if conflict:
            raise TrustStoreError(f"{name!r} is not added: {conflict}")
        _written(path, card)
    return peer


def remove(directory: Path, name: str) -> None:
    """Trust ``name`` no longer, whether its card is good or not. Raises TrustStoreError."""
    with _locked(directory):
        path = directory / f"{name}{SUFFIX}"
        if path not in _card_files(directory):
            known = ", ".join(known.stem for known in _card_files(directory)) or "none"
            raise TrustStoreError(f"there is no peer {name!r}; known: {known}")
        try:
            files.remove(path)
        except files.FileError as error:
            raise TrustStoreError(str(error)) from error


class _UnsafeError(Exception):
    """A card file that others than its owner may write."""


def _card_files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrustStoreError(f"{directory}: {error.strerror}") from error


def _peer(path: Path) -> Peer:
    name = checked_name(path.stem)
    text = files.read(path, _LIMIT)
    if stat.S_IMODE(path.stat().st_mode) & 0o022:
        raise _UnsafeError(f"others than its owner may write it: chmod 644 {path}")
    return Peer(name, cards.parse(text))


def _conflicts(peers: Mapping[str, Peer], own: Card) -> dict[str, str]:
    """Why a peer cannot be in force beside the others, by name."""
    found: dict[str, str] = {}
    holders: dict[object, str] = {own.public_key: "", own.address: "", own.ipv4: ""}
    for name, peer in sorted(peers.items()):
        for claim, noun in _claims(peer.card):
            if claim not in holders:
                holders[claim] = name
                continue
            holder = holders[claim]
            if not holder:
                found.setdefault(name, f"its {noun} is this node's own")
            elif holder != name:
                found.setdefault(name, f"its {noun} is also that of peer {holder!r}")
                found.setdefault(holder, f"its {noun} is also that of peer {name!r}")
    return found


def _claims(card: Card) -> Iterator[tuple[object, str]]:
    yield card.public_key, "public key"
    yield card.address, f"address {card.address}"
    if card.ipv4:
        yield card.ipv4, f"IPv4 address {card.ipv4}"


def _written(path: Path, card: Card) -> None:
    try:
        files.write(path, f"{cards.render(card)}\n".encode(), _MODE)
    except files.FileError as error:
        raise TrustStoreError(str(error)) from error


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other writers out, so that two of them cannot both find a place free."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TrustStoreError(f"{directory}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
