"""Routers that sign: olsrv2d with a signer beside it, and an address that is the hash of its key."""

import os
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from meshsec.core.trust import identity
from tests.lab.basics import programs
from tests.lab.basics.processes import Daemon
from tests.lab.node.routers import Router


class SigningRouter(Router):
    """A node with olsrv2d that requires signatures, and with olsrv2-signer, which is started by itself."""

    def __init__(self, name: str, number: int, namespace: str, directory: Path) -> None:
        super().__init__(name, number, namespace, directory)
        seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
        self.key = identity.public_key_of(seed)
        """The Ed25519 public key, which each signed message carries."""
        self.ipv6 = str(identity.address_of(identity.x25519_public(self.key)))
        pem = directory / "node.key"
        pem.touch(mode=0o600)
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        pem.write_bytes(self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.counter_file = directory / "counter"
        argv = [programs.olsrv2_signer(), "--key", str(pem), "--counter", str(self.counter_file)]
        argv += ["--socket", str(self._sign_socket)]
        self.signer = Daemon(f"olsrv2-signer-{name}", namespace, argv, logs=directory, sockets=directory)

    @property
    def _sign_socket(self) -> Path:
        return self.directory / "sign.sock"

    def start_signer(self) -> None:
        """Start the signer, and wait until it is ready."""
        self.signer.start()
        self.signer.wait_ready()

    def end(self) -> None:
        super().end()
        self.signer.kill()

    def configure(self, settings: str = "", interfaces: Iterable[str] | None = None, each: str = "") -> None:
        """Write the configuration, which requires signatures unless ``settings`` say otherwise."""
        signatures = "" if "signatures" in settings else 'signatures = "require"\n'
        super().configure(f'signer = "{self._sign_socket}"\n{signatures}{settings}', interfaces, each)
