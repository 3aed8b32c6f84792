"""The datagrams of bench-outside over modelled 802.11g air, in virtual time: there, links take time.

The crate ``airtime`` is the model (docs/explanation/air.md). A frame has the bytes that the plane was seen to put on
a cable's link for one datagram, with the header of 802.11 in place of Ethernet's. The model has no processor: what
forwarding in user space costs a router is not in it, and TCP is not either.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rt.measure.results import Cell, MeasurementError
from rt.throughput.iperf import SIZE
from rt.throughput.sums import Key, Samples
from tests.lab.basics.places import REPOSITORY

SUFFIX = ", modelled air"
"""Of the testbed's name."""
BYTES = "bytes on the link"
ETHERNET = 14
RADIO = 26 + 8 + 4
"""Bytes of IEEE 802.11's QoS data header, of LLC and SNAP before the ethertype, and of the frame check sequence."""
_DAEMON = REPOSITORY / "daemon"


@dataclass
class Aired:
    """What the model gave, and what it could not."""

    cells: list[Cell] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def cells(samples: Samples, rates: Sequence[float], hops: Sequence[int], seeds: int, seconds: float) -> Aired:
    """Send each plane's frames over so many hops, once with each seed. It needs cargo, and says so when it fails."""
    found = Aired()
    if not (sizes := octets(samples)):
        return found
    try:
        program = built()
        for key, size in sizes.items():
            for rate, count in ((rate, count) for rate in rates for count in hops):
                given = {"hops": count, "octets": size, "payload": SIZE, "offered": rate, "seconds": seconds}
                runs = [_run(program, **given, seed=seed) for seed in range(1, seeds + 1)]
                where = {"plane": key.plane, "hops": count, "offered": rate, "testbed": key.testbed + SUFFIX}
                found.cells.append(Cell({"what": "UDP delivered", **where}, "Mbit/s", [one["mbit_s"] for one in runs]))
                found.cells.append(Cell({"what": "UDP loss", **where}, "%", [one["loss_percent"] for one in runs]))
    except (OSError, subprocess.SubprocessError, MeasurementError) as error:
        found.missed.append(f"no modelled air: {error}")
    return found


def octets(samples: Samples) -> dict[Key, int]:
    """Return the octets of an 802.11 frame of one datagram, by plane, from what was seen on cables.

    It is the median of all rates: at low ones the routing daemon sends beside, at high ones datagrams are lost before
    they reach the link.
    """
    seen: dict[Key, list[float]] = {}
    for key, rounds in samples.items():
        if key.what == BYTES:
            seen.setdefault(Key(BYTES, key.plane, testbed=key.testbed), []).extend(rounds.values())
    return {key: round(median(found)) - ETHERNET + RADIO for key, found in seen.items()}


def built() -> Path:
    """Compile the program and return it. Raises SubprocessError."""
    argv = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(_DAEMON / "Cargo.toml")]
    subprocess.run([*argv, "--package", "airtime", "--example", "offered"], check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", _DAEMON / "target")) / "release" / "examples" / "offered"


def _run(program: Path, **given: float) -> Mapping[str, Any]:
    argv = [str(program), *(word for name, value in given.items() for word in (f"--{name}", f"{value}"))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(done.stderr.strip())
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found
