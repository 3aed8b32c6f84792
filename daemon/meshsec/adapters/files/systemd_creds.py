"""Seal secrets by this machine's TPM, with systemd-creds(1): what is sealed here can be opened here alone."""

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from meshsec.files import FileError

VARIABLE = "SYSTEMD_TPM2_DEVICE"
"""systemd's variable that names another TPM than the kernel's first one."""
_PROGRAM = "systemd-creds"
_MINIMUM = 250
_DEVICE = Path("/dev/tpmrm0")
"""The kernel's TPM 2.0, shared by its resource manager. A TPM 1.2 has none."""
_PCR = 23
"""A register that neither firmware nor Debian measures into, so that no update changes it. systemd 252 cannot open what
is sealed without any (ADR 0102).
"""
SHUTDOWN = bytes.fromhex("8001 0000000c 00000145 0000")
"""TPM2_Shutdown(CLEAR): tag, size, command, type (TCG TPM 2.0 Library, part 3, section 9.4)."""
_RESPONSE = 4096
_NAME = "meshsec"
"""The name inside of what is sealed. It is no file's name, because a key moves to another one (ADR 0041)."""
_SECONDS = 60.0
"""Time limit for a TPM that does not answer. A slow one takes two seconds."""
_PROGRAMS_MISSING = re.compile(r"not (installed|supported)|libtss2", re.IGNORECASE)
_INSTALL = "apt install libtss2-esys-3.0.2-0 libtss2-rc0 libtss2-tcti-device0"


class SealError(FileError):
    """The TPM, or what leads to it, refuses. The message says why, and how to fix it."""


def has_tpm() -> bool:
    """Return whether this machine has a TPM 2.0."""
    return bool(os.environ.get(VARIABLE)) or _DEVICE.exists()


def obstacle() -> str | None:
    """Return why nothing can be sealed on this machine, and how to change that; None if it can."""
    version = _version()
    if version < _MINIMUM:
        found = f"it has {version}" if version else f"{_PROGRAM} is missing"
        return f"keys are sealed by systemd {_MINIMUM} or newer, and {found}"
    if not has_tpm():
        return f"this machine has no TPM 2.0 ({_DEVICE}); switch it on in the firmware's set-up, if it has one"
    return None


def seal(secret: bytes) -> bytes:
    """Return the secret as only this machine's TPM opens it. Raises SealError."""
    return _run("encrypt", "--with-key=tpm2", f"--tpm2-pcrs={_PCR}", content=secret)


def unseal(sealed: bytes) -> bytes:
    """Return what was sealed. Raises SealError."""
    return _run("decrypt", content=sealed)


def _version() -> int:
    """Return systemd's version; 0 without the program."""
    if shutil.which(_PROGRAM) is None:
        return 0
    said = subprocess.run([_PROGRAM, "--version"], capture_output=True, text=True, check=False, timeout=_SECONDS)
    found = re.match(r"systemd (\d+)", said.stdout)
    return int(found[1]) if found else 0


def _run(verb: str, *options: str, content: bytes) -> bytes:
    argv = [_PROGRAM, verb, *options, f"--name={_NAME}", "-", "-"]
    try:
        done = subprocess.run(argv, input=content, capture_output=True, check=False, timeout=_SECONDS)
    except OSError as error:
        raise SealError(f"{_PROGRAM}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SealError(f"the TPM did not answer within {_SECONDS:.0f} s") from error
    finally:
        _expect_power_cut()
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        reason = said.splitlines()[-1] if said else f"exit status {done.returncode}"
        fix = f"; fix: {_INSTALL}" if _PROGRAMS_MISSING.search(said) else ""
        raise SealError(f"the TPM refuses ({_PROGRAM} {verb}: {reason}){fix}")
    return done.stdout


def _expect_power_cut() -> None:
    """Tell the TPM that it may be switched off at any time, as vehicles are.

    Without that it takes each time for an attempt to guess, and locks itself after some. So a failure does no harm yet.
    """
    if VARIABLE in os.environ:
        return
    with suppress(OSError), _DEVICE.open("r+b", buffering=0) as device:
        device.write(SHUTDOWN)
        device.read(_RESPONSE)
