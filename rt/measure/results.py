"""The form of a benchmark's result: build/bench/NAME.json with every sample, and a plot beside it."""

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
DIRECTORY = BUILD / "bench"
QUICK = os.environ.get("QUICK", "") not in ("", "0")
"""Fewer cells and samples, so that a benchmark ends in under three minutes."""


@dataclass(frozen=True)
class Cell:
    """Samples of one thing under one set of circumstances."""

    key: Mapping[str, object]
    unit: str
    samples: Sequence[float]

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
        }


@dataclass
class Result:
    """A benchmark's result; ``write`` stores it."""

    name: str
    params: Mapping[str, object]
    cells: list[Cell] = field(default_factory=list)
    ratios: list[Mapping[str, object]] = field(default_factory=list)
    peers: Mapping[str, str] = field(default_factory=dict)
    logarithmic: bool = False
    """Plot on a logarithmic scale, with whiskers from the least to the largest sample: for figures whose extremes count
    and are far apart. All samples are positive then."""

    def write(self) -> Path:
        """Write NAME.json, NAME.svg and NAME.png; the path of the first."""
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        path = DIRECTORY / f"{self.name}.json"
        path.write_text(json.dumps(self._as_dict(), indent=1) + "\n", encoding="utf-8")
        self._plot()
        return path

    def lines(self) -> list[str]:
        """One line for each cell, for the terminal."""
        return [
            "{label}: median {median:.2f} {unit}, p95 {p95:.2f}, p99 {p99:.2f}, max {max:.2f} (n={n})".format(
                label=_label(cell), **cell.as_dict()
            )
            for cell in self.cells
        ]

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
        }

    def _by_unit(self) -> dict[str, list[Cell]]:
        """Each unit has an axis of its own."""
        panels: dict[str, list[Cell]] = {}
        for cell in self.cells:
            panels.setdefault(cell.unit, []).append(cell)
        return panels

    def _plot(self) -> None:
        import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

        matplotlib.use("Agg")
        from matplotlib import pyplot  # noqa: PLC0415

        panels = self._by_unit()
        heights = [1 + len(cells) for cells in panels.values()]
        figure, rows = pyplot.subplots(
            len(panels), figsize=(9, 1 + 0.5 * sum(heights)), height_ratios=heights, layout="constrained", squeeze=False
        )
        for (unit, cells), axes in zip(panels.items(), rows[:, 0], strict=True):
            whiskers = (0, 100) if self.logarithmic else 1.5
            axes.boxplot([list(cell.samples) for cell in cells], orientation="horizontal", whis=whiskers)
            axes.set_yticks(range(1, len(cells) + 1), [_label(cell) for cell in cells])
            if self.logarithmic:
                axes.set_xscale("log")
            else:
                axes.set_xlim(left=0)
            axes.set_xlabel(unit)
        figure.suptitle(self.name)
        for kind in ("svg", "png"):
            figure.savefig(DIRECTORY / f"{self.name}.{kind}")
        pyplot.close(figure)


def percentile(ordered: Sequence[float], percent: int) -> float:
    """A percentile of sorted samples, never beyond the largest."""
    if len(ordered) == 1:
        return ordered[0]
    return quantiles(ordered, n=100, method="inclusive")[percent - 1]


def machine() -> dict[str, object]:
    """What it ran on."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), platform.machine())
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "system": _system()}


def versions() -> dict[str, str]:
    """Of what took part."""
    dpkg = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", "charon-systemd"], capture_output=True, text=True, check=False
    )
    return {"meshsec": version("meshsec"), "strongswan": dpkg.stdout or "unknown", "python": platform.python_version()}


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _label(cell: Cell) -> str:
    return ", ".join(str(value) for value in cell.key.values())
