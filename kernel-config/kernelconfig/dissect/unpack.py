"""The bytes of a module's file: plain, or unpacked from gzip, xz or Zstandard, with bounds."""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import zstandard

from kernelconfig.files import UnreadableError

LIMIT = 64 << 20
"""Bytes of a module, packed or not. The largest one of Debian's kernels (amdgpu) has some 20 MiB."""
_MEMORY = 256 << 20
"""Bytes that the xz decoder may take; the kernel's build uses a dictionary of 2 MiB, xz -9 needs 65 MiB."""
_WINDOW = 128 << 20
"""Bytes of a Zstandard window, as in ``zstd --ultra -22``."""
_STEP = 512
"""Bytes of Zstandard data that are unpacked at a time: a block of 4 bytes can be 128 KiB."""
ELF = b"\x7fELF"
_ALLOWED = "allowed is a module (.ko), plain or packed by gzip, xz or zstd"
_PACKED_WITH = {b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4", b"\x89LZO": "lzop", b"LZIP": "lzip"}


def read_module(path: Path) -> tuple[bytes, int, str]:
    """Return a module's ELF bytes, the length of its file, and how it is packed. Raises UnreadableError."""
    packed = read_bounded(path)
    how, unpacker = next(
        ((name, unpacker) for magic, name, unpacker in _UNPACKERS if packed.startswith(magic)), ("plain", None)
    )
    try:
        content = unpacker(packed) if unpacker else packed
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, MemoryError) as error:
        raise UnreadableError(
            f"{path}: its {how} data is damaged or cut off ({error}); copy it again, and try: {how} -t {path}"
        ) from error
    if len(content) > LIMIT:
        raise UnreadableError(f"{path}: unpacks to more than {LIMIT >> 20} MiB, which is what is allowed for a module")
    if not content.startswith(ELF):
        raise UnreadableError(f"{path}: {_what(content)}; {_ALLOWED}: modinfo -F filename NAME shows the file")
    return content, len(packed), how


def read_bounded(path: Path) -> bytes:
    """Return a file's bytes. Raises UnreadableError, also when it is longer than LIMIT."""
    try:
        if not path.is_file() and path.exists():
            raise UnreadableError(f"{path}: is no regular file; {_ALLOWED}: modinfo -F filename NAME shows the file")
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}; modinfo -F filename NAME shows a module's file") from error
    if len(content) > LIMIT:
        raise UnreadableError(f"{path}: is longer than {LIMIT >> 20} MiB, which is what is allowed")
    return content


def _what(content: bytes) -> str:
    if not content:
        return "is empty"
    known = next((name for magic, name in _PACKED_WITH.items() if content.startswith(magic)), None)
    return f"is packed by {known}" if known else f"is no ELF file, it begins with {content[:8].hex(' ')}"


def _gzip(packed: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        return file.read(LIMIT + 1)


def _xz(packed: bytes) -> bytes:
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)
    content = decoder.decompress(packed, LIMIT + 1)
    if not decoder.eof and len(content) <= LIMIT:
        raise EOFError("it ends early")
    return content


def _zstd(packed: bytes) -> bytes:
    decoder = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    content = bytearray()
    for start in range(0, len(packed), _STEP):
        content += decoder.decompress(packed[start : start + _STEP])
        if decoder.eof or len(content) > LIMIT:
            return bytes(content)
    raise EOFError("it ends early")


_UNPACKERS: tuple[tuple[bytes, str, Callable[[bytes], bytes]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\xfd7zXZ\x00", "xz", _xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
)
