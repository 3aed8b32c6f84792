"""The kernel's CCM and the programs' in the guest, whose kernel has it; a nanosecond there is one instruction."""

import shlex
import shutil
from pathlib import Path

from rt.ccm import programs
from rt.measure.results import DIRECTORY, MeasurementError
from tests.lab.basics import patience
from tests.lab.machines import guest

_MODULES = "algif_aead ccm aesni_intel ctr cbc"
_SECONDS = 1800.0
_PATIENCE = 20
"""The guest's time leaps while nothing runs."""


def lines(program: Path, sizes: tuple[int, ...]) -> list[programs.Line]:
    """Return what the program and the kernel take for messages of these sizes, once: instructions do not vary much."""
    folder = DIRECTORY / "ccm-guest"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, folder / "bench")
    (taken := folder / "taken").unlink(missing_ok=True)
    arguments = shlex.join(map(str, (1, *sizes)))
    commands = (
        f"modprobe -a {_MODULES}",
        f"export {patience.VARIABLE}={_PATIENCE}",
        f"/results/bench time {arguments} >/results/taken",
        f".venv/bin/python -m rt.ccm.kernel {arguments} >>/results/taken",
    )
    outcome = guest.run_in_guest("\n".join(commands), folder, seconds=_SECONDS, kernel="generic", deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")
    return programs.parsed(taken.read_text(encoding="ascii"))
