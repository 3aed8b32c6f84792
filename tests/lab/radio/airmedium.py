"""Radios of mac80211_hwsim on an air that takes time: the program airmedium between them.

While it runs, it alone decides who hears whom; the hearing groups of ``medium`` are without effect.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.radio.medium import Radio

_READY = "hear each other through this medium"
_START_SECONDS = 10.0
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Place:
    """Who hears whom: pairs of names with the ratio of signal and noise in dB, in both directions."""

    links: Mapping[tuple[str, str], float]
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    """Further keys of the configuration, as ``phy`` and ``seed``."""

    def text(self, radios: Mapping[str, Radio]) -> str:
        """Return airmedium's configuration."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        for name, radio in radios.items():
            lines += ["[[station]]", f'name = "{name}"', f'radio = "{radio.address}"']
        for (first, second), snr in self.links.items():
            lines += ["[[link]]", f'from = "{first}"', f'to = "{second}"', f"snr = {snr}"]
        return "\n".join(lines) + "\n"


class AirMedium:
    """The program while the context is open."""

    def __init__(self, directory: Path, radios: Mapping[str, Radio], place: Place) -> None:
        self._radios = radios
        self._config = directory / "air.toml"
        self._report = directory / "air.json"
        self._log = directory / "air.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.move(place)

    def __enter__(self) -> Self:
        argv = [programs.airmedium(), str(self._config), "--report", str(self._report)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until("airmedium is the medium", self._is_ready, [], _START_SECONDS, self.log)
        except BaseException:
            self._process.kill()
            self._process.wait(_END_SECONDS)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Return the process's number."""
        assert self._process is not None
        return self._process.pid

    def end(self) -> dict[str, dict[str, Any]]:
        """End the program. Return what each station has done, by name."""
        if self._process is not None:
            self._process.terminate()
            status = self._process.wait(_END_SECONDS)
            self._process = None
            assert status == 0, f"airmedium: status {status}: {self.log()}"
        stations: dict[str, dict[str, Any]] = json.loads(self._report.read_text(encoding="utf-8"))["stations"]
        return stations

    def move(self, place: Place) -> None:
        """Let other stations hear each other from now on."""
        self._config.write_text(place.text(self._radios), encoding="utf-8")
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGHUP)

    def log(self) -> str:
        """Return what the program has logged."""
        return self._log.read_text(encoding="utf-8")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return _READY in self.log()


def line(names: Sequence[str], snr: float) -> Place:
    """Return stations of which each hears its neighbours alone."""
    return Place(dict.fromkeys(pairwise(names), snr))
