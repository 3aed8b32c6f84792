"""libreswan's side of ``meshsec export``."""

from collections.abc import Mapping
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import key_store, trust_store
from meshsec.cli import trusted
from meshsec.cli.app import App
from meshsec.core.channels.desired import connection_spec, initiates
from meshsec.core.config.settings import EspChoice
from meshsec.core.formats import libreswan
from meshsec.core.policy import bypass, levels
from meshsec.core.trust.pair_secret import pair_secret
from meshsec.core.values.model import EspBackend, Peer

_MODE = 0o644
_SECRETS_MODE = 0o600
_NAME = "meshsec"
_COMMENT = """\
Written by `meshsec export libreswan`: changes made here are lost.
The rules of `meshsec export nftables` must be in force before ipsec.service starts:
while there is no SA, they keep user data in.
The pairs' secrets: `meshsec export libreswan --into /etc/ipsec.d`, which writes both."""
_SECRETS_COMMENT = """\
Written by `meshsec export libreswan`: changes made here are lost.
Each is known to this node and that peer alone, who compute it from their keys. Nobody else may read this file."""


def export(app: App, into: Path | None) -> None:
    """Print ipsec.conf; with ``into`` write it there, with the secrets for their owner alone."""
    if app.settings.ike.esp is EspChoice.LIBIPSEC:
        raise click.ClickException(f'{app.config}: ike.esp is "libipsec"; libreswan has ESP in the kernel alone')
    peers = _peers(app)
    policy = app.settings.policy
    left_out = (*bypass.left_out(policy.bypass), *levels.left_out(policy.levels))
    exceptions = [f"left out: {one}" for one in left_out]
    try:
        exported = libreswan.render(
            {
                _conn_name(name): (
                    connection_spec(
                        app.card, peer, EspBackend.KERNEL, app.settings.policy, trusted.selectors(app, peer)
                    ),
                    initiates(app.card, peer.card),
                )
                for name, peer in peers.items()
            },
            "\n".join([_COMMENT, *exceptions]),
        )
    except libreswan.NothingLeftError as error:
        raise click.ClickException(str(error)) from error
    for exception in (*exceptions, *(f"left out: {one}" for one in exported.refused)):
        click.echo(exception, err=True)
    if into is None:
        click.echo(exported.conf, nl=False)
    else:
        _write(app, into, exported.conf, peers)


def _peers(app: App) -> Mapping[str, Peer]:
    found = trusted.load(app)
    trusted.tell_problems(found)
    return found.peers


def _conn_name(name: str) -> str:
    """Return a connection's name; that of a next key has characters that libreswan takes and no peer's name has."""
    return name.replace(trust_store.NEXT, "_next")


def _write(app: App, into: Path, conf: str, peers: Mapping[str, Peer]) -> None:
    """Write the secrets first: a connection without its secret fails, and is not tried again soon."""
    seed = key_store.load(Path(app.settings.paths.key)).seed()
    pairs = [(peer.card.address, pair_secret(seed, peer.card.public_key)) for peer in peers.values()]
    secrets = libreswan.secrets(app.card.address, pairs, _SECRETS_COMMENT)
    files.write(into / f"{_NAME}.secrets", secrets.encode(), _SECRETS_MODE)
    click.echo(f"{into / _NAME}.secrets: written, for its owner alone")
    files.write(into / f"{_NAME}.conf", conf.encode(), _MODE)
    click.echo(f"{into / _NAME}.conf: written")
    click.echo("Then: `systemctl restart ipsec`, or `ipsec rereadsecrets` and `ipsec add` for what is new.")
