"""The form of a benchmark's result: build/bench/NAME.json with every sample, or build/bench/quick/NAME.json."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.lab.basics.places import BUILD

SCHEMA = 1
QUICK = os.environ.get("QUICK", "") not in ("", "0")
"""Fewer cells and samples, so that a benchmark ends in under three minutes."""
WHOLE_RUNS = BUILD / "bench"
QUICK_RUNS = WHOLE_RUNS / "quick"
"""A directory of their own, so that a quick run does not replace a whole one that is not kept yet."""
DIRECTORY = QUICK_RUNS if QUICK else WHOLE_RUNS
MORE_IS_BETTER = {"Mbit/s", "frames/s", "kbit/s", "kB/s", "packets/s", "transactions/s", "operations/s"}
"""Units; of all others less is better."""


class MeasurementError(Exception):
    """What was measured is not what was to be measured."""


@dataclass(frozen=True)
class Cell:
    """Samples of one thing under one set of circumstances."""

    key: Mapping[str, object]
    unit: str
    samples: Sequence[float]
    given_up: int = 0
    """How many of the greatest samples are lower bounds, because what they time was given up after so long."""
    rounds: Sequence[int] = ()
    """How many of the samples are of each round, in their order; nothing where each round has one at most."""

    def as_dict(self) -> dict[str, Any]:
        """With the figures that are reported of it."""
        ordered = sorted(self.samples)
        return {
            "key": dict(self.key),
            "unit": self.unit,
            "n": len(ordered),
            "median": median(ordered),
            "p95": percentile(ordered, 95),
            "p99": percentile(ordered, 99),
            "max": ordered[-1],
            "samples": list(self.samples),
            **({"given_up": self.given_up} if self.given_up else {}),
            **({"rounds": list(self.rounds)} if self.rounds else {}),
        }

    def label(self) -> str:
        """Return the key as text, for tables and plots."""
        return ", ".join(str(value) for value in self.key.values())


@dataclass
class Result:
    """A benchmark's result; ``write`` stores it."""

    name: str
    params: Mapping[str, object]
    cells: list[Cell] = field(default_factory=list)
    ratios: list[Mapping[str, object]] = field(default_factory=list)
    peers: Mapping[str, str] = field(default_factory=dict)
    guest: Mapping[str, str] = field(default_factory=dict)
    """Of what was measured in a guest: its own kernel, system and versions (``rt.measure.in_guest``)."""

    def write(self) -> Path:
        """Write NAME.json and return its path."""
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        path = DIRECTORY / f"{self.name}.json"
        path.write_text(json.dumps(self._as_dict(), indent=1) + "\n", encoding="utf-8")
        return path

    def _as_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "machine": machine(),
            "versions": versions(),
            "params": {**self.params, "quick": QUICK},
            "cells": [cell.as_dict() for cell in self.cells],
            "ratios": list(self.ratios),
            "peers": dict(self.peers),
            **({"guest": dict(self.guest)} if self.guest else {}),
        }


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return a percentile of sorted samples, never beyond the largest."""
    if len(ordered) == 1:
        return ordered[0]
    return quantiles(ordered, n=100, method="inclusive")[percent - 1]


def machine() -> dict[str, object]:
    """Return the machine that it ran on; of what was measured in a guest, the host around it."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), platform.machine())
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "system": _system()}


def versions() -> dict[str, str]:
    """Return the versions of what took part on this machine; a guest has its own."""
    dpkg = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", "charon-systemd"], capture_output=True, text=True, check=False
    )
    return {"meshsec": version("meshsec"), "strongswan": dpkg.stdout or "unknown", "python": platform.python_version()}


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()
