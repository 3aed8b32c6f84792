"""A module's ELF file (gABI, and the kernel's include/linux/module.h), read with bounds.

The file is not trusted: every offset, count and name is checked before it is used. pyelftools decodes the structures;
its conveniences for names, hash tables and compressed sections follow what the file says without a bound, so they are
left alone.
"""

import io
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from kernelconfig.dissect import unpack
from kernelconfig.dissect.module import Function, Module, Parameter, Table
from kernelconfig.files import UnreadableError

_SECTIONS = 4096
_SYMBOLS = 100_000
_RELOCATIONS = 2_000_000
"""Bounds of one module; the largest one of Debian's (amdgpu) has some 60,000 symbols and 500,000 relocations."""
_INFORMATION = 1 << 20
"""Bytes of .modinfo; the longest one of Debian's has some 50,000."""
_NAME = 512
"""Bytes of a name: KSYM_NAME_LEN."""
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_GLOBAL = ("STB_GLOBAL", "STB_WEAK", "STB_GNU_UNIQUE")
_IDENTIFIED = ".gnu.linkonce.this_module"
_PADDING = "__pfx_"
"""Before a function's name: room in front of it for patches at run time (CONFIG_CALL_PADDING), not a function."""
_SIGNED = b"~Module signature appended~\n"
_SIGNATURE = struct.Struct(">5B3xI")
"""module_signature: algorithm, hash, kind, lengths of signer and key, and length of the signature."""
_MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i686",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "arm",
    "EM_RISCV": "riscv64",
    "EM_PPC64": "ppc64",
    "EM_MIPS": "mips",
    "EM_S390": "s390x",
}
_META = (".modinfo", "__versions", "__patchable_function_entries", "__mcount_loc", "__bug_table", ".orc_",
         ".return_sites", ".retpoline_sites", ".call_sites", ".ibt_endbr_seal", ".static_call_sites", ".altinst",
         ".note", ".gnu.linkonce", "___ksymtab", "__ksymtab", "__kcrctab", ".smp_locks", "__jump_table", "__tracepoint",
         "_ftrace_events", "__dyndbg", ".parainstructions")  # fmt: skip
"""Beginnings of names of sections that serve the loader, the tracer and run-time patching."""


class _DamagedError(Exception):
    """The file contradicts itself."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: str
    flags: int
    offset: int
    size: int
    entry: int
    link: int
    info: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    kind: str
    bind: str
    section: int | str
    size: int

    @property
    def is_function(self) -> bool:
        """Return whether a function of the module has this symbol."""
        return self.kind == "STT_FUNC" and self.section != "SHN_UNDEF" and not self.is_padding

    @property
    def is_padding(self) -> bool:
        """Return whether the symbol is of the room in front of a function."""
        return self.name.startswith(_PADDING)


def read(path: Path) -> Module:
    """Return what a module's file says. Raises UnreadableError."""
    content, file_bytes, packing = unpack.read_module(path)
    try:
        return _Reader(content).module(path, file_bytes, packing)
    except _DamagedError as error:
        raise UnreadableError(f"{path}: {error}; {_remedy(path)}") from error
    except (ELFError, struct.error, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UnreadableError(f"{path}: its ELF headers are damaged ({error}); {_remedy(path)}") from error


def _remedy(path: Path) -> str:
    return f"allowed is a whole kernel module, as depmod and modprobe take it: modinfo {path}"


class _Reader:
    """One file's sections and symbols."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._file = io.BytesIO(content)
        self._elf = ELFFile(self._file)
        if self._elf["e_type"] != "ET_REL":
            raise _DamagedError(f"is an ELF file of type {self._elf['e_type']}, and a module has ET_REL")
        self._sections = self._read_sections()

    def module(self, path: Path, file_bytes: int, packing: str) -> Module:
        info = self._modinfo()
        symbols = list(self._read_symbols())
        return Module(
            path=str(path),
            name=next(iter(info.get("name", ())), "") or path.name.split(".")[0].replace("-", "_"),
            machine=_machine(self._elf["e_machine"]),
            file_bytes=file_bytes,
            packing=packing,
            elf_bytes=len(self._content),
            signature=_signature(self._content),
            info=info,
            parameters=tuple(_parameters(info)),
            sizes=self._sizes(),
            functions=tuple(self._functions(symbols)),
            exported=_exported(symbols),
            undefined=self._undefined(symbols),
            table=self._table(symbols),
        )

    def _read_sections(self) -> list[_Section]:
        elf, count = self._elf, self._elf["e_shnum"]
        start, step = elf["e_shoff"], elf["e_shentsize"]
        if not 0 < count <= _SECTIONS or step < elf.structs.Elf_Shdr.sizeof():
            raise _DamagedError(f"has {count} sections of {step} bytes in its header, allowed are 1 to {_SECTIONS}")
        if start + count * step > len(self._content):
            raise _DamagedError(f"ends after {len(self._content)} bytes, and its sections are listed at {start}")
        headers = [struct_parse(elf.structs.Elf_Shdr, self._file, start + number * step) for number in range(count)]
        strings = elf["e_shstrndx"]
        if strings >= count:
            raise _DamagedError(f"takes names from section {strings} of {count}")
        names = self._bytes(headers[strings]["sh_offset"], headers[strings]["sh_size"])
        return [
            _Section(
                _text(names, header["sh_name"]),
                str(header["sh_type"]),
                *(header[f"sh_{key}"] for key in ("flags", "offset", "size", "entsize", "link", "info")),
            )
            for header in headers
        ]

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._content):
            raise _DamagedError(
                f"ends after {len(self._content)} bytes, and a section takes {size} bytes from {offset} on"
            )
        return self._content[offset : offset + size]

    def _find(self, name: str) -> _Section:
        found = next((section for section in self._sections if section.name == name), None)
        if found is None:
            raise _DamagedError(f"is an object file without {name}, so it is no module")
        return found

    def _modinfo(self) -> dict[str, tuple[str, ...]]:
        self._find(_IDENTIFIED)
        section = self._find(".modinfo")
        if section.size > _INFORMATION:
            raise _DamagedError(f"has {section.size} bytes of .modinfo, allowed are {_INFORMATION}")
        fields: dict[str, list[str]] = {}
        for entry in self._bytes(section.offset, section.size).decode("utf-8", "replace").split("\0"):
            key, equals, value = entry.partition("=")
            if equals:
                fields.setdefault(_plain(key), []).append(_plain(value))
        return {key: tuple(values) for key, values in fields.items()}

    def _read_symbols(self) -> Iterator[_Symbol]:
        tables = [section for section in self._sections if section.kind == "SHT_SYMTAB"]
        if len(tables) != 1:
            raise _DamagedError(f"has {len(tables)} symbol tables, and a module has one")
        (table,) = tables
        form = self._elf.structs.Elf_Sym
        count = table.size // form.sizeof()
        if count > _SYMBOLS or table.entry != form.sizeof() or table.link >= len(self._sections):
            raise _DamagedError(
                f"has a symbol table of {count} entries; allowed are {_SYMBOLS}, of {form.sizeof()} bytes"
            )
        entries = io.BytesIO(self._bytes(table.offset, table.size))
        strings = self._sections[table.link]
        names = self._bytes(strings.offset, strings.size)
        for _ in range(count):
            entry = struct_parse(form, entries)
            kind, bind = entry["st_info"]["type"], entry["st_info"]["bind"]
            yield _Symbol(_text(names, entry["st_name"]), str(kind), str(bind), entry["st_shndx"], entry["st_size"])

    def _section_of(self, symbol: _Symbol) -> str:
        number = symbol.section
        if isinstance(number, int):
            return self._sections[number].name if number < len(self._sections) else ""
        return {"SHN_ABS": "*ABS*", "SHN_COMMON": "*COM*"}.get(number, "")

    def _functions(self, symbols: list[_Symbol]) -> Iterator[Function]:
        for symbol in symbols:
            if symbol.is_function:
                yield Function(symbol.name, self._section_of(symbol), symbol.size, symbol.bind in _GLOBAL)

    def _undefined(self, symbols: list[_Symbol]) -> dict[str, int]:
        references = self._references()
        return {
            symbol.name: references[number]
            for number, symbol in enumerate(symbols)
            if symbol.section == "SHN_UNDEF" and symbol.name
        }

    def _references(self) -> Counter[int]:
        """Return how many relocations of what is loaded refer to each symbol, by its number."""
        found: Counter[int] = Counter()
        left = _RELOCATIONS
        for section in self._sections:
            if section.kind not in {"SHT_RELA", "SHT_REL"} or not self._is_loaded(section.info):
                continue
            form, shift, mask = self._relocation(section.kind)
            left -= section.size // form.size
            if left < 0 or section.size % form.size:
                raise _DamagedError(f"has relocations of {section.size} bytes in {section.name!r}; allowed are "
                                    f"{_RELOCATIONS} in all, of {form.size} bytes")  # fmt: skip
            data = self._bytes(section.offset, section.size)
            found.update((entry[1] >> shift) & mask for entry in form.iter_unpack(data))
        return found

    def _is_loaded(self, number: int) -> bool:
        """Return whether a section is code or data of the driver: what describes them refers to them again."""
        if number >= len(self._sections):
            return False
        section = self._sections[number]
        return bool(section.flags & _ALLOC) and not section.name.startswith(_META)

    def _relocation(self, kind: str) -> tuple[struct.Struct, int, int]:
        """Return the form of an entry, and where the symbol's number is in its second word."""
        order = "<" if self._elf.little_endian else ">"
        wide = self._elf.elfclass == 64
        words = ("QQ", "q") if wide else ("II", "i")
        form = struct.Struct(order + words[0] + (words[1] if kind == "SHT_RELA" else ""))
        if wide and self._elf["e_machine"] == "EM_MIPS" and self._elf.little_endian:
            return form, 0, 0xFFFFFFFF  # Its r_info is a structure of its own, with the symbol first.
        return (form, 32, 0xFFFFFFFF) if wide else (form, 8, 0xFFFFFF)

    def _sizes(self) -> dict[str, int]:
        sizes = dict.fromkeys(("text", "rodata", "data", "bss", "init", "exit", "meta"), 0)
        for section in self._sections:
            if section.flags & _ALLOC:
                sizes[_kind(section)] += section.size
        return sizes

    def _table(self, symbols: list[_Symbol]) -> Table:
        counted = [symbol for symbol in symbols[1:] if not symbol.is_padding]
        ours = [symbol for symbol in counted if symbol.section != "SHN_UNDEF" and symbol.bind in _GLOBAL]
        functions = sum(symbol.is_function for symbol in ours)
        data = Counter(self._section_of(symbol) for symbol in ours if not symbol.is_function)
        return Table(len(counted), len(ours), functions, dict(sorted(data.items())))


def _kind(section: _Section) -> str:
    for beginning in ("init", "exit"):
        if section.name.startswith(f".{beginning}."):
            return beginning
    if section.name.startswith(_META):
        return "meta"
    if section.kind == "SHT_NOBITS":
        return "bss"
    if section.flags & _EXECUTE:
        return "text"
    return "data" if section.flags & _WRITE else "rodata"


def _exported(symbols: list[_Symbol]) -> tuple[str, ...]:
    """Return the symbols that other modules may use: modpost gives each an entry in the ksymtab."""
    prefix = "__ksymtab_"
    names = {symbol.name.removeprefix(prefix) for symbol in symbols if symbol.name.startswith(prefix)}
    return tuple(sorted(names - {"", "strings"}))


def _parameters(info: dict[str, tuple[str, ...]]) -> Iterator[Parameter]:
    described = dict(text.partition(":")[::2] for text in info.get("parm", ()))
    types = dict(text.partition(":")[::2] for text in info.get("parmtype", ()))
    for name in sorted(types | described):
        yield Parameter(name, types.get(name, ""), described.get(name, ""))


def _signature(content: bytes) -> str:
    end = len(content) - len(_SIGNED)
    if not content.endswith(_SIGNED) or end < _SIGNATURE.size:
        return ""
    *_, length = fields = _SIGNATURE.unpack(content[end - _SIGNATURE.size : end])
    kind = {0: "PGP", 1: "X.509", 2: "PKCS#7"}.get(fields[2], f"kind {fields[2]}")
    return f"{kind}, {length} bytes"


def _machine(name: object) -> str:
    return _MACHINES.get(str(name), str(name).removeprefix("EM_"))


def _text(names: bytes, offset: int) -> str:
    """Return the name at an offset of a string table."""
    end = names.find(b"\0", offset, offset + _NAME + 1)
    if end < 0:
        raise _DamagedError(f"has a name at {offset} of a table of {len(names)} bytes that does not end within {_NAME}")
    return _plain(names[offset:end].decode("utf-8", "replace"))


def _plain(text: str) -> str:
    """Return a text that does nothing to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
