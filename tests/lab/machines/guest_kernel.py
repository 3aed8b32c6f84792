"""A kernel for the guest: an unpacked Debian package, and the initramfs that finds the guest's root with it."""

import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.lab.basics.shell import run

KINDS = ("rt", "generic")
PROGRAMS = ("modprobe", "depmod", "dpkg-deb", "cpio")
BUSYBOX = Path("/bin/busybox")
_INIT = Path(__file__).parent / "scripts" / "init"
_ROOT_MODULES = ("9p", "9pnet_virtio", "virtio_pci", "virtio_blk", "ext4")


class KernelTreeError(Exception):
    """A directory is not an unpacked kernel package."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package."""

    release: str
    tree: Path

    @classmethod
    def of_tree(cls, tree: Path) -> Self:
        """Return the kernel of the package unpacked in ``tree``. Raises KernelTreeError."""
        images = sorted((tree / "boot").glob("vmlinuz-*"))
        if len(images) != 1:
            raise KernelTreeError(
                f"{tree}: {len(images)} files boot/vmlinuz-*, expected an unpacked kernel package with one"
            )
        kernel = cls(images[0].name.removeprefix("vmlinuz-"), tree)
        if not (kernel.modules / kernel.release).is_dir():
            raise KernelTreeError(
                f"{tree}: no modules of {kernel.release}, expected below usr/lib/modules or lib/modules"
            )
        return kernel

    @property
    def image(self) -> Path:
        """Return the path of the image that QEMU boots."""
        return self.tree / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """Return the path of what the guest has as /lib/modules; Debian 13 packages it below /usr."""
        merged = self.tree / "usr" / "lib" / "modules"
        return merged if merged.is_dir() else self.tree / "lib" / "modules"

    def initramfs(self, cache: Path) -> Path:
        """Return the path of the initramfs; make it in ``cache`` first where it is missing."""
        modules = self._root_modules()
        digest = hashlib.sha256(_INIT.read_bytes())
        for path in (*modules, BUSYBOX):
            digest.update(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
        archive = cache / f"initramfs-{self.release}-{digest.hexdigest()[:16]}.cpio"
        if not archive.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as directory:
                _pack(Path(directory), modules).rename(archive)
        return archive

    def _root_modules(self) -> list[Path]:
        """Return each module once, after those that it depends on."""
        index(self.modules, self.release)
        prefix = self.modules.parents[1]
        files: dict[Path, None] = {}
        for name in _ROOT_MODULES:
            shown = run(["modprobe", "-d", str(prefix), "-S", self.release, "--show-depends", name]).stdout
            files.update((Path(line.split()[1]), None) for line in shown.splitlines() if line.startswith("insmod"))
        return list(files)


def unpack(package: Path, tree: Path) -> None:
    """Unpack a kernel's .deb into ``tree``, index its modules and delete the .deb."""
    run(["dpkg-deb", "--extract", str(package), str(tree)], timeout=300)
    kernel = Kernel.of_tree(tree)
    index(kernel.modules, kernel.release)
    package.unlink()


def index(modules: Path, release: str) -> None:
    """Write what modprobe reads, which a package leaves to its installation."""
    if not (modules / release / "modules.dep.bin").exists():
        run(["depmod", "-b", str(modules.parents[1]), release], timeout=300)


def _pack(directory: Path, modules: list[Path]) -> Path:
    root = directory / "root"
    for name in ("bin", "modules", "proc", "dev", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy2(BUSYBOX, root / "bin" / "busybox")
    shutil.copy2(_INIT, root / "init")
    (root / "init").chmod(0o755)
    for number, module in enumerate(modules):
        (root / "modules" / f"{number:03}.ko").write_bytes(_uncompressed(module))
    names = "\n".join(os.fspath(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = directory / "packed"
    with packed.open("wb") as archive:
        argv = ["cpio", "--quiet", "-o", "-H", "newc"]
        subprocess.run(argv, cwd=root, input=names.encode(), stdout=archive, check=True, timeout=60)
    return packed


def _uncompressed(module: Path) -> bytes:
    """Return the module uncompressed: Debian 13 compresses modules, and busybox cannot load those."""
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content
