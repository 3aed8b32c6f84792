"""``meshsec backup``: a node in one encrypted file, for a new board or a new disk."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import backup as archives
from meshsec.adapters.files import credential, secret_file
from meshsec.adapters.files.backup import BackupError, Places
from meshsec.cli.app import App
from meshsec.cli.applied import OVERLAY
from meshsec.core.formats import age

SHORTEST = 12
"""Characters of a passphrase. Whoever has the file can try passphrases for ever, 128 MiB and 0.4 s each."""
_LONGEST = 1024

passphrase_option = click.option(
    "--passphrase-stdin", is_flag=True, help="Read the passphrase from standard input instead of asking."
)


@click.command
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@passphrase_option
@click.pass_obj
def backup(app: App, file: Path, passphrase_stdin: bool) -> None:
    """Write this node into FILE, encrypted by a passphrase: key, configuration, trust and passwords.

    Whoever has FILE and the passphrase is this node. The file has age's format, so that `age --decrypt FILE | tar -tJ`
    lists it without meshsec. Routes, SAs and logs are not in it, nor what the router's signer counts.
    """
    paths = app.settings.paths
    places = places_of(app.config.absolute(), Path(paths.peers), Path(paths.state))
    need_root()
    if not secret_file.exists(places.key):
        raise click.ClickException(f"{places.key}: there is no key, so there is no node to back up: `meshsec up`")
    with naming(places.config):
        packed = archives.pack(places)
    sealed = age.encrypt(packed, _new_passphrase(passphrase_stdin), os.urandom(age.RANDOM_LENGTH))
    try:
        files.write(file, sealed, 0o600, replace=False)
    except files.FileError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise click.ClickException(f"{file}: exists, and a backup replaces no file; choose another name") from None
        raise click.ClickException(f"{error}; `meshsec backup` writes to any other disk, too") from error
    click.echo(f"{file}: {app.card.name}, {len(sealed)} octets. Without the passphrase nobody can restore it.")


def places_of(config: Path, peers: Path, state: Path) -> Places:
    """Return what belongs to the node with this configuration file and these directories."""
    own = (peers, state)
    directories = {config.parent, *own}
    passwords = (credential.STORE / name for name in (credential.SAE_PASSWORD, credential.ACCESS_PASSWORD))
    return Places(config, state / secret_file.KEY, tuple(sorted(directories)), (OVERLAY, *passwords), own)


def _new_passphrase(from_stdin: bool) -> str:
    found = line() if from_stdin else click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    if not SHORTEST <= len(found) <= _LONGEST:
        raise click.ClickException(
            f"the passphrase has {len(found)} characters; allowed: {SHORTEST} to {_LONGEST}. Six random words are good"
        )
    return str(found)


def line() -> str:
    """Return a passphrase from standard input."""
    return sys.stdin.readline(_LONGEST + 2).rstrip("\n")


def need_root() -> None:
    if os.geteuid() != 0:
        raise click.ClickException("only root may read and write a node's key: use sudo")


@contextmanager
def naming(where: Path) -> Iterator[None]:
    """Name the file that a BackupError is about. Raises ClickException."""
    try:
        yield
    except BackupError as error:
        raise click.ClickException(f"{where}: {error}") from error
