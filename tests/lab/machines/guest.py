"""A QEMU guest with a Debian 13 root, Debian's RT or ordinary kernel, and this tree.

This machine's kernel may lack ESP, 802.11s and PREEMPT_RT; Debian's has them. The guest boots straight into one
command, so the same scenario runs here and there. It has a copy of the tree and its own root, whose changes are thrown
away; one folder for results is this machine's. It is emulated (TCG) unless the environment says otherwise, because a
/dev/kvm that answers may still hang in its first instruction on a nested host. Emulation is 10 to 50 times slower than
the host.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import guest_kernel, guest_root
from tests.lab.machines.guest_kernel import Kernel
from tests.lab.machines.guest_root import CACHE, Built

KERNEL_VARIABLE = "MESHSEC_LAB_KERNEL"
"""The directory of an unpacked kernel package that is booted instead of Debian's RT kernel."""
ACCELERATOR_VARIABLE = "MESHSEC_LAB_ACCELERATOR"
"""QEMU's accelerator; ``kvm`` where it is known to work."""
_PROGRAMS = ("qemu-system-x86_64", "setpriv", *guest_root.PROGRAMS, *guest_kernel.PROGRAMS)
MEMORY_MIB = 3072
_KERNEL_ARGUMENTS = ("console=ttyS0", "quiet", "panic=-1", "mitigations=off", "tsc=reliable", "nowatchdog")
_LEFT_OUT = {".git", ".venv", "target", "__pycache__", ".hypothesis"}
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny"
_REAL_TIME = ("-M", "q35,pit=off")
"""Without a PIT: the kernel measures the TSC's rate by it first, which goes wrong when this machine has no time for the
guest just then (a clock 13 times too fast was seen). By the HPET, taken instead, it was 24 % too fast. So the clock is
the ACPI timer, whose rate is fixed."""
_REAL_CLOCK = ("clocksource=acpi_pm",)
_DETERMINISTIC = (
    *("-M", "q35"),
    *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
    *("-rtc", "base=2026-01-01T00:00:00,clock=vm"),
)


@dataclass(frozen=True)
class Outcome:
    """The result of the command in the guest; ``console`` is the kernel's."""

    status: int | None
    """The exit status; None when the guest did not get to the end."""
    output: str
    console: str


class GuestDiedError(Exception):
    """The guest did not get to the end of its command; its console may say why."""


def obstacle() -> str | None:
    """Return why this machine cannot run the guest, or None."""
    if platform.machine() != "x86_64":
        return f"the guest is for x86_64, this is {platform.machine()}"
    if os.geteuid() != 0:
        return "the guest's root is built and shared by root"
    missing = [program for program in dict.fromkeys(_PROGRAMS) if shutil.which(program) is None]
    if not guest_kernel.BUSYBOX.exists():
        missing.append(str(guest_kernel.BUSYBOX))
    return f"not installed: {' '.join(missing)}" if missing else None


def prepare() -> Built:
    """Build the root and fetch the kernels, unless that was done. Report progress on standard error."""
    return guest_root.built(lambda text: print(f"guest: {text}", file=sys.stderr, flush=True))


def run_in_guest(
    command: str,
    results: Path,
    *,
    seconds: float,
    kernel: str = "rt",
    arguments: Sequence[str] = (),
    deterministic: bool = False,
    devices: Sequence[str] = (),
) -> Outcome:
    """Boot the guest, run the shell ``command`` in the tree and power off.

    ``results`` is /results inside, writable; the command's output and the kernel's log are left there.
    ``seconds`` bounds the whole, by this machine's clock. ``kernel`` is ``rt`` or ``generic``, ``arguments`` are more
    of the kernel's, ``devices`` more of QEMU's. ``deterministic`` lets time follow the executed instructions: intervals
    repeat from run to run, and count instructions rather than hardware latency. It has one CPU, because the kernel
    patches its own code while captures come and go, and an emulated second CPU may run into a breakpoint of that after
    it is gone ("Oops: int3").
    """
    root = prepare()
    results.mkdir(parents=True, exist_ok=True)
    (results / "command").write_text(command, encoding="utf-8")
    (results / "status").unlink(missing_ok=True)
    with root.in_use(), tempfile.TemporaryDirectory(dir=CACHE) as directory:
        booted, initrd = chosen(root, kernel), Path(directory) / "initrd"
        shutil.copy(booted.initramfs(CACHE), initrd)
        _append_tree(initrd)
        machine = _machine(root, booted, initrd, results)
        real_time = [*_REAL_TIME, "-accel", _accelerator()]
        timing = _DETERMINISTIC if deterministic else real_time
        further = ("nokaslr",) if deterministic else _REAL_CLOCK
        argv = [*machine, *devices, *timing, "-smp", "1", "-append", _arguments([*arguments, *further])]
        console = _boot(argv, seconds)
    (results / "console").write_text(console, encoding="utf-8")
    return Outcome(_status(results / "status"), _text(results / "output"), console)


def chosen(root: Built, kind: str) -> Kernel:
    """Return the kernel of a kind; the environment may replace ``rt``. Raises KernelTreeError."""
    own = os.environ.get(KERNEL_VARIABLE)
    return Kernel.of_tree(Path(own)) if own and kind == "rt" else root.kernel(kind)


def _machine(root: Built, kernel: Kernel, initrd: Path, results: Path) -> list[str]:
    argv = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-sandbox", _SANDBOX, "-cpu", "max"]
    argv += ["-m", str(MEMORY_MIB), "-nographic", "-no-reboot", "-nic", "none"]
    argv += ["-kernel", str(kernel.image), "-initrd", str(initrd)]
    argv += ["-drive", f"file={root.image},if=virtio,format=raw,snapshot=on"]
    share = "security_model=none,multidevs=remap"
    argv += ["-virtfs", f"local,path={kernel.modules},mount_tag=modules,{share},readonly=on"]
    return [*argv, "-virtfs", f"local,path={results},mount_tag=results,{share}"]


def _append_tree(archive: Path) -> None:
    """Append this tree to an initramfs as /tree, without caches, history and build results other than programs."""
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        copy = Path(directory) / "tree"
        shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=_left_out, copy_function=_copy)
        names = ["tree", *(os.fspath(path.relative_to(directory)) for path in sorted(copy.rglob("*")))]
        with archive.open("ab") as file:
            argv = ["cpio", "--quiet", "-o", "-H", "newc"]
            subprocess.run(argv, cwd=directory, input="\n".join(names).encode(), stdout=file, check=True, timeout=60)


def _left_out(directory: str, names: list[str]) -> set[str]:
    left_out = {name for name in names if name in _LEFT_OUT or name.endswith("_cache")}
    return left_out | (set(names) - {"bin"} if Path(directory) == REPOSITORY / "build" else set())


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # A temporary file of an editor or a linter may have gone meanwhile.
        shutil.copy2(source, target)


def _accelerator() -> str:
    return os.environ.get(ACCELERATOR_VARIABLE, "tcg")


def _arguments(further: Sequence[str]) -> str:
    return " ".join((*_KERNEL_ARGUMENTS, f"REPOSITORY={REPOSITORY}", *further))


def _boot(argv: list[str], seconds: float) -> str:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        console, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        console, _ = process.communicate()
        console += f"\nthe guest was still running after {seconds:g} s".encode()
    finally:
        process.kill()
    return console.decode(errors="replace")


def _status(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
