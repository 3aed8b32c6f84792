"""How fast this processor does the ciphers of ESP, measured once and kept: ``ciphers.json`` in the state directory.

The measure is OpenSSL's, on one processor. charon's ESP in user space uses the same library, and the kernel's ciphers
the same instructions.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.backends.openssl import backend
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from meshsec import files
from meshsec.core.policy.esp_rank import Rates

PACKET = bytes(1400)
"""User data of a packet on a link of 1500 octets."""

SECONDS = 0.005
"""Of processor time in one measurement, so that what others take meanwhile does not count; the best of several."""
_TIMES = 3
_MODE = 0o644
_LIMIT = 64 * 1024
_PROCESSOR = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "CPU revision", "Features")
"""Lines of /proc/cpuinfo that tell one kind of processor from another."""

_Encrypt = Callable[[bytes, bytes, bytes | None], bytes]

_log = logging.getLogger(__name__)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """What was measured, and on what: with another processor or library it is measured again."""

    processor: str
    library: str
    rates: dict[str, float]


def rates(path: Path) -> Rates:
    """Octets a second by cipher: those that were measured before, else measured now and kept (50 ms)."""
    processor, library = _processor(Path("/proc/cpuinfo")), backend.openssl_version_text()
    if (kept := _kept(path)) and (kept.processor, kept.library) == (processor, library):
        return kept.rates
    found = _measured()
    _log.info("ESP ciphers, megabytes a second: %s", ", ".join(f"{n} {r / 1e6:.0f}" for n, r in found.items()))
    try:
        files.make_directory(path.parent)
        files.write(path, msgspec.json.format(msgspec.json.encode(_File(processor, library, found))) + b"\n", _MODE)
    except files.FileError as error:
        _log.warning("%s; the ciphers are measured again at the next start", error)
    return found


def _kept(path: Path) -> _File | None:
    """Nothing where there is no file, or one that is none of ours: it can be made again."""
    try:
        return msgspec.json.decode(files.read(path, _LIMIT), type=_File) if files.exists(path) else None
    except (files.FileError, msgspec.MsgspecError) as error:
        _log.warning("%s: %s; measuring again", path, error)
        return None


def _processor(path: Path) -> str:
    """The first processor's kind."""
    first = path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    return "\n".join(line for line in first.splitlines() if line.partition("\t")[0].strip(": ") in _PROCESSOR)


def _ciphers() -> dict[str, _Encrypt]:
    return {
        "aes256gcm16": AESGCM(bytes(32)).encrypt,
        "chacha20poly1305": ChaCha20Poly1305(bytes(32)).encrypt,
        "aes128gcm16": AESGCM(bytes(16)).encrypt,
    }


def _measured() -> dict[str, float]:
    """By turns: a clock that is raised or lowered meanwhile concerns all."""
    rounds = [{name: _rate(encrypt) for name, encrypt in _ciphers().items()} for _ in range(_TIMES)]
    return {name: max(one[name] for one in rounds) for name in rounds[0]}


def _rate(encrypt: _Encrypt) -> float:
    nonce, done, begin = bytes(12), 0, time.thread_time()
    while (took := time.thread_time() - begin) < SECONDS:
        encrypt(nonce, PACKET, None)
        done += 1
    return done * len(PACKET) / took
