"""Carries out the RTS threshold that follows what is measured (``core/radio/rts.py``).

A radio that refuses a threshold, or keeps another one, is asked once and left alone until it joins again.
"""

import asyncio
import errno
import logging
from contextlib import suppress
from pathlib import Path

from meshsec import files
from meshsec.adapters.files import rts_note
from meshsec.adapters.radio.nl80211 import Nl80211, Nl80211Error
from meshsec.core.config.radio_settings import RadioSettings, RtsThreshold
from meshsec.core.radio import rts, rts_evidence
from meshsec.core.radio.steps import rts as shown

UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, 524)
"""What drivers that cannot do something answer; 524 is the kernel's ENOTSUPP."""

_log = logging.getLogger(__name__)


class MeasuredThreshold:
    """The RTS threshold of one membership; it measures nothing unless the settings ask for it."""

    def __init__(self, interface: str, wish: RadioSettings, directory: Path) -> None:
        self._name = interface
        self._path = directory / rts_note.NAME
        self._state = rts.State() if wish.rts_threshold is RtsThreshold.MEASURED else None
        self._counters: dict[str, rts_evidence.Station] = {}
        self._since: float | None = None
        self._in_force = self._state.threshold if self._state else None
        self._verified = False

    @property
    def wait(self) -> float:
        """Seconds until ``turn`` is due; without anything to measure, infinite."""
        if self._state is None:
            return float("inf")
        now = asyncio.get_running_loop().time()
        return max(0.0, self._since + self._state.wait - now) if self._since is not None else 0.0

    def refused(self, error: OSError) -> None:
        """Note that the driver takes no threshold, and measure no more."""
        self._give_up(f"the driver takes no RTS threshold ({error}), and the radio goes on without it")

    async def turn(self, stack: Nl80211, index: int, phy: int) -> None:
        """Read the counters when they are due, and set what follows from them. Raises Nl80211Error if reading fails."""
        if self._state is None or self.wait:
            return
        try:
            counters, now = await stack.stations(index), asyncio.get_running_loop().time()
        except Nl80211Error as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._give_up(f"the driver has no counters of neighbours ({error})")
            return
        before, since = self._counters, self._since
        self._counters, self._since = counters, now
        if since is None:
            self._say(self._state)
            return
        state = rts.following(self._state, rts_evidence.sample(before, counters, now - since))
        if state.changes != self._state.changes:
            _log.info("%s: %s", self._name, state)
        if state.reason != self._state.reason:
            self._say(state)
        self._state = state
        if state.threshold != self._in_force:
            await self._set(stack, phy, state.threshold)

    def end(self) -> None:
        """Remove what was said of this membership."""
        with suppress(files.FileError):
            files.remove(self._path)

    async def _set(self, stack: Nl80211, phy: int, octets: int) -> None:
        try:
            await stack.set_rts_threshold(phy, octets)
            kept = octets if self._verified else (await stack.phy(phy)).rts_threshold
        except Nl80211Error as error:
            self.refused(error)
            return
        self._in_force, self._verified = octets, True
        if kept != octets:
            self._give_up(f"the driver keeps the RTS threshold {shown(kept)} when {shown(octets)} is set")

    def _give_up(self, why: str) -> None:
        self._state = None
        _log.warning("%s: %s", self._name, why)
        self._write(f"{rts_note.NOT_MEASURED}{why}")

    def _say(self, state: rts.State) -> None:
        self._write(f"{rts_note.MEASURED}{state.reason}")

    def _write(self, text: str) -> None:
        try:
            rts_note.write(self._path, text)
        except files.FileError as error:
            _log.warning("%s: %s", self._name, error)
