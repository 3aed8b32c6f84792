"""The kernel's CCM and the programs' in the guest, whose kernel has it; a nanosecond there is one instruction."""

import shlex
import shutil
from pathlib import Path

from rt.ccm import programs
from rt.measure import in_guest
from rt.measure.results import DIRECTORY, MeasurementError
from tests.lab.basics import patience
from tests.lab.machines import guest

_MODULES = "algif_aead ccm aesni_intel ctr cbc"
_FOLDER = DIRECTORY / "ccm-guest"
_SECONDS = 1800.0
_PATIENCE = 20
"""The guest's time leaps while nothing runs."""


def versions() -> dict[str, str]:
    """Return what the guest said of itself."""
    return in_guest.left(_FOLDER)


def lines(program: Path, sizes: tuple[int, ...]) -> list[programs.Line]:
    """Return what the program and the kernel take for messages of these sizes, once: instructions do not vary much."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, _FOLDER / "bench")
    (taken := _FOLDER / "taken").unlink(missing_ok=True)
    arguments = shlex.join(map(str, (1, *sizes)))
    commands = (
        in_guest.asking(),
        f"modprobe -a {_MODULES}",
        f"export {patience.VARIABLE}={_PATIENCE}",
        f"/results/bench time {arguments} >/results/taken",
        f".venv/bin/python -m rt.ccm.kernel {arguments} >>/results/taken",
    )
    outcome = guest.run_in_guest("\n".join(commands), _FOLDER, seconds=_SECONDS, kernel="generic", deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")
    return programs.parsed(taken.read_text(encoding="ascii"))
