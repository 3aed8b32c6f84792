"""``meshsec key seal``, ``unseal`` and ``open``: keys that only this machine's TPM opens (ADR 0102)."""

import os
from pathlib import Path

import click

from meshsec.adapters import systemd
from meshsec.adapters.files import key_store, second_secret_store, secret_file, systemd_creds
from meshsec.adapters.files.config_file import ConfigError
from meshsec.adapters.files.systemd_creds import SealError
from meshsec.cli.app import App
from meshsec.core.explain import sealing
from meshsec.core.explain.findings import Check
from meshsec.files import FileError

_CONFIG, _STATE = Path("/etc/meshsec/meshsec.toml"), Path("/var/lib/meshsec")
"""The node whose keys the unit opens at each boot."""
_MOUNT = "run-meshsec-keys.mount"


@click.command
@click.pass_obj
def seal(app: App) -> None:
    """Seal this node's keys by the machine's TPM, so that a copy of the disk is worth nothing.

    The node's key, its next key and the second secret are sealed; the plain ones are overwritten, and are in memory
    alone from then on. Nothing is interrupted. Make a backup first: without this TPM nothing else brings the key back.
    """
    _need_own_node(app)
    key_store.load(Path(app.settings.paths.key))
    if obstacle := systemd_creds.obstacle():
        raise click.ClickException(f"{obstacle}. Nothing was changed")
    systemd.run("systemctl", "start", _MOUNT)
    try:
        sealed = secret_file.seal(_secrets(app))
    except SealError as error:
        raise click.ClickException(
            f"{error}. Nothing was changed: the keys are not sealed, and the node works"
        ) from error
    for path in sealed:
        click.echo(f"{path}: sealed by this machine's TPM")
    if not sealed:
        click.echo("The keys are sealed already.")


@click.command
@click.pass_obj
def unseal(app: App) -> None:
    """Write this node's sealed keys as ordinary files again, before another board or another TPM takes their place."""
    _need_own_node(app)
    unsealed = secret_file.unseal(_secrets(app))
    for path in unsealed:
        click.echo(f"{path}: is an ordinary file again; whoever copies the disk has it")
    if not unsealed:
        click.echo("The keys are not sealed.")


@click.command("open")
def open_() -> None:
    """Open the sealed keys in memory, as meshsec-keys.service does at each boot."""
    _need_root()
    try:
        opened = secret_file.open_all(_STATE)
    except FileError as error:
        raise click.ClickException(
            f"{_STATE}: its keys are sealed by the TPM of the machine on which they were sealed. "
            f"{systemd_creds.obstacle() or error}. Nothing was changed. On another machine, or with another TPM, "
            "`meshsec restore FILE --replace` takes the node from its backup"
        ) from error
    for path in opened:
        click.echo(f"{path}: opened by the TPM")


def checks(app: App) -> list[Check]:
    """Return doctor's finding. Only root sees whether sealed keys are open."""
    try:
        key, *others = _secrets(app)
    except ConfigError:  # doctor has a check for that
        return []
    problem = ""
    try:
        if os.geteuid() == 0:
            secret_file.place(key)
    except FileError as error:
        problem = str(error)
    return sealing.checks(
        is_sealed=secret_file.is_sealed(key),
        problem=problem,
        has_tpm=_is_own_node(app) and systemd.is_booted() and systemd_creds.has_tpm(),
        plain=[str(path) for path in others if path.is_file() and not secret_file.is_sealed(path)],
    )


def _secrets(app: App) -> tuple[Path, ...]:
    key = Path(app.settings.paths.key)
    return key, key_store.next_path(key), key.with_name(second_secret_store.NAME)


def _need_own_node(app: App) -> None:
    """Refuse what the unit would not open. Raises ClickException."""
    _need_root()
    if not _is_own_node(app):
        raise click.ClickException(
            f"only the keys of the machine's own node are sealed, with {_CONFIG} and the state in {_STATE}: nobody "
            "would open others at the next boot"
        )
    if not systemd.is_booted():
        raise click.ClickException(
            "sealed keys are opened by systemd 250 or newer at each boot, and this system has no systemd"
        )


def _is_own_node(app: App) -> bool:
    return app.config.absolute() == _CONFIG and Path(app.settings.paths.state) == _STATE


def _need_root() -> None:
    if os.geteuid() != 0:
        raise click.ClickException("only root may read and write a node's key: use sudo")
