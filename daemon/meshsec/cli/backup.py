"""``meshsec backup`` and ``meshsec restore``: a node in one encrypted file, for a new board or a new disk."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import backup as archives
from meshsec.adapters.files import config_file, credential
from meshsec.adapters.files.backup import BackupError, Kept, Places
from meshsec.adapters.files.config_file import ConfigError
from meshsec.cli.app import App
from meshsec.cli.applied import OVERLAY
from meshsec.core.formats import age
from meshsec.core.formats.age import AgeError

_TARGET = "meshsec.target"
SHORTEST = 12
"""Characters of a passphrase. Whoever has the file can try passphrases for ever, 128 MiB and 0.4 s each."""
_LONGEST = 1024
_LIMIT = archives.LIMIT + 65536
"""Octets of an age file."""

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
    places = _places(app)
    _need_root()
    if not files.exists(places.key):
        raise click.ClickException(f"{places.key}: there is no key, so there is no node to back up: `meshsec up`")
    with _naming(places.config):
        packed = archives.pack(places)
    sealed = age.encrypt(packed, _new_passphrase(passphrase_stdin), os.urandom(age.RANDOM_LENGTH))
    files.write(file, sealed, 0o600, replace=False)
    click.echo(f"{file}: {app.card.name}, {len(sealed)} octets. Without the passphrase nobody can restore it.")


@click.command
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Also where there is a node: its key and its trust are destroyed.")
@passphrase_option
@click.pass_obj
def restore(app: App, file: Path, replace: bool, passphrase_stdin: bool) -> None:
    """Make this machine the node in FILE, which `meshsec backup` wrote.

    Two machines must not be one node: switch the other one off first. Nothing is changed unless the whole file is
    good. `meshsec up` then starts the node.
    """
    _need_root()
    sealed = _read(file)
    try:
        packed = age.decrypt(sealed, _passphrase(passphrase_stdin))
    except AgeError as error:
        raise click.ClickException(f"{file}: {error}") from None
    with _naming(file):
        places, kept = archives.unpack(packed)
    _check(app, file, places, kept)
    here = [path for path in (places.key, places.config) if files.exists(path)]
    if here and not replace:
        raise click.ClickException(
            f"{here[0]} exists, so this machine is a node already; --replace destroys that node's key and trust. "
            "Nothing was changed"
        )
    if systemd.is_booted() and systemd.is_active(_TARGET):
        raise click.ClickException(f"this machine's node runs: `systemctl stop {_TARGET}` first. Nothing was changed")
    with _naming(file):
        removed = archives.put_back(kept, places)
    for path in removed:
        click.echo(f"{path}: removed, because it is not in the backup")
    click.echo(f"{len(kept)} files restored: this machine is {app.card.name}. `meshsec up` starts it.")


def _places(app: App) -> Places:
    """Return what belongs to this node. Raises ConfigError."""
    paths = app.settings.paths
    config = app.config.absolute()
    own = (Path(paths.peers), Path(paths.state))
    directories = {config.parent, *own}
    passwords = (credential.STORE / name for name in (credential.SAE_PASSWORD, credential.ACCESS_PASSWORD))
    return Places(config, Path(paths.key), tuple(sorted(directories)), (OVERLAY, *passwords), own)


def _check(app: App, file: Path, places: Places, kept: Mapping[Path, Kept]) -> None:
    """Refuse what would be no node of this machine. Raises ClickException."""
    if places.config != app.config.absolute():
        command = f"meshsec --config {places.config} restore {file}"
        raise click.ClickException(f"{file}: its node has its configuration in {places.config}: `{command}`")
    for path in (places.config, places.key):
        if path not in kept:
            raise click.ClickException(f"{file}: {path} is not in it; nothing was changed")
    with TemporaryDirectory(prefix="meshsec-restore-") as scratch:
        for path, one in kept.items():
            if path.parent == places.config.parent and path != places.key:
                (Path(scratch) / path.name).write_bytes(one.content)
        try:
            config_file.load(Path(scratch) / places.config.name)
        except ConfigError as error:
            found = str(error).replace(scratch, str(places.config.parent))
            refused = f"{file}: this meshsec refuses its configuration; nothing was changed\n{found}"
            raise click.ClickException(refused) from None


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            sealed = opened.read(_LIMIT + 1)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    if len(sealed) > _LIMIT:
        raise click.ClickException(f"{file}: is longer than {_LIMIT} octets, so it is no backup of a node")
    return sealed


def _new_passphrase(from_stdin: bool) -> str:
    found = _line() if from_stdin else click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    if not SHORTEST <= len(found) <= _LONGEST:
        raise click.ClickException(
            f"the passphrase has {len(found)} characters; allowed: {SHORTEST} to {_LONGEST}. Six random words are good"
        )
    return str(found)


def _passphrase(from_stdin: bool) -> str:
    return _line() if from_stdin else str(click.prompt("Passphrase", hide_input=True, err=True))


def _line() -> str:
    return sys.stdin.readline(_LONGEST + 2).rstrip("\n")


def _need_root() -> None:
    if os.geteuid() != 0:
        raise click.ClickException("only root may read and write a node's key: use sudo")


@contextmanager
def _naming(where: Path) -> Iterator[None]:
    """Name the file that a BackupError is about. Raises ClickException."""
    try:
        yield
    except BackupError as error:
        raise click.ClickException(f"{where}: {error}") from error
