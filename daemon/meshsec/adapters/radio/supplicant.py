"""Run wpa_supplicant for one mesh point: SAE and peering (IEEE 802.11-2020, sections 12.4 and 14.3)."""

import asyncio
import logging
import shutil
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from meshsec import files
from meshsec.core.config.radio_settings import Mode, RadioSettings
from meshsec.core.radio.plan import FORGET_SECONDS

_PROGRAM = "wpa_supplicant"
_STOP_SECONDS = 10.0
"""Seconds after which a wpa_supplicant that does not end is killed."""
_LINES_KEPT = 4
_RESTRICTIONS = {
    Mode.NOHT: ("disable_ht=1", "disable_vht=1"),
    Mode.HT20: ("disable_ht40=1", "disable_vht=1"),
    Mode.HT40_PLUS: ("disable_vht=1",),
    Mode.HT40_MINUS: ("disable_vht=1",),
    Mode.VHT80: ("max_oper_chwidth=1",),
}

_log = logging.getLogger(__name__)


class SupplicantError(Exception):
    """wpa_supplicant failed; the text has the end of its log."""


def configuration(wish: RadioSettings, password: bytes, beacon_interval: int | None = None) -> str:
    """Return the configuration of one mesh. Texts are in hexadecimal, so that nothing needs quoting."""
    network = (
        f"ssid={wish.mesh_id.encode().hex()}",
        "mode=5",
        f"frequency={wish.frequency}",
        "key_mgmt=SAE",
        f"sae_password={password.hex()}",
        "pairwise=CCMP",
        "group=CCMP",
        "ieee80211w=2",
        f"mesh_rssi_threshold={wish.rssi_threshold or 0}",
        *([f"beacon_int={beacon_interval}"] if beacon_interval else []),
        *_RESTRICTIONS[wish.mode],
    )
    lines = "".join(f"\t{line}\n" for line in network)
    # sae_pwe: 2 asks for hash-to-element (H2E) if both ends can. In a mesh wpa_supplicant 2.10 uses
    # hunting-and-pecking.
    common = ("p2p_disabled=1", "sae_pwe=2", "mesh_fwding=0", f"mesh_max_inactivity={FORGET_SECONDS}")
    return "\n".join((*common, f"network={{\n{lines}}}\n"))


class Supplicant:
    """One running wpa_supplicant. It ends with this process, and its configuration is then removed."""

    def __init__(self, interface: str, directory: Path, on_end: Callable[[], None]) -> None:
        """Prepare it; ``on_end`` is called in the loop when it has closed its log."""
        self._interface = interface
        self._on_end = on_end
        self._configuration = directory / f"{interface}.conf"
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)

    @property
    def ended(self) -> str | None:
        """Return the end of its log if it has ended by itself; None while it runs or if it was not started."""
        if self._process is None or self._process.returncode is None:
            return None
        return f"wpa_supplicant ended with status {self._process.returncode}: {self.last_words}"

    @property
    def last_words(self) -> str:
        """Return the end of its log."""
        return " | ".join(self._last) or "(it said nothing)"

    async def start(self, wish: RadioSettings, password: bytes, beacon_interval: int | None = None) -> None:
        """Start it; joining takes some time. Raises SupplicantError and FileError."""
        if shutil.which(_PROGRAM) is None:
            raise SupplicantError("wpa_supplicant is not installed; fix: apt install wpasupplicant")
        files.write(self._configuration, configuration(wish, password, beacon_interval).encode(), 0o600)
        self._last.clear()
        # setpriv(1): it must end with this process, even if we are killed.
        self._process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "TERM", "--"),
            *(_PROGRAM, "-D", "nl80211", "-i", self._interface, "-c", str(self._configuration)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def stop(self) -> None:
        """Stop it and remove its configuration. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._reading is not None:
            await self._reading
            self._reading = None
        self._configuration.unlink(missing_ok=True)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Copy its log to ours."""
        if process.stdout is not None:
            async for line in process.stdout:
                text = line.decode(errors="replace").strip()
                self._last.append(text)
                _log.info("wpa_supplicant: %s", text)
        await process.wait()
        self._on_end()
