"""Boots the guest for some cases, and reads what its rig left. A measurement that lacks something is refused."""

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rt.bench_latency import Kernel, histogram
from rt.kernels.cases import Case
from rt.measure import in_guest
from rt.measure.results import MeasurementError
from rt.sa_setup.block import Block
from tests.lab.basics import patience
from tests.lab.machines import guest

SECONDS = 3600.0
"""By this machine's clock, for one kernel; some minutes on a quiet core."""
PATIENCE = 20
"""The guest's time leaps forward while nothing runs: deadlines that are to prove life need more of it."""
LEAST_PACKETS = 60
"""For each second of a load, in each direction, or it was none. The encoder sends 360 while it has the processor for
itself, and half as many beside set-ups that follow one another at once; its neighbour sends 2000."""
_KEY = f"0x{bytes(range(20)).hex()}"
_KEY_3DES = f"0x{bytes(range(24)).hex()}"
"""Of no use to anybody: the states that they are for never see a packet."""
_COMMAND = f"""\
modprobe -a veth xfrm_user esp4 esp6 aesni_intel gcm seqiv authenc cbc hmac des_generic sha1_generic echainiv
for cipher in "aead rfc4106(gcm(aes)) {_KEY} 128" "enc cbc(des3_ede) {_KEY_3DES} auth-trunc hmac(sha1) {_KEY} 96"; do
    for try in 1 2 3 4 5; do
        ip xfrm state add src ::1 dst ::2 proto esp spi 1 mode transport $cipher && break
    done
    ip xfrm state flush
done
mkdir -p build/artifacts
{in_guest.asking("charon-systemd", "hostapd", "rt-tests")}
mount --bind /results build/artifacts
export {patience.VARIABLE}={PATIENCE}
exec .venv/bin/python -m rt.kernels.rig"""
"""The kernel gives up waiting for a cipher's module after a while of the guest's time, which leaps while the module is
read: a second try finds it there. What a rig that failed leaves is kept with the results.
"""
_COUNTED = {"encoder_sent": "encoder_sent", "encoder_received": "sender_sent"}
"""What must be enough, and what says that somebody sends it: on radio there is no neighbour's stream."""


@dataclass(frozen=True)
class Ground:
    """What is booted: a kernel, with cables or radios between the nodes."""

    kernel: Kernel
    testbed: str = "wire"
    """``wire`` or ``radio``."""

    def __str__(self) -> str:
        return f"{self.testbed}, {self.kernel.name}"


@dataclass(frozen=True)
class Measured:
    """What was measured in one case."""

    block: Block
    wake_ups: Sequence[int]
    """Each one's lateness in microseconds."""


@dataclass(frozen=True)
class Boot:
    """What one kernel did, by case."""

    release: str
    cases: Mapping[Case, Measured]
    guest: Mapping[str, str]
    """Its kernel, system and versions, as it says itself."""


def boot(ground: Ground, folder: Path, samples: int, cases: Sequence[Case], pause: float = 0.0) -> Boot:
    """Boot it once for all cases, with set-ups ``pause`` seconds apart. Raises MeasurementError."""
    shutil.rmtree(folder, ignore_errors=True)
    how = [*(["--radio"] if ground.testbed == "radio" else []), "--pause", str(pause), str(samples)]
    command = f"{_COMMAND} {shlex.join([*how, *map(str, cases)])}"
    kind, arguments = ground.kernel.kind, ground.kernel.arguments
    outcome = guest.run_in_guest(command, folder, seconds=SECONDS, kernel=kind, arguments=arguments, deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"{ground}: status {outcome.status}: {outcome.output}{outcome.console}")
    return read(folder, cases)


def read(folder: Path, cases: Sequence[Case]) -> Boot:
    """Return what the guest left; raises MeasurementError when nothing was set up in a case, or a load was none."""
    found = {case: _measured(folder / f"{case}.json") for case in cases}
    return Boot((folder / "release").read_text(encoding="ascii"), found, in_guest.asked(folder))


def _measured(path: Path) -> Measured:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    block = Block.from_dict(found["block"])
    if not block.times and not block.overdue:
        raise MeasurementError(f"{path}: no set-up in the capture")
    seconds = block.samples[-1].end - block.samples[0].begin if block.samples else 0.0
    stream: dict[str, int] = found["stream"]
    for what, by in _COUNTED.items():
        if by in stream and stream[what] < LEAST_PACKETS * seconds:
            raise MeasurementError(f"{path}: {what} {stream[what]} packets in {seconds:.1f} s are no load")
    return Measured(block, histogram(found["cyclictest"]))
