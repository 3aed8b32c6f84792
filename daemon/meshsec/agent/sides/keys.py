"""Read the node's keys for the IKE daemon, each time it needs them, without keeping them in memory."""

from dataclasses import dataclass
from pathlib import Path

from meshsec.adapters.files import key_store, second_secret_store
from meshsec.core.trust import second_secret
from meshsec.core.trust.pair_secret import pair_secret
from meshsec.core.values.model import Authentication, ConnectionSpec


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys in ``path`` and, during a change of the key, beside it (ADR 0041)."""

    path: Path
    is_changing: bool = False

    def private(self) -> list[bytes]:
        """Return all private keys (PKCS#8, PEM). Raises KeyStoreError."""
        paths = (self.path, key_store.next_path(self.path)) if self.is_changing else (self.path,)
        return [key_store.load(path).pkcs8_pem() for path in paths]

    def secret_for(self, spec: ConnectionSpec) -> bytes | None:
        """Return the secret of a pair that authenticates by one (ADR 0042), or its second one (ADR 0091).

        Both follow from its channel's key. Raises KeyStoreError, and FileError if the second secret is gone.
        """
        if spec.authentication is Authentication.SECRET:
            return pair_secret(key_store.find(self.path, spec.local_public_key).seed(), spec.remote_public_key)
        if spec.second_secret is None:
            return None
        seed = key_store.find(self.path, spec.local_public_key).seed()
        secret = second_secret_store.load(self.path.with_name(second_secret_store.NAME))
        return second_secret.of_pair(seed, spec.remote_public_key, secret)
