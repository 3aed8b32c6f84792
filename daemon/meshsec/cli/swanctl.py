"""swanctl's side of ``meshsec export``: charon without meshsecd."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import key_store, trust_store
from meshsec.cli import trusted
from meshsec.cli.app import App
from meshsec.core.channels.desired import connection_spec, initiates
from meshsec.core.formats import swanctl
from meshsec.core.formats.swanctl import Pair
from meshsec.core.policy import bypass, levels
from meshsec.core.policy.capability import OF_DEBIAN, left_out, possible
from meshsec.core.trust.pair_secret import pair_secret
from meshsec.core.values.model import Authentication, ConnectionSpec, EspBackend, Peer

_MODE = 0o644
_SECRETS_MODE = 0o600
_CONF, _SECRETS, _KEYS = Path("conf.d/meshsec.conf"), Path("conf.d/meshsec-secrets.conf"), Path("pubkey")
_COMMENT = """\
Written by `meshsec export swanctl`: changes made here are lost. For a node without meshsecd.
The rules of `meshsec export nftables` must be in force before charon starts:
while there is no SA, they keep user data in.
Keys and secrets: `meshsec export swanctl --into /etc/swanctl`, which writes all of it."""
_SECRETS_COMMENT = """\
Written by `meshsec export swanctl`: changes made here are lost.
Each is known to this node and that peer alone, who compute it from their keys. Nobody else may read this file."""


def export(app: App, backend: EspBackend, into: Path | None, by_secret: Collection[str]) -> None:
    """Print the connections; with ``into`` write them there, with the public keys and the secrets.

    Those of ``by_secret`` authenticate by it, too, though their cards do not say so.
    """
    found = trusted.load(app)
    trusted.tell_problems(found)
    peers = found.peers
    if strangers := sorted(set(by_secret) - peers.keys()):
        raise click.ClickException(
            f"--secret {strangers[0]}: no such peer; trusted are: {', '.join(peers) or 'nobody'}"
        )
    pairs = {
        _connection_name(name): Pair(
            _spec(app, peer, backend, by_secret=name in by_secret),
            initiates(app.card, peer.card),
        )
        for name, peer in peers.items()
    }
    policy = app.settings.policy
    for one in left_out(policy.ike_proposals, policy.esp_proposals, OF_DEBIAN):
        click.echo(f"left out: {one} in Debian's strongSwan", err=True)
    exceptions = [f"left out: {one}" for one in (*bypass.left_out(policy.bypass), *levels.left_out(policy.levels))]
    for exception in exceptions:
        click.echo(exception, err=True)
    conf = swanctl.render(pairs, "\n".join([_COMMENT, *exceptions]))
    if into is None:
        click.echo(conf, nl=False)
    else:
        _write(app, into, conf, pairs)


def _spec(app: App, peer: Peer, backend: EspBackend, *, by_secret: bool) -> ConnectionSpec:
    """Return the connection without ML-KEM: a charon that lacks it refuses the whole, and none is there to ask."""
    selectors = trusted.selectors(app, peer)
    spec, _ = possible(connection_spec(app.card, peer, backend, app.settings.policy, selectors), OF_DEBIAN)
    return replace(spec, authentication=Authentication.SECRET) if by_secret else spec


def _connection_name(name: str) -> str:
    """Return a connection's name; that of a next key has characters that no peer's name has."""
    return name.replace(trust_store.NEXT, "_next")


def _write(app: App, into: Path, conf: str, pairs: Mapping[str, Pair]) -> None:
    """Write the connections last, after what they refer to, and remove secrets that are no longer used."""
    for name, text in swanctl.key_files(pairs).items():
        _put(into / _KEYS / name, text, _MODE)
    key = Path(app.settings.paths.key)
    seed = key_store.load(key).seed()
    specs = {name: pair.spec for name, pair in pairs.items() if pair.by_secret}
    shared = {name: (spec, pair_secret(seed, spec.remote_public_key)) for name, spec in specs.items()}
    _put(into / _SECRETS, swanctl.secrets(shared, _SECRETS_COMMENT), _SECRETS_MODE)
    _put(into / _CONF, conf, _MODE)
    click.echo(f"Then, once: `ln -s {key} {into / 'pkcs8/meshsec.key'}`; and `swanctl --load-all`.")


def _put(path: Path, text: str, mode: int) -> None:
    files.make_directory(path.parent)
    files.write(path, text.encode(), mode)
    click.echo(f"{path}: written")
