"""Who provides each symbol, as the installed kernel's own files say.

`modules.symbols` and `modules.dep` are what depmod writes and modprobe goes by. What the kernel itself exports is in
`Module.symvers` of its headers, in a System.map with symbols, or in the image that boots.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelconfig.dissect import image, unpack
from kernelconfig.dissect.grouping import KERNEL, UNKNOWN
from kernelconfig.dissect.module import Module
from kernelconfig.files import UnreadableError

INSTALLED = (Path("/lib/modules"), Path("/usr/lib/modules"))
_ALIAS = re.compile(r"^alias symbol:(\S+) (\S+)$", re.MULTILINE)
_EXPORTED = re.compile(r"^[0-9a-f]+ [A-Za-z?] __ksymtab_(\w+)$", re.MULTILINE)
_VERSIONS = re.compile(r"^0x[0-9a-f]+\t(\S+)\tvmlinux\t", re.MULTILINE)


@dataclass(frozen=True)
class Tree:
    """An installed kernel: its modules, and what it exports."""

    directory: Path
    """Such as /lib/modules/6.12.118+deb13-amd64."""
    modules: Mapping[str, str]
    """The module that exports each symbol."""
    needs: Mapping[str, tuple[str, ...]]
    """All modules that each module needs, directly or not."""
    kernel: frozenset[str] | None
    """What the kernel exports; None when no file says it."""
    source: str
    """The file that says what the kernel exports, or why none does."""

    @property
    def release(self) -> str:
        """Return the kernel's release."""
        return self.directory.name

    def provider(self, symbol: str) -> str:
        """Return the module that exports a symbol, ``vmlinux`` or ``unknown``.

        Without a list of the kernel's exports, what no module exports counts as the kernel's: nothing else is left.
        """
        if found := self.modules.get(symbol):
            return found
        return KERNEL if self.kernel is None or symbol in self.kernel else UNKNOWN


def tree_of(module: Module, named: Path | None, machine: str) -> Tree | str:
    """Return the kernel that a module belongs to, or why it is not at hand.

    ``named`` is what the user named: a modules directory, or the root of an unpacked package. Without it, the kernel is
    the one whose directory the module is in, or that is installed; ``machine`` is this machine's, as uname -m has it.
    Raises UnreadableError when the kernel was named and is another one.
    """
    release = module.release
    if named:
        return read_tree(_named(named, release, module.path))
    around = _around(Path(module.path), release)
    if around:
        return read_tree(around)
    if machine != module.machine:
        return f"the module is for {module.machine} and this machine is {machine}; name its kernel: --kernel DIRECTORY"
    here = next((place / release for place in INSTALLED if release and _is_tree(place / release)), None)
    if here:
        return read_tree(here)
    return f"kernel {release or 'of unknown release'} is not installed here; name its kernel: --kernel DIRECTORY"


@lru_cache(maxsize=4)
def read_tree(directory: Path) -> Tree:
    """Return an installed kernel. Raises UnreadableError."""
    modules = dict(_ALIAS.findall(_text(directory / "modules.symbols")))
    needs = dict(_dependencies(_text(directory / "modules.dep")))
    kernel, source = _exports(directory)
    return Tree(directory, modules, needs, kernel, source)


def _named(named: Path, release: str, path: str) -> Path:
    places = (named, named / release, *(named / part / "modules" / release for part in ("lib", "usr/lib")))
    found = next((place for place in places if _is_tree(place)), None)
    if found is None:
        raise UnreadableError(
            f"{named}: has no modules.symbols for kernel {release!r}; allowed is a modules directory or the root of an"
            f" unpacked kernel package; after unpacking: depmod -b {named}/usr {release}"
        )
    if found.resolve().name != release:
        raise UnreadableError(
            f"{path}: was built for kernel {release!r}, and {named} is {found.resolve().name!r}; name the kernel that"
            f" it belongs to: --kernel /lib/modules/{release}"
        )
    return found.resolve()


def _around(path: Path, release: str) -> Path | None:
    """Return the modules directory that a file is in."""
    return next((parent for parent in path.resolve().parents if parent.name == release and _is_tree(parent)), None)


def _is_tree(place: Path) -> bool:
    return (place / "modules.symbols").is_file()


def _text(path: Path) -> str:
    return unpack.read_bounded(path).decode("utf-8", "replace")


def _dependencies(text: str) -> list[tuple[str, tuple[str, ...]]]:
    pairs = (line.partition(":")[::2] for line in text.splitlines())
    return [(_name(path), tuple(_name(other) for other in others.split())) for path, others in pairs]


def _name(path: str) -> str:
    return Path(path).name.split(".")[0].replace("-", "_")


def _exports(directory: Path) -> tuple[frozenset[str] | None, str]:
    """Return what the kernel exports, and the file that says so."""
    release = directory.name
    boots = [directory, *(parent / "boot" for parent in directory.parents[2:4])]
    symvers = directory / "build" / "Module.symvers"
    maps = [(symvers, _VERSIONS), *((boot / f"System.map-{release}", _EXPORTED) for boot in boots)]
    for path, form in maps:
        if path.is_file() and (names := frozenset(form.findall(_text(path)))):
            return names, str(path)
    for path in (boot / name for boot in boots for name in (f"vmlinuz-{release}", "vmlinuz")):
        if path.is_file() and (names := _of_image(path)):
            return names, str(path)
    return None, "no Module.symvers, System.map or image of it; what no module exports is taken for the kernel's"


def _of_image(path: Path) -> frozenset[str]:
    try:
        return image.exports(unpack.read_bounded(path))
    except image.UnknownImageError:
        return frozenset()
