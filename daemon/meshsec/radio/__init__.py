"""``meshsec-radio``: arguments, logging and signals around the keeper of one radio."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import config_file, secrecy
from meshsec.core.config.radio_settings import RadioSettings
from meshsec.core.config.settings import Settings
from meshsec.core.radio.access_point import beacon_interval
from meshsec.core.radio.obstacles import Obstacle
from meshsec.radio import access_point
from meshsec.radio.access_point import NoAccessPointError
from meshsec.radio.keeper import JoinError, Keeper


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="MESHSEC_CONFIG",
    default=config_file.DEFAULT_PATH,
    show_default=True,
    help="The configuration file.",
)
@click.option("--check", is_flag=True, help="Only say what is in the way, or the steps that would be taken.")
@click.option(
    "--access-point",
    "is_access_point",
    is_flag=True,
    help="Instead of joining a mesh, make the radio of [access] ready for hostapd, and end.",
)
@click.argument("interface", required=False)
@click.version_option(package_name="meshsec", prog_name="meshsec-radio", message="%(prog)s %(version)s")
def main(config: Path, check: bool, is_access_point: bool, interface: str | None) -> None:
    """Bring the wireless INTERFACE into the mesh that [radio] of the configuration describes, and keep it there.

    Runs in the foreground. SIGTERM leaves the mesh and makes the interface what it was before. The password of a mesh
    with SAE is the credential meshsec.sae-password (systemd.exec(5)): a file of that name in $CREDENTIALS_DIRECTORY.

    With --access-point it refuses a radio that cannot be the access point, says which can, and makes an interface that
    shares the radio of a mesh interface.
    """
    if is_access_point == bool(interface):
        raise click.UsageError("name either the INTERFACE that is to join the mesh, or --access-point")
    try:
        settings = config_file.load(config)
        if interface is None:
            sys.exit(_prepare_access_point(settings, only_check=check))
        wish = _wish(settings, config, interface)
        keep = partial(Keeper, interface, wish, beacon_interval=beacon_interval(settings.access.radio, interface))
        if check:
            sys.exit(_check(interface, keep(directory=Path())))
        _set_up_logging()
        directory = Path(os.environ.get("RUNTIME_DIRECTORY") or settings.paths.run)
        files.make_directory(directory)
        secrecy.keep_private()
        asyncio.run(_serve(interface, keep(directory=directory)))
    except (config_file.ConfigError, files.FileError, JoinError, NoAccessPointError) as error:
        raise click.ClickException(str(error)) from error


def _wish(settings: Settings, config: Path, interface: str) -> RadioSettings:
    if settings.radios is None:
        raise config_file.ConfigError(
            [f"{config}:1: radio: is missing; allowed: a table with mesh_id, frequency and security"]
        )
    return settings.radios.of(interface)


def _check(interface: str, keeper: Keeper) -> int:
    with closing(keeper):
        try:
            found, steps = asyncio.run(keeper.examine())
        except OSError as error:
            raise JoinError(f"{interface}: {error}") from error
    return _say(interface, found, steps)


def _prepare_access_point(settings: Settings, *, only_check: bool) -> int:
    try:
        found, steps = asyncio.run(access_point.prepare(settings, only_check=only_check))
    except OSError as error:
        raise JoinError(f"access point: {error}") from error
    return _say("access point", found, steps)


def _say(subject: str, found: Iterable[Obstacle], steps: Iterable[object]) -> int:
    """Print what is in the way and the steps; return the exit status."""
    obstacles = [f"{subject}: {obstacle}" for obstacle in found]
    for line in (*obstacles, *(f"{number}. {step}" for number, step in enumerate(steps, start=1))):
        click.echo(line)
    return 1 if obstacles else 0


async def _serve(interface: str, keeper: Keeper) -> None:
    with closing(keeper):
        await _serve_until_asked(keeper, interface)


async def _serve_until_asked(keeper: Keeper, interface: str) -> None:
    serving = asyncio.ensure_future(keeper.run())
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    asked = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
    # Only the first signal counts: the way back must not be interrupted.
    for task in (serving, asked):
        task.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("%s: left the mesh", interface)


def _set_up_logging() -> None:
    """Set up logging. Under systemd the journal adds the time itself."""
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(stream=sys.stderr, format=form, level=logging.WARNING)
    logging.getLogger("meshsec").setLevel(logging.INFO)
