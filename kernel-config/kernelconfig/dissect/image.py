"""What a kernel's image exports: the names in its __ksymtab and __ksymtab_gpl.

Debian's System.map is empty and Module.symvers is in another package, but the image that boots has the table. Its form
is the x86 boot protocol's (Documentation/arch/x86/boot.rst, payload_offset), and the payload is an ELF file.
"""

import io
import lzma
import struct
import zlib
from collections.abc import Iterator

import zstandard
from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from kernelconfig.dissect import unpack

_MAGIC, _MAGIC_AT = b"HdrS", 0x202
_SETUP_SECTORS_AT, _PAYLOAD_AT = 0x1F1, 0x248
_LIMIT = 256 << 20
"""Bytes of the unpacked kernel; Debian's has some 60 MiB."""
_SECTIONS = 256
_TABLES = ("__ksymtab", "__ksymtab_gpl")
_ENTRY = struct.Struct("<iii")
"""kernel_symbol: distances to value, name and namespace (CONFIG_HAVE_ARCH_PREL32_RELOCATIONS)."""
_NAME_AT = 4
_LONGEST = 512


class UnknownImageError(Exception):
    """The file is no image of this form, or is damaged."""


def exports(content: bytes) -> frozenset[str]:
    """Return the names that the kernel in an image exports. Raises UnknownImageError."""
    if content[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise UnknownImageError
    offset, length = struct.unpack_from("<II", content, _PAYLOAD_AT)
    start = (content[_SETUP_SECTORS_AT] + 1) * 512 + offset
    try:
        return _names(_unpacked(content[start : start + length]))
    except (
        struct.error,
        lzma.LZMAError,
        zlib.error,
        zstandard.ZstdError,
        EOFError,
        ELFError,
        ValueError,
        KeyError,
    ) as error:
        raise UnknownImageError from error


def _unpacked(payload: bytes) -> bytes:
    if payload.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(memlimit=_LIMIT).decompress(payload, _LIMIT)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor(max_window_size=_LIMIT).stream_reader(payload).read(_LIMIT)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(payload, _LIMIT)
    raise UnknownImageError


def _names(kernel: bytes) -> frozenset[str]:
    if not kernel.startswith(unpack.ELF):
        raise UnknownImageError
    elf = ELFFile(io.BytesIO(kernel))
    count, form = elf["e_shnum"], elf.structs.Elf_Shdr
    if not 0 < count <= _SECTIONS or elf["e_shstrndx"] >= count:
        raise UnknownImageError
    headers = [struct_parse(form, elf.stream, elf["e_shoff"] + number * form.sizeof()) for number in range(count)]
    names = _data(kernel, headers[elf["e_shstrndx"]])
    found = {_name(names, header["sh_name"]): header for header in headers}
    strings = found["__ksymtab_strings"]
    return frozenset(
        _name(_data(kernel, strings), place - strings["sh_addr"])
        for table in _TABLES
        for place in _places(kernel, found[table])
    )


def _places(kernel: bytes, table: dict[str, int]) -> Iterator[int]:
    """Yield the address of each entry's name: each entry has it as a distance from the word that says so."""
    for number, (_, distance, _) in enumerate(_ENTRY.iter_unpack(_data(kernel, table))):
        yield table["sh_addr"] + number * _ENTRY.size + _NAME_AT + distance


def _name(names: bytes, offset: int) -> str:
    """Return a name of a table of strings, of which some are the ends of others."""
    end = names.find(b"\0", offset, offset + _LONGEST) if offset >= 0 else -1
    if end < 0:
        raise UnknownImageError
    return names[offset:end].decode("ascii")


def _data(kernel: bytes, header: dict[str, int]) -> bytes:
    return kernel[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]
