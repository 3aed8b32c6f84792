"""What destroys the keys without anybody at a keyboard: a key that is held, and a node that nobody touches."""

import logging
import os
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import syslog
from meshsec.adapters.files import raw_config, untouched_store
from meshsec.adapters.input_keys import InputKeys
from meshsec.adapters.sockets.notify import Notifier
from meshsec.cli.app import App
from meshsec.core.config.zeroize_settings import ZeroizeSettings
from meshsec.core.config.zeroize_settings import lenient as lenient_settings
from meshsec.core.values import lenient
from meshsec.core.zeroize import dead_man
from meshsec.core.zeroize.keys import HeldKey
from meshsec.core.zeroize.targets import STATE

DESTROY = 10
"""Exit status of --watch upon which its unit calls the command with all privileges. No fault has it."""
_HOUR = 3600.0
_TICK = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Armed:
    """What is to be waited for, and the record of the time."""

    settings: ZeroizeSettings
    record: Path


@click.command
@click.pass_obj
def alive(app: App) -> None:
    """Say that this node is in good hands: its dead-man timer begins again."""
    armed = _armed(app)
    hours = armed.settings.dead_man_h
    if hours is None:
        raise click.ClickException(f"{app.config}: [zeroize] has no dead_man_h, so nothing waits for that")
    if os.geteuid() != 0:
        raise click.ClickException("only root may say that: use sudo")
    untouched_store.save(armed.record, dead_man.touched(untouched_store.boot(), untouched_store.now()))
    click.echo(f"This node's keys are destroyed after {hours} h of running without another `meshsec alive`.")


def watch(app: App) -> int:
    """Wait until the keys must go, and return the status that says so; success if there is nothing to wait for.

    Raises ClickException. Here nothing is destroyed: who waits has no privileges.
    """
    armed = _armed(app)
    if not armed.settings.watches:
        Notifier().ready()
        click.echo(f"{app.config}: [zeroize] has neither key nor dead_man_h, so there is nothing to wait for")
        return 0
    why = _wait(armed)
    syslog.critical("meshsec", f"this node's keys are being destroyed: {why}")
    click.echo(why)
    return DESTROY


def _armed(app: App) -> _Armed:
    """Return what is to be waited for, although other values may be refused. Raises ClickException.

    A value of [zeroize] that is refused is in the machine's log, with what is in force instead.
    """
    config = app.config.absolute()
    try:
        found = raw_config.read(config)
    except files.FileError as error:
        raise click.ClickException(
            f"{error}; until that is corrected, neither a key nor [zeroize] dead_man_h is waited for"
        ) from error
    settings, problems = lenient_settings(found, str(config.parent))
    if problems:
        refused = "; ".join(map(str, problems))
        text = f"{config}: {refused}. In force: {settings.words}; `meshsec check` examines the file"
        syslog.critical("meshsec", text)
        click.echo(text, err=True)
    state = lenient.path(found, str(config.parent), ("paths", "state"), STATE)
    return _Armed(settings, Path(state) / untouched_store.NAME)


def _wait(armed: _Armed) -> str:
    """Wait until the keys must be destroyed, and return why."""
    settings = armed.settings
    timer = DeadMan(armed.record, settings.dead_man_h * _HOUR) if settings.dead_man_h is not None else None
    Notifier().ready()
    with closing(_held(settings)) as held:
        for is_held in held:
            if is_held:
                return f"the key {settings.key} was held for {settings.hold_s:g} s"
            if timer is not None and timer.is_over():
                return f"nobody has said `meshsec alive` for {settings.dead_man_h} h"
    raise AssertionError("an endless loop ended")


def _held(settings: ZeroizeSettings) -> Generator[bool]:
    """Yield again and again whether the key has been held for long enough."""
    if settings.key is None:
        while True:
            time.sleep(_TICK)
            yield False
    held = HeldKey(settings.key, settings.hold_s)
    with closing(InputKeys(settings.key)) as keys:
        while True:
            left = held.left(time.monotonic())
            for code, value in keys.events(_TICK if left is None else min(left, _TICK)):
                held.handle(code, value, time.monotonic())
            yield held.left(time.monotonic()) == 0.0


class DeadMan:
    """The timer, and its record on the disk. What cannot be written is in force all the same."""

    def __init__(self, path: Path, limit: float) -> None:
        self._path, self._limit = path, limit
        self._warned = False
        self._state = dead_man.resumed(self._kept(), untouched_store.boot(), untouched_store.now())
        self._save()

    def is_over(self) -> bool:
        """Return whether nobody has touched the node for too long."""
        kept, now = self._kept(), untouched_store.now()
        if kept is not None and kept.boot == self._state.boot and kept.mark > self._state.mark:
            self._state, self._warned = kept, False
        elif now - self._state.mark >= dead_man.SAVED_EVERY:
            self._state = self._state.marked(now)
            self._save()
        left = self._limit - self._state.seconds(now)
        if 0 < left <= _HOUR and not self._warned:
            self._warned = True
            syslog.critical("meshsec", f"this node's keys are destroyed in {left / 60:.0f} min: `meshsec alive`")
        return left <= 0

    def _kept(self) -> dead_man.Untouched | None:
        try:
            return untouched_store.load(self._path)
        except files.FileError as error:
            _log.warning("%s; the time begins again", error)
            return None

    def _save(self) -> None:
        try:
            untouched_store.save(self._path, self._state)
        except files.FileError as error:
            _log.warning("%s", error)
