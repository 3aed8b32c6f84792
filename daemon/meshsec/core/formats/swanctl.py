"""charon's connections of a node without meshsecd, for swanctl (swanctl.conf(5); strongSwan 5.9 and 6.0).

A peer authenticates by its raw key, or, where it runs libreswan, by the pair's secret (ADR 0042).
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from meshsec.core.values.model import Authentication, ChildSpec, ConnectionSpec

PREFIX = "meshsec-"
"""Prefix of the names of connections and files; an operator's own have others."""
OWN = "meshsec.pub"
"""The file of this node's public key."""

_SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")
"""SubjectPublicKeyInfo before the 32 octets of an Ed25519 key (RFC 8410, section 4)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One peer's connection."""

    spec: ConnectionSpec
    initiates: bool

    @property
    def by_secret(self) -> bool:
        """Both ends authenticate by the pair's secret."""
        return self.spec.authentication is Authentication.SECRET


def render(pairs: Mapping[str, Pair], comment: str) -> str:
    """Return the connections to all peers, by name. No secret is in it."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append("connections {")
    for name, pair in pairs.items():
        lines += [f"    {line}" for line in _connection(name, pair)]
    return "\n".join([*lines, "}"]) + "\n"


def secrets(pairs: Mapping[str, tuple[ConnectionSpec, bytes]], comment: str) -> str:
    """Return the secrets that this node shares with peers that authenticate by one, by name."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append("secrets {")
    for name, (spec, secret) in pairs.items():
        lines += [f"    ike-{PREFIX}{name} {{"]
        lines += [f"        id-local = {spec.local_id}", f"        id-remote = {spec.remote_id}"]
        lines += [f"        secret = 0x{secret.hex()}", "    }"]
    return "\n".join([*lines, "}"]) + "\n"


def key_files(pairs: Mapping[str, Pair]) -> dict[str, str]:
    """Return the public keys that the connections refer to, by file name."""
    found: dict[str, str] = {}
    for name, pair in pairs.items():
        if not pair.by_secret:
            found[OWN] = _pem(pair.spec.local_public_key)
            found[_key_file(name)] = _pem(pair.spec.remote_public_key)
    return found


def _connection(name: str, pair: Pair) -> Iterator[str]:
    spec = pair.spec
    yield f"{PREFIX}{name} {{"
    values = {
        "version": "2",
        "local_addrs": spec.local_address,
        "remote_addrs": spec.remote_address,
        "proposals": ",".join(spec.ike_proposals),
        "encap": "yes" if spec.encapsulate else "no",
        # An SA binds stable addresses, and a partition must not cost it: as meshsecd has it.
        "mobike": "no",
        "dpd_delay": "0s",
        "keyingtries": "0",
        "unique": "no",
        "rekey_time": f"{spec.ike_rekey_time}s",
    }
    yield from (f"    {key} = {value}" for key, value in values.items())
    yield from _end("local", str(spec.local_id), "" if pair.by_secret else OWN)
    yield from _end("remote", str(spec.remote_id), "" if pair.by_secret else _key_file(name))
    yield "    children {"
    for child in spec.children:
        yield from (f"        {line}" for line in _child(name, child, spec, initiates=pair.initiates))
    yield "    }"
    yield "}"


def _end(kind: str, identity: str, key: str) -> Iterator[str]:
    yield f"    {kind} {{"
    yield f"        auth = {'pubkey' if key else 'psk'}"
    yield f"        id = {identity}"
    if key:
        yield f"        pubkeys = {key}"
    yield "    }"


def _child(name: str, child: ChildSpec, spec: ConnectionSpec, *, initiates: bool) -> Iterator[str]:
    yield f"{PREFIX}{name}-{child.name} {{"
    values = {
        "mode": child.mode,
        "local_ts": ",".join(map(str, child.local_ts)),
        "remote_ts": ",".join(map(str, child.remote_ts)),
        "esp_proposals": ",".join(child.esp_proposals),
        "rekey_time": f"{spec.child_rekey_time}s",
        "replay_window": spec.replay_window,
        "copy_dscp": spec.copy_dscp,
        # One end of a pair initiates; the other's packets wait behind the rules of nftables.
        "start_action": "start" if initiates else "none",
    }
    yield from (f"    {key} = {value}" for key, value in values.items())
    yield "}"


def _key_file(name: str) -> str:
    return f"{PREFIX}{name}.pub"


def _pem(raw: bytes) -> str:
    return f"-----BEGIN PUBLIC KEY-----\n{b64encode(_SPKI_ED25519 + raw).decode()}\n-----END PUBLIC KEY-----\n"
