"""``meshsecd``: arguments, the single instance, logging and signals around the agent."""

import asyncio
import fcntl
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from meshsec.adapters.files import config_file, key_store, secrecy
from meshsec.adapters.kernel import esp_probe, processor
from meshsec.adapters.kernel.esp_probe import EspProbe
from meshsec.adapters.scheduler import JournalError, Scheduler
from meshsec.agent import hearing
from meshsec.agent.agent import Agent
from meshsec.agent.sides.trust import Side
from meshsec.agent.start import Start
from meshsec.core.config.settings import Settings
from meshsec.core.trust.identity import make_card
from meshsec.core.values.model import Card

_LOCK = "meshsecd.lock"

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The daemon cannot start; the text says why."""


class _WithoutKeyError(click.ClickException):
    """There is no key, or it is sealed and was not opened.

    Trying again changes nothing, and the unit does not (``RestartPreventExitStatus=``).
    """

    exit_code = os.EX_CONFIG


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="MESHSEC_CONFIG",
    default=config_file.DEFAULT_PATH,
    show_default=True,
    help="The configuration file.",
)
@click.option("--detach", is_flag=True, help="Run in the background, where no service manager does it.")
@click.option("--pidfile", type=click.Path(path_type=Path, dir_okay=False), help="With --detach: where the PID goes.")
@click.option("--log-file", type=click.Path(path_type=Path, dir_okay=False), help="With --detach: where the log goes.")
@click.option(
    "--restore-scheduling",
    "only",
    flag_value="restore-scheduling",
    help="Put back the scheduling classes that a killed meshsecd left changed, and end.",
)
@click.option(
    "--hear-clients",
    "only",
    flag_value="hear-clients",
    help="Only tell the meshsecd that runs which clients are heard.",
)
@click.version_option(package_name="meshsec", prog_name="meshsecd", message="%(prog)s %(version)s")
def main(config: Path, detach: bool, pidfile: Path | None, log_file: Path | None, only: str | None) -> None:
    """Watch the topology of the mesh and keep an IPsec channel to every trusted peer in reach.

    Runs in the foreground. SIGHUP reads the trust store again; SIGTERM ends it and leaves SAs and rules in place.
    """
    try:
        settings = config_file.load(config)
        if only == "hear-clients":
            _set_up_logging(sys.stderr)
            asyncio.run(hearing.run(Path(settings.paths.sightings_socket)))
            return
        with _single_instance(Path(settings.paths.run)) as lock:
            if only == "restore-scheduling":
                _restore_scheduling(Path(settings.paths.scheduling_journal))
            elif detach:
                log = log_file or Path(settings.paths.state) / "meshsecd.log"
                with _detached(lock, _opened_log(log), pidfile.absolute() if pidfile else None):
                    _serve(config.absolute(), settings)
            else:
                _set_up_logging(sys.stderr)
                _serve(config, settings)
    except (key_store.NoKeyError, key_store.SealedKeyError, key_store.HalfRestoredError) as error:
        raise _WithoutKeyError(str(error)) from error
    except (config_file.ConfigError, key_store.KeyStoreError, StartError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _single_instance(directory: Path) -> Iterator[int]:
    """Allow one instance, because two would undo each other's work. The lock ends with its process."""
    path = directory / _LOCK
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError as error:
        raise StartError(f"{path}: another meshsecd runs with this directory") from error
    finally:
        os.close(lock)


@contextmanager
def _detached(lock: int, log: TextIO, pidfile: Path | None) -> Iterator[None]:
    """Run the body in a daemon process (PEP 3143), which takes over the lock.

    The PID file is opened before the process detaches, so that the caller sees a failure and nothing runs.
    """
    from daemon import DaemonContext  # noqa: PLC0415  (only here: a service manager does not need it)

    context: Any = DaemonContext(  # type: ignore[no-untyped-call]
        working_directory="/", umask=0o022, files_preserve=[lock, log], stdout=log, stderr=log, signal_map={}
    )
    if pidfile:
        _write_pid(pidfile)
    with context:
        _set_up_logging(log)
        if pidfile:
            _write_pid(pidfile)
        try:
            yield
        finally:
            if pidfile:
                pidfile.unlink(missing_ok=True)


def _opened_log(path: Path) -> TextIO:
    """Open a log for appending. Raises StartError."""
    try:
        return path.open("a", buffering=1, encoding="utf-8")
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from error


def _write_pid(path: Path) -> None:
    """Write the PID in place, so that a second write needs no more disk space. Raises StartError."""
    try:
        with path.open("r+" if path.exists() else "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
            file.truncate()
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from error


def _set_up_logging(stream: TextIO) -> None:
    """Set up logging. Under systemd the journal adds the time itself."""
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(stream=stream, format=form, level=logging.WARNING)
    logging.getLogger("meshsec").setLevel(logging.INFO)


def _restore_scheduling(path: Path) -> None:
    """Restore what a predecessor changed and could not restore itself. Raises StartError with what fails."""
    try:
        problems = Scheduler(path).restore()
    except JournalError as error:
        raise StartError(str(error)) from error
    if problems:
        raise StartError("\n".join(problems))


def _serve(config: Path, settings: Settings) -> None:
    secrecy.keep_private()
    path = Path(settings.paths.key)
    public_key, node = key_store.load(path).public_key, settings.node
    card = make_card(node.name, public_key, node.ipv4, by_secret=settings.ike.by_secret)
    asyncio.run(_run(config, settings, card, _sides(path, card, settings)))


def _sides(path: Path, card: Card, settings: Settings) -> tuple[Side, ...]:
    """Return the node's key and, during a change of the key, the next one (ADR 0041)."""
    rotation, following = key_store.rotation(path), key_store.next_path(path)
    mark = rotation.mark_of(card.public_key) if rotation else ""
    if rotation is None or not following.exists():
        return (Side(card, mark),)
    if settings.overlay.enabled:
        raise StartError(f"{following}: the overlay's node has one key, which cannot be changed while it is enabled")
    key = key_store.load(following).public_key
    following_card = make_card(card.name, key, card.ipv4, by_secret=card.by_secret)
    return Side(card, mark), Side(following_card, rotation.mark_of(key), key_store.MARK)


def _ended(path: Path, sides: tuple[Side, ...]) -> Card | None:
    """Return the card of the key that ended, or was cancelled, at the last change."""
    rotation, used = key_store.rotation(path), {side.card.public_key.hex() for side in sides if side.card}
    gone = next((key for key in (rotation.old, rotation.next) if key not in used), None) if rotation else None
    return make_card("ended", bytes.fromhex(gone)) if gone else None


async def _run(config: Path, settings: Settings, card: Card, sides: tuple[Side, ...]) -> None:
    ended = _ended(Path(settings.paths.key), sides)
    start = Start(config, settings, card, await _esp(settings), sides, ended, processor.has_aes())
    _log.info("%s %s, ESP in %s: %s", card.name, card.address, start.esp.backend, start.esp.reason)
    agent = Agent(start)
    loop = asyncio.get_running_loop()
    serving = loop.create_task(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    loop.add_signal_handler(signal.SIGHUP, agent.reload_soon)
    try:
        await serving
    except asyncio.CancelledError:
        _log.info("ended; SAs and rules stay in place")
    except OSError as error:
        raise StartError(f"{settings.paths.control_socket}: {error.strerror or error}") from error


async def _esp(settings: Settings) -> EspProbe:
    """Choose the ESP backend: the configuration decides, or else the kernel."""
    found, backend = await esp_probe.probe(), settings.ike.backend
    return found if backend is None else found.forced(backend)
