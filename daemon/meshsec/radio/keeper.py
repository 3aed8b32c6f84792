"""Brings one radio into the mesh and keeps it there.

Theory of operation: observe, plan (``core/radio/plan.py``), carry out, read back. A step that fails is undone, so that
nothing stays half applied. While joined, the program reads the radio's state again at every change of an interface or
of a radio's switch, and every few seconds in any case. When the state is not as wished, it undoes everything and joins
again. An obstacle before the first success ends the program, so that the service manager reports it; a later one makes
it wait. If the adapter is not plugged in, the program waits for it from the start.
"""

import asyncio
import errno
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from meshsec import files
from meshsec.adapters.files import credential
from meshsec.adapters.files.credential import CredentialError
from meshsec.adapters.kernel import netlink
from meshsec.adapters.radio import nl80211, rfkill
from meshsec.adapters.radio.nl80211 import Nl80211
from meshsec.adapters.radio.supplicant import Supplicant, SupplicantError
from meshsec.adapters.sockets.notify import Notifier, watchdog_interval
from meshsec.agent.sides import radios
from meshsec.core.config.radio_settings import RadioSettings, Security
from meshsec.core.radio import plan
from meshsec.core.radio.observed import Observed, Phy
from meshsec.core.radio.obstacles import Obstacle, obstacles, wants_country
from meshsec.core.radio.steps import (
    Join,
    Leave,
    SetMcastRate,
    SetMeshParameters,
    SetRtsThreshold,
    SetTxPower,
    SetType,
    SetUp,
    StartSupplicant,
    Step,
    StopSupplicant,
)
from meshsec.radio.rts import UNSUPPORTED, MeasuredThreshold

_STEP_SECONDS = 10.0
_JOIN_SECONDS = 60.0
"""Seconds for wpa_supplicant to start, make the SAE elements and join."""
_COUNTRY_SECONDS = 10.0
"""Seconds for the kernel to read the rules from a file and change all radios."""
_LOOK_SECONDS = 10.0
"""Seconds between two checks without an event."""
_PAUSES = (1.0, 10.0)
"""First and longest pause between two attempts in seconds; it doubles."""

_log = logging.getLogger(__name__)

_FAILURES = (OSError, TimeoutError, SupplicantError, CredentialError, files.FileError)


class JoinError(Exception):
    """The radio is not in the mesh; the text says why and how to fix it."""


class AbsentError(JoinError):
    """The interface does not exist yet."""


class Keeper:
    """Keep one interface in the mesh, from the first step to the last."""

    def __init__(
        self, interface: str, wish: RadioSettings, directory: Path, beacon_interval: int | None = None
    ) -> None:
        self._name = interface
        self._wish = wish
        self._directory = directory
        self._rts = MeasuredThreshold(interface, wish, directory)
        self._beacon_interval = beacon_interval
        self._changed = asyncio.Event()
        self._supplicant = Supplicant(interface, directory, self._changed.set)
        self._notifier = Notifier()
        self._joined_once = False
        self._told = ""

    def close(self) -> None:
        """Close what ``run`` leaves open."""
        self._notifier.close()

    async def run(self) -> None:
        """Join, and stay until cancelled. Raises JoinError if the first attempt with the adapter fails."""
        pause = _PAUSES[0]
        with netlink.link_changes(self._changed.set), rfkill.changes(self._changed.set):
            while True:
                try:
                    await self._membership()
                    pause = _PAUSES[0]
                except JoinError as error:
                    if not self._joined_once and not isinstance(error, AbsentError):
                        raise
                    self._tell(logging.WARNING, f"not in the mesh: {error}")
                    self._notifier.ready()
                self._notifier.alive()
                await self._something(pause)
                pause = min(2 * pause, _PAUSES[1])

    async def examine(self) -> tuple[list[Obstacle], tuple[Step, ...]]:
        """Return the obstacles, or else the steps that ``run`` would take; change nothing."""
        async with nl80211.opened() as stack:
            seen = await radios.observe(stack, self._name)
            if wants_country(self._wish, seen):
                seen = replace(seen, country=self._wish.country or seen.country)
            found = obstacles(self._wish, seen)
            return found, () if found else plan.plan(self._wish, seen, self._beacon_interval)

    async def _membership(self) -> None:
        """Join once; return with everything undone when the membership is lost. Raises JoinError."""
        try:
            async with nl80211.opened() as stack:
                before = await self._prepared(stack)
                if stack is None:
                    raise JoinError("there is no wireless stack")
                done: list[Step] = []
                self._rts = MeasuredThreshold(self._name, self._wish, self._directory)
                try:
                    await self._join(stack, before, done)
                    lost = await self._watch(stack, before.phy)
                    self._tell(logging.WARNING, f"lost the mesh: {lost}")
                finally:
                    self._rts.end()
                    await self._undo(stack, before, done)
        except OSError as error:  # from reading: there is nothing to undo
            raise JoinError(f"{self._name}: {error}{plan.hint(error.errno, Observed(self._name))}") from error

    async def _prepared(self, stack: Nl80211 | None) -> Observed:
        """Return the state under the wanted regulatory rules. Raises JoinError if there is an obstacle."""
        seen = await radios.observe(stack, self._name)
        if stack is not None and wants_country(self._wish, seen):
            await self._ask_country(stack)
            seen = await radios.observe(stack, self._name)
        if found := obstacles(self._wish, seen):
            kind = JoinError if seen.exists else AbsentError
            raise kind("\n".join(f"{self._name}: {one}" for one in found))
        if self._wish.security is Security.SAE:
            try:
                credential.sae_password()
            except CredentialError as error:
                raise JoinError(f"{self._name}: {error}") from error
        return seen

    async def _ask_country(self, stack: Nl80211) -> None:
        """Ask the kernel for the country and wait for it. The state read afterwards shows whether it was accepted."""
        country = self._wish.country or ""
        end = asyncio.get_running_loop().time() + _COUNTRY_SECONDS
        await stack.request_country(country)
        while await stack.country() != country and asyncio.get_running_loop().time() < end:
            await self._something(0.2)

    async def _join(self, stack: Nl80211, before: Observed, done: list[Step]) -> None:
        """Carry out the plan; ``done`` collects what must be undone, also after a failure. Raises JoinError."""
        what = "plan"
        try:
            for step in plan.plan(self._wish, before, self._beacon_interval):
                what = str(step)
                _log.info("%s: %s", self._name, what)
                done.append(step)
                if not await self._carried_out(stack, before, step):
                    done.remove(step)
            what = "read back"
            seen = await radios.observe(stack, self._name)
        except _FAILURES as error:
            code = error.errno if isinstance(error, OSError) else None
            text = "it took too long" if isinstance(error, TimeoutError) else str(error)
            raise JoinError(f"{self._name}: {what}: {text}{plan.hint(code, before)}") from error
        if amiss := plan.differences(self._wish, seen):
            raise JoinError(f"{self._name}: joined, but {'; '.join(amiss)}{self._excuse()}")
        for remark in plan.remarks(self._wish, seen):
            _log.warning("%s: %s", self._name, remark)

    def _excuse(self) -> str:
        """Return the difference that is allowed: wpa_supplicant chooses the channel's width itself."""
        sae = self._wish.security is Security.SAE
        return "; fix: another [radio] mode: wpa_supplicant decided otherwise" if sae else ""

    async def _watch(self, stack: Nl80211, phy: Phy | None) -> str:
        """Check until something is wrong; return what."""
        wish = self._wish
        self._joined_once = True
        self._tell(logging.INFO, f"in the mesh {wish.mesh_id!r} on {wish.frequency} MHz {wish.mode}, {wish.security}")
        self._notifier.ready()
        while True:
            self._notifier.alive()
            await self._something(min(watchdog_interval() or _LOOK_SECONDS, _LOOK_SECONDS, self._rts.wait))
            if ended := self._supplicant.ended:
                return ended
            seen = await radios.observe(stack, self._name, phy)
            if amiss := plan.differences(wish, seen):
                return "; ".join(amiss)
            if seen.interface and seen.phy:
                await self._rts.turn(stack, seen.interface.index, seen.phy.index)

    async def _undo(self, stack: Nl80211, before: Observed, done: Sequence[Step]) -> None:
        """Undo as much as possible: each step is tried, even after others fail."""
        for step in plan.undo(done, before):
            try:
                await self._carry_out(stack, before, step)
            except _FAILURES as error:
                gone = isinstance(error, OSError) and error.errno == errno.ENODEV
                _log.log(logging.INFO if gone else logging.WARNING, "undo: %s: %s", step, error)

    async def _carried_out(self, stack: Nl80211, before: Observed, step: Step) -> bool:
        """Do one step; return False for one that the driver does not support and the mesh does not need."""
        try:
            await self._carry_out(stack, before, step)
        except OSError as error:
            if not isinstance(step, SetRtsThreshold) or error.errno not in UNSUPPORTED:
                raise
            self._rts.refused(error)
            return False
        return True

    async def _carry_out(self, stack: Nl80211, before: Observed, step: Step) -> None:
        if isinstance(step, StartSupplicant):
            await asyncio.wait_for(self._start_supplicant(stack, before.phy, step.beacon_interval), _JOIN_SECONDS)
        elif isinstance(step, StopSupplicant):
            await self._supplicant.stop()
        else:
            await asyncio.wait_for(self._change(stack, step), _STEP_SECONDS)

    async def _change(self, stack: Nl80211, step: Step) -> None:
        """Do one step that the kernel carries out at once."""
        own, phy = await radios.interface(stack, self._name)
        match step:
            case SetUp(up=up):
                await netlink.set_link(own.index, up=up)
            case SetType(type=kind) if kind != own.type:
                await stack.set_type(own.index, kind)
            case SetRtsThreshold(octets=octets):
                await stack.set_rts_threshold(phy, octets)
            case SetTxPower(dbm=dbm):
                await stack.set_tx_power(own.index, dbm)
            case Join():
                await stack.join(own.index, step)
            case Leave():
                await stack.leave(own.index)
            case SetMeshParameters():
                await stack.set_mesh_parameters(own.index, step)
            case SetMcastRate(mbit=mbit):
                await stack.set_mcast_rate(own.index, mbit)

    async def _start_supplicant(self, stack: Nl80211, phy: Phy | None, beacon_interval: int | None) -> None:
        """Start wpa_supplicant and wait until it has joined. Raises SupplicantError if it ends before that."""
        await self._supplicant.start(self._wish, credential.sae_password(), beacon_interval)
        while True:
            if ended := self._supplicant.ended:
                raise SupplicantError(f"{ended}; fix: it needs mesh support (CONFIG_MESH, CONFIG_SAE), as Debian's has")
            seen = await radios.observe(stack, self._name, phy)
            if seen.mesh is not None:
                return
            self._notifier.alive()
            await self._something(1.0)

    async def _something(self, seconds: float) -> None:
        """Wait for an event, at most ``seconds``."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return
        self._changed.clear()

    def _tell(self, level: int, text: str) -> None:
        """Report to the log and the service manager; an unchanged text is not repeated."""
        if text == self._told:
            return
        self._told = text
        _log.log(level, "%s: %s", self._name, text)
        self._notifier.status(text.splitlines()[0])
