"""bench-throughput in a guest, where the kernel has ESP and radios: short lines on cables and on 802.11s.

    python -m rt.throughput.guest ROUNDS SECONDS FILE TESTBED...    what runs there; FILE gets what was taken

The guest has one processor, whose time follows the executed instructions: a nanosecond is one instruction, so that the
figures are what programs and kernel have to do for a packet, whatever else this machine does. They compare planes and
are no rates of hardware. The radios are perfect, and take no time on the air.
"""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from rt.measure import in_guest
from rt.measure.results import DIRECTORY, MeasurementError
from rt.throughput import outside
from rt.throughput.lines import SUITES, Testbed, planes
from rt.throughput.run import Extent, Run
from rt.throughput.sums import Key, Samples
from tests.lab.basics import patience
from tests.lab.machines import guest
from tests.lab.radio import medium

HOPS = (1, 2)
LOADS = (20.0, 100.0, 400.0)
CABLES = Testbed("guest, cables", HOPS)
RADIO = Testbed("guest, radio", HOPS, medium.Air, radio=True)
OUTSIDE = Testbed("guest, client to outside", HOPS, back="guest, outside to client")
TESTBEDS = {"cables": CABLES, "radio": RADIO, "outside": OUTSIDE}
LIBRARY = "libsodium.so.23"
"""overlayd takes it where a machine has it, as nodes should. The guest's root has none: this machine's is lent."""
SUITE = next(iter(SUITES))
CIPHER = "rfc4106(gcm(aes))"
SECONDS = 3600.0
"""By this machine's clock, for all; a quarter of an hour on a quiet core."""
PATIENCE = 20
"""The guest's time leaps forward while nothing runs: deadlines that are to prove life need more of it."""
_KEY = f"0x{bytes(range(20)).hex()}"
"""Of no use to anybody: the state that it is for never sees a packet."""
_COMMAND = f"""\
modprobe -a veth tun vxlan nft_chain_nat nft_masq xfrm_user esp4 esp6 aesni_intel gcm seqiv
for try in 1 2 3 4 5; do
    ip xfrm state add src ::1 dst ::2 proto esp spi 1 mode transport aead 'rfc4106(gcm(aes))' {_KEY} 128 && break
done
ip xfrm state flush
{in_guest.asking("charon-systemd", "hostapd")}
export LD_LIBRARY_PATH=/results/lib
export {patience.VARIABLE}={PATIENCE}
exec .venv/bin/python -m rt.throughput.guest"""
"""The kernel gives up waiting for a cipher's module after a while of the guest's time, which leaps while the module is
read: a second try finds it there."""
_FOLDER = DIRECTORY / "throughput"
_TAKEN = "taken.json"
_FIELD = re.compile(r"^(\w+) *: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Taken:
    """What the guest measured."""

    samples: Samples = field(default_factory=dict)
    missed: Sequence[str] = ()
    cipher: str = ""
    """The kernel's driver for the suite's cipher: whether the processor's instructions for AES were used."""

    def text(self) -> str:
        """As the guest leaves it."""
        taken = [{"key": vars(key), "rounds": list(rounds.items())} for key, rounds in self.samples.items()]
        return json.dumps({"taken": taken, "missed": self.missed, "cipher": self.cipher})

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what ``text`` made."""
        found = json.loads(text)
        samples = {Key(**one["key"]): dict(one["rounds"]) for one in found["taken"]}
        return cls(samples, found["missed"], found["cipher"])


def clear() -> None:
    """Delete what a guest left before."""
    shutil.rmtree(_FOLDER, ignore_errors=True)


def measure(rounds: int, seconds: float, testbeds: Sequence[str]) -> None:
    """Boot the guest and measure in it on some of ``TESTBEDS``. Raises MeasurementError."""
    (_FOLDER / "lib").mkdir(parents=True)
    if library := sodium():
        shutil.copy(library, _FOLDER / "lib" / LIBRARY)
    command = f"{_COMMAND} {rounds} {seconds} /results/{_TAKEN} {' '.join(testbeds)}"
    outcome = guest.run_in_guest(command, _FOLDER, seconds=SECONDS, deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")


def left() -> Taken:
    """Return what the guest has measured, on every testbed that it came to the end of."""
    path = _FOLDER / _TAKEN
    return Taken.read(path.read_text(encoding="utf-8")) if path.exists() else Taken()


def versions() -> dict[str, str]:
    """Return what the guest said of itself, or nothing if none was booted."""
    return in_guest.left(_FOLDER)


def sodium() -> Path | None:
    """This machine's library."""
    return next(Path("/usr/lib").glob(f"*/{LIBRARY}"), None)


def driver(crypto: str, name: str) -> str:
    """By the text of /proc/crypto, who does an algorithm: of several the one with the highest priority, or ""."""
    blocks = [dict(_FIELD.findall(block)) for block in crypto.split("\n\n")]
    mine = [(int(block["priority"]), block["driver"]) for block in blocks if block.get("name") == name]
    return max(mine, default=(0, ""))[1]


def main() -> None:
    """In the guest."""
    rounds, seconds, path = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    if obstacle := medium.obstacle():
        sys.exit(obstacle)
    extent = Extent(rounds, HOPS, seconds, LOADS)
    samples: Samples = {}
    missed: list[str] = []
    for testbed in (TESTBEDS[name] for name in sys.argv[4:]):
        taken = Run(testbed, extent)
        made = outside.planes(testbed) if testbed is OUTSIDE else planes(testbed, [SUITE])
        taken.all(made, partial(print, testbed.name, flush=True))
        samples |= taken.samples
        missed += taken.missed
        cipher = driver(Path("/proc/crypto").read_text(encoding="ascii"), CIPHER)
        part = path.with_suffix(".part")  # so that whoever ends the guest finds the whole of the file before
        part.write_text(Taken(samples, missed, cipher).text(), encoding="utf-8")
        part.replace(path)


if __name__ == "__main__":
    main()
