"""A flat apt repository, signed by a temporary key and served over HTTP inside a namespace."""

import hashlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from tests.lab.net import namespaces

PROGRAMS = ("gpg", "gpgconf", "dpkg-scanpackages")
_OWNER = "meshsec test fleet <fleet@test.invalid>"


class SigningKey:
    """An OpenPGP key for the time of a ``with`` block; its private part is in a temporary directory."""

    def __enter__(self) -> Self:
        # Below /tmp, because it holds the agent's socket, and the path of a UNIX socket ends after 107 bytes.
        self._home = tempfile.TemporaryDirectory(prefix="meshsec-gpg-")
        self._gpg("--passphrase", "", "--quick-generate-key", _OWNER, "ed25519", "sign", "never")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["gpgconf", "--homedir", self._home.name, "--kill", "all"], check=True, timeout=60)
        self._home.cleanup()

    def public(self) -> bytes:
        """Return the armoured public key."""
        return self._gpg("--armor", "--export")

    def secret(self) -> bytes:
        """Return the secret key, which no passphrase protects."""
        return self._gpg("--export-secret-keys")

    def fingerprint(self) -> str:
        """Return the key's fingerprint in hexadecimal."""
        listed = self._gpg("--with-colons", "--list-keys").decode()
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    @property
    def home(self) -> str:
        """Directory of the key ring (``GNUPGHOME``)."""
        return self._home.name

    def sign(self, text: str) -> bytes:
        """Return ``text`` with its signature, as in InRelease."""
        return self._gpg("--clearsign", stdin=text.encode())

    def _gpg(self, *arguments: str, stdin: bytes = b"") -> bytes:
        argv = ["gpg", "--homedir", self._home.name, "--batch", "--quiet", *arguments]
        return subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, check=True, timeout=120).stdout


def publish(directory: Path, packages: Iterable[Path], signing: SigningKey, index: Path | None = None) -> None:
    """Make ``directory`` a repository of ``packages`` (``deb [signed-by=...] URI ./``) and replace what was in it.

    ``index``: the ``Packages`` of these packages where it exists already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.iterdir():
        left.unlink()
    for package in packages:
        (directory / package.name).symlink_to(package.resolve())
    text = index.read_bytes() if index else scan(directory)
    (directory / "Packages").write_bytes(text)
    (directory / "InRelease").write_bytes(signing.sign(_release(text)))


def scan(directory: Path) -> bytes:
    """Return the ``Packages`` of a directory of packages."""
    argv = ["dpkg-scanpackages", "--multiversion", "."]
    return subprocess.run(
        argv, cwd=directory, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600
    ).stdout


def _release(packages: bytes) -> str:
    lines = ["Origin: meshsec-lab", "Label: meshsec-lab", "Suite: lab", f"Date: {formatdate(usegmt=True)}"]
    return "\n".join([*lines, "SHA256:", f" {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages"]) + "\n"


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files of one directory and logs each request in one line."""

    def __init__(self, directory: str, log: TextIO, *arguments: Any) -> None:
        self._log = log
        super().__init__(*arguments, directory=directory)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the name is the base's
        self._log.write(f"{self.address_string()} {format % arguments}\n")


@contextmanager
def served(directory: Path, namespace: str, address: str, log: Path) -> Iterator[None]:
    """Serve a directory over HTTP at ``address``, port 80, inside the namespace. Requests are logged in ``log``."""
    with log.open("a", buffering=1, encoding="utf-8") as file:
        handler = partial(_Handler, os.fspath(directory), file)
        server = namespaces.within(namespace, lambda: ThreadingHTTPServer((address, 80), handler))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
