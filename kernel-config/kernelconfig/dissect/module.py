"""What a module's file says: values without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """A function that is in the file: inlined ones are not."""

    name: str
    section: str
    size: int
    """Bytes."""
    is_global: bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of the module."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Table:
    """The symbol table, counted as ``objdump -t`` and ``nm -g`` list it, without the names of padding."""

    entries: int
    globals: int
    """Defined in the module, and visible to the linker."""
    global_functions: int
    global_data: Mapping[str, int]
    """Number of global symbols that are no functions, by section."""


@dataclass(frozen=True)
class Code:
    """What a disassembler saw."""

    instructions: int
    calls: int


@dataclass(frozen=True)
class Module:
    """One module."""

    path: str
    name: str
    machine: str
    """As uname -m calls it where Linux runs on it, else ELF's name."""
    file_bytes: int
    packing: str
    """plain, gzip, xz or zstd."""
    elf_bytes: int
    signature: str
    """How the module is signed; empty when it is not."""
    info: Mapping[str, tuple[str, ...]]
    """modinfo's fields."""
    parameters: tuple[Parameter, ...]
    sizes: Mapping[str, int]
    """Bytes in memory by kind: text, rodata, data, bss, init, exit and meta (what the kernel's loader and tracer
    read)."""
    functions: tuple[Function, ...]
    exported: tuple[str, ...]
    undefined: Mapping[str, int]
    """Symbols that the kernel or other modules provide, with the number of references (relocations)."""
    table: Table

    def field(self, name: str) -> str:
        """Return the first value of one of modinfo's fields, or an empty text."""
        return next(iter(self.info.get(name, ())), "")

    @property
    def depends(self) -> tuple[str, ...]:
        """Return the modules that modpost found this one to need."""
        return tuple(name.replace("-", "_") for name in self.field("depends").split(",") if name)

    @property
    def release(self) -> str:
        """Return the kernel that it was built for, from vermagic; empty when it does not say."""
        return self.field("vermagic").partition(" ")[0]
