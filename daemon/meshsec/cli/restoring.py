"""``meshsec restore``: this machine becomes the node in a file of ``meshsec backup``.

The file may be a forgery, made by somebody who also gave the passphrase. So nothing is written outside of directories
that are meshsec's own, that this machine's node has, or that the operator names; and nothing of others is removed.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import backup as archives
from meshsec.adapters.files import config_file, key_store, raw_config, restoring, secret_file
from meshsec.adapters.files.backup import Kept, Places
from meshsec.adapters.files.config_file import ConfigError
from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.cli.app import App
from meshsec.cli.backup import line, naming, need_root, passphrase_option, places_of
from meshsec.core.config.settings import Paths
from meshsec.core.formats import age
from meshsec.core.formats.age import AgeError
from meshsec.core.values import lenient

_TARGET = "meshsec.target"
_LIMIT = archives.LIMIT + 65536
"""Octets of an age file."""
_DEFAULTS = Paths()
_PACKAGES = (config_file.DEFAULT_PATH.parent, Path(_DEFAULTS.peers), Path(_DEFAULTS.state))
"""Directories that are meshsec's on every machine."""


@dataclass(frozen=True, slots=True)
class _Here:
    """What this machine's own configuration says, whatever the file to be restored says."""

    directories: tuple[Path, ...] = ()
    """Where its files are: the configuration's directory, the cards and the state."""
    key: Path | None = None

    @property
    def own(self) -> set[Path]:
        """Directories with nothing but a node's files, in which those that are not in the backup are removed."""
        return {*_PACKAGES[1:], *self.directories[1:]} - {*self.directories[:1]}


@click.command
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Also where there is a node: its key and its trust are destroyed.")
@click.option(
    "--directory",
    "named",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Also restore into this directory, which the file's configuration names; may be repeated.",
)
@passphrase_option
@click.pass_obj
def restore(app: App, file: Path, replace: bool, named: tuple[Path, ...], passphrase_stdin: bool) -> None:
    """Make this machine the node in FILE, which `meshsec backup` wrote.

    Two machines must not be one node: switch the other one off first. Nothing is changed unless the whole file is
    good. `meshsec up` then starts the node.
    """
    need_root()
    sealed = _read(file)
    try:
        packed = age.decrypt(sealed, _passphrase(passphrase_stdin))
    except AgeError as error:
        raise click.ClickException(f"{file}: {error}") from None
    with naming(file):
        claimed, kept = archives.unpack(packed)
        places = _places(app, file, claimed, kept)
        archives.check(claimed, kept, places)
    here = _here(app.config.absolute())
    _check_directories(file, places, {*_PACKAGES, *here.directories, *(one.absolute() for one in named)})
    _check_keys(file, places, kept)
    _check_absent(places, here, replace=replace)
    with naming(file):
        unwanted = restoring.surplus(kept, places)
        _check_removable(unwanted, here.own)
        restoring.put_back(kept, places, unwanted, [here.key] if here.key else [])
    for path in unwanted:
        click.echo(f"{path}: removed, because it is not in the backup")
    click.echo(f"{len(kept)} files restored: this machine is {app.card.name}. `meshsec up` starts it.")


def _here(config: Path) -> _Here:
    """Return where the files of this machine's node are; nothing if its configuration cannot be read."""
    with suppress(files.FileError):
        found = raw_config.read(config)
        peers, state = (
            Path(lenient.path(found, str(config.parent), ("paths", name), default))
            for name, default in (("peers", _DEFAULTS.peers), ("state", _DEFAULTS.state))
        )
        return _Here((config.parent, peers, state), state / secret_file.KEY)
    return _Here()


def _places(app: App, file: Path, claimed: Places, kept: Mapping[Path, Kept]) -> Places:
    """Return what belongs to the file's node by its own configuration. Raises ClickException."""
    config = app.config.absolute()
    if claimed.config != config:
        command = f"meshsec --config {claimed.config} restore {file}"
        raise click.ClickException(f"{file}: its node has its configuration in {claimed.config}: `{command}`")
    if config not in kept:
        raise click.ClickException(f"{file}: {config} is not in it; nothing was changed")
    with TemporaryDirectory(prefix="meshsec-restore-") as scratch:
        for path, one in kept.items():
            # With the profiles that it names. Keys reach no disk before all is checked.
            if config.parent in path.parents and path.suffix == config.suffix:
                copy = Path(scratch, path.relative_to(config.parent))
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(one.content)
        try:
            paths = config_file.load(Path(scratch, config.name), config.parent).paths
        except ConfigError as error:
            found = str(error).replace(scratch, str(config.parent))
            refused = f"{file}: this meshsec refuses its configuration; nothing was changed\n{found}"
            raise click.ClickException(refused) from None
    return places_of(config, Path(paths.peers), Path(paths.state))


def _check_directories(file: Path, places: Places, allowed: Collection[Path]) -> None:
    """Refuse a node whose configuration puts its files where others' may be. Raises ClickException."""
    strange = [one for one in places.directories if not any(base == one or base in one.parents for base in allowed)]
    if strange:
        found, listed = (", ".join(map(str, sorted(paths))) for paths in (strange, allowed))
        options = " ".join(f"--directory {one}" for one in strange)
        raise click.ClickException(
            f"{file}: {places.config} in it puts files into {found}; allowed: {listed}, and what is below. If nobody "
            f"else has files there: `meshsec --config {places.config} restore {file} {options}`. Nothing was changed"
        )


def _check_keys(file: Path, places: Places, kept: Mapping[Path, Kept]) -> None:
    """Refuse what is no key of a node, or has another public key beside it. Raises ClickException."""
    if places.key not in kept:
        raise click.ClickException(f"{file}: {places.key} is not in it; nothing was changed")
    for key in (places.key, key_store.next_path(places.key)):
        if key not in kept:
            continue
        public = kept.get(key.with_suffix(".pub"))
        try:
            key_store.check(key, kept[key].content, kept[key].mode, public.content if public else None)
        except KeyStoreError as error:
            raise click.ClickException(f"{file}: {error}; nothing was changed") from None


def _check_absent(places: Places, here: _Here, *, replace: bool) -> None:
    """Refuse to replace a node that runs, or that the operator did not give up. Raises ClickException."""
    keys = dict.fromkeys(filter(None, (places.key, here.key)))
    marks = [mark for mark in map(key_store.mark_path, keys) if files.exists(mark)]
    if marks:
        click.echo(f"{marks[0]}: an earlier `meshsec restore` was interrupted; this one replaces what it left")
    found = [path for path in (*keys, places.config) if secret_file.exists(path)]
    if found and not (replace or marks):
        raise click.ClickException(
            f"{found[0]} exists, so this machine is a node already; --replace destroys that node's key and trust. "
            "Nothing was changed"
        )
    if systemd.is_booted() and systemd.is_active(_TARGET):
        raise click.ClickException(f"this machine's node runs: `systemctl stop {_TARGET}` first. Nothing was changed")


def _check_removable(unwanted: Iterable[Path], own: Iterable[Path]) -> None:
    """Refuse to remove what may be somebody else's, and to leave trust that the backup has not.

    Raises ClickException.
    """
    strange = [path for path in unwanted if not any(one in path.parents for one in own)]
    if strange:
        raise click.ClickException(
            f"{strange[0]} is not in the backup, and nothing on this machine says that it is a node's file: move it "
            f"away, with all other files in {strange[0].parent}. Nothing was changed"
        )


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            sealed = opened.read(_LIMIT + 1)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    if len(sealed) > _LIMIT:
        raise click.ClickException(f"{file}: is longer than {_LIMIT} octets, so it is no backup of a node")
    return sealed


def _passphrase(from_stdin: bool) -> str:
    return line() if from_stdin else str(click.prompt("Passphrase", hide_input=True, err=True))
