"""The programs that measure, built from this repository: with AES instructions, without, and for a bare machine."""

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rt.measure.results import MeasurementError
from tests.lab.basics.places import BUILD, REPOSITORY

_DAEMON = REPOSITORY / "daemon"
_SOFT = "--cfg aes_force_soft"
"""Makes the aes crate compute without the processor's AES instructions."""
_SOFT_OPENSSL = {"OPENSSL_ia32cap": "~0x200000200000000", "OPENSSL_armcap": "0"}
"""The same for OpenSSL: AES-NI and PCLMULQDQ of x86 (OPENSSL_ia32cap(3)), all extensions of Arm."""
_LOOPBACK = 'ip link set lo up && exec "$@"'
_QEMU = "qemu-system-x86_64"
_MACHINE = "microvm,isa-serial=on,pit=off,pic=off,rtc=off"
_DONE = 1
"""Status of QEMU when the program of the bare machine has come to its end: twice its own status, and one."""
_BOOT_SECONDS = 60.0
Line = dict[str, Any]


def built(*, soft: bool) -> Path:
    """Build the program that measures, and return it; ``soft``: without AES instructions."""
    target = BUILD / "ccm-soft" if soft else Path(os.environ.get("CARGO_TARGET_DIR", _DAEMON / "target"))
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), **({"RUSTFLAGS": _SOFT} if soft else {})}
    manifest = ["--manifest-path", str(_DAEMON / "Cargo.toml")]
    what = ["--release", "--locked", "--quiet", "--package", "aes_ccm", "--example", "bench"]
    subprocess.run(["cargo", "build", *manifest, *what], env=environment, check=True)
    return target / "release" / "examples" / "bench"


def lines(program: Path, *arguments: object, soft: bool = False) -> list[Line]:
    """Run the program, and return the objects that it prints."""
    return _lines([str(program), *map(str, arguments)], soft=soft)


def lines_on_loopback(program: Path, *arguments: object) -> list[Line]:
    """Do the same in a network namespace that has nothing but its loopback device, and ends with the program."""
    return _lines(["unshare", "--net", "sh", "-c", _LOOPBACK, "sh", str(program), *map(str, arguments)])


def _lines(argv: Sequence[str], *, soft: bool = False) -> list[Line]:
    environment = {**os.environ, **(_SOFT_OPENSSL if soft else {})}
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"{' '.join(argv)}: status {done.returncode}")
    return parsed(done.stdout)


def parsed(text: str) -> list[Line]:
    """Return the objects of a program's output; a machine that was ended may leave half a line."""
    whole = (line for line in text.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n"))
    return [json.loads(line) for line in whole]


def versions() -> dict[str, str]:
    """Return the versions of what is compared, and of what emulates."""
    packages = tomllib.loads((_DAEMON / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    locked = {f"RustCrypto {one['name']}": one["version"] for one in packages if one["name"] in ("aes", "ccm")}
    return {**locked, "OpenSSL": _version("openssl", "version"), "QEMU": _version(_QEMU, "--version")}


def _version(*argv: str) -> str:
    if not shutil.which(argv[0]):
        return "not on PATH"
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.partition("\n")[0]


def bare_obstacle() -> str:
    """Return why no bare machine can be had here, else nothing."""
    if os.uname().machine != "x86_64":
        return f"the program for the bare machine is for x86_64, and this machine is {os.uname().machine}"
    return "" if shutil.which(_QEMU) else f"there is no {_QEMU} (Debian: qemu-system-x86)"


def lines_on_bare_machine(*, soft: bool) -> list[Line]:
    """Boot the program without an operating system, and return what it writes to its serial port.

    The machine is emulated, and a nanosecond of its clock is one instruction.
    """
    build = [str(_DAEMON / "bare" / "build"), str(BUILD / "bare")]
    kernel = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    processor = "max,-aes" if soft else "max"
    argv = [_QEMU, "-M", _MACHINE, "-cpu", processor, "-icount", "shift=0", "-m", "64", "-nodefaults", "-no-reboot"]
    argv += ["-display", "none", "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
    argv += ["-kernel", kernel]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_BOOT_SECONDS
    )
    if done.returncode != _DONE:
        raise MeasurementError(f"the bare machine ended with {done.returncode}: {done.stdout[-500:]}{done.stderr}")
    return parsed(done.stdout)
