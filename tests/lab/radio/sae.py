"""A mesh with a password: wpa_supplicant peers by SAE (IEEE 802.11-2020, 12.4); the kernel alone peers with anybody."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics.waiting import wait_until
from tests.lab.radio.medium import FAST, Radio

PEERED, REFUSED = "MESH-PEER-CONNECTED", "MESH-SAE-AUTH-FAILURE"
"""What wpa_supplicant reports when a station has passed or failed the exchange."""


class Supplicant:
    """wpa_supplicant for one radio, for the time of a ``with`` block. Before and after it the radio is in no mesh."""

    def __init__(self, radio: Radio, password: str, directory: Path) -> None:
        """``directory``: where the configuration with the password is written."""
        self._radio = radio
        self._config = directory / f"{radio.phy}.conf"
        self._config.touch(mode=0o600)
        self._config.write_text(_configuration(password), encoding="ascii")
        self._said = b""

    def __enter__(self) -> Self:
        argv = ["ip", "netns", "exec", self._radio.namespace, "wpa_supplicant", "-D", "nl80211"]
        argv += ["-i", self._radio.interface, "-c", str(self._config)]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        self._config.unlink()

    @property
    def said(self) -> str:
        """Return all output so far."""
        return self._said.decode(errors="replace")

    def wait_reported(self, event: str, of: Radio, seconds: float) -> None:
        """Wait for an event about another radio."""
        wait_until(
            f"{event} of {of.phy} at {self._radio.phy}",
            lambda: any(event in line and of.address in line for line in self.said.splitlines()),
            [self],
            seconds,
            last=lambda: self.said,
        )

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is output."""
        return self._output.fileno()

    def drain(self) -> bool:
        """Read what is available; return False when the program has ended."""
        heard = os.read(self._output.fileno(), 1 << 16)
        self._said += heard
        return bool(heard)


def _configuration(password: str) -> str:
    """Return the configuration. SAE needs protected management frames (ieee80211w=2); the kernel forwards nothing."""
    return f"""user_mpm=1
network={{
    ssid="{FAST.mesh_id}"
    mode=5
    frequency={FAST.frequency}
    key_mgmt=SAE
    sae_password="{password}"
    ieee80211w=2
    mesh_fwding=0
}}
"""
