"""Our connections and secrets in pluto, and the files from which pluto loads them.

Each CHILD_SA of a peer is one pluto connection, ``meshsec-PEER.CHILD``, loaded by ``addconn`` from a file of its own.
The pair's secret is in another file, which pluto's ``secretsfile`` includes. Loading a connection again deletes its
SAs. So only what has changed is loaded, and SAs outlive meshsecd.
"""

import asyncio
import logging
from pathlib import Path

from meshsec import files
from meshsec.adapters.ike import pluto_status
from meshsec.adapters.ike.pluto_status import conn_name, peer_and_child
from meshsec.adapters.ike.whack import Whack
from meshsec.core.formats import libreswan
from meshsec.core.ike.port import CommandError, IkeError
from meshsec.core.values.model import ChildSpec, ConnectionSpec

_log = logging.getLogger(__name__)


class PlutoConfiguration:
    """What pluto has loaded from files in one directory. Changes are made one after the other."""

    def __init__(self, directory: Path, whack: Whack) -> None:
        self._directory = directory
        self._whack = whack
        self._changing = asyncio.Lock()
        self._loaded: set[str] | None = None
        """Our connections in pluto; None while that is not known."""

    def forget(self) -> None:
        """Ask again what pluto has, because it may be another process."""
        self._loaded = None

    async def load(self, spec: ConnectionSpec, secret: bytes) -> None:
        """Configure one peer; what pluto has already is not loaded again."""
        async with self._changing:
            loaded = {conn for conn in await self.ours() if peer_of(conn) == spec.name}
            await self._share(spec, secret)
            wanted = {conn_name(spec.name, child.name): child for child in spec.children}
            for conn in loaded - wanted.keys():
                await self._delete(conn)
            for conn, child in wanted.items():
                await self._add(conn, _driven(conn, spec, child), is_loaded=conn in loaded)

    async def unload(self, name: str) -> None:
        """Remove a peer's configuration and secret. An unknown name is no error."""
        async with self._changing:
            for conn in await self.ours():
                if peer_of(conn) == name:
                    await self._delete(conn)
            path = self._directory / _secrets(name)
            if path.exists():
                path.unlink()
                await self._whack.listen()

    async def peers(self) -> tuple[str, ...]:
        """Return the names of the peers that pluto knows. Leftover files of others are removed."""
        async with self._changing:
            self._loaded = None
            conns = await self.ours()
            known = {peer_of(conn) for conn in conns}
            kept = {f"{conn}.conf" for conn in conns} | {_secrets(peer) for peer in known}
            for path in self._directory.glob(f"{pluto_status.PREFIX}*"):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
            return tuple(sorted(known))

    async def _share(self, spec: ConnectionSpec, secret: bytes) -> None:
        path = self._directory / _secrets(spec.name)
        text = libreswan.secrets(spec.local_id, [(spec.remote_id, secret)], "Written by meshsecd.")
        if _read(path) != text:
            _write(path, text)
        if str(path) not in await self._whack.listen():
            raise CommandError(f"pluto does not read {path}: its secretsfile= must include {path.parent}/*.secrets")

    async def _add(self, conn: str, text: str, *, is_loaded: bool) -> None:
        """Load one connection. Its file exists only while pluto has its content."""
        path = self._directory / f"{conn}.conf"
        if is_loaded and _read(path) == text:
            return
        path.unlink(missing_ok=True)
        new = path.with_suffix(".new")
        _write(new, text)
        try:
            self._loaded = None
            await self._whack.add(conn, new)
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)

    async def _delete(self, conn: str) -> None:
        (self._directory / f"{conn}.conf").unlink(missing_ok=True)
        self._loaded = None
        await self._whack.command("--delete", "--name", conn)

    async def ours(self) -> set[str]:
        """Return the names of our connections in pluto."""
        if self._loaded is None:
            self._loaded = set(await self._whack.connections())
        return self._loaded


def peer_of(conn: str) -> str:
    """Return the peer of a connection; empty if the connection is not ours."""
    ours = peer_and_child(conn)
    return ours[0] if ours else ""


def _secrets(peer: str) -> str:
    """Return the name of the file with a pair's secret. No connection has such a name."""
    return f"{pluto_status.PREFIX}{peer}.secrets"


def _driven(conn: str, spec: ConnectionSpec, child: ChildSpec) -> str:
    try:
        found = libreswan.driven(conn, spec, child)
    except libreswan.NothingLeftError as error:
        raise CommandError(str(error)) from error
    for one in found.refused:
        _log.info("left out of %s, since libreswan cannot do it: %s", conn, one)
    return found.conf


def _write(path: Path, text: str) -> None:
    try:
        files.write(path, text.encode(), 0o600)
    except files.FileError as error:
        raise IkeError(str(error)) from error


def _read(path: Path) -> str:
    """Read a file; return an empty text if it cannot be read, so that it is written."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
