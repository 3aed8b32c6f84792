"""The guest ground: a QEMU guest with Debian's own PREEMPT_RT kernel, whose root is this machine's, read-only.

The kernel here may lack ESP; Debian's has it. The guest boots straight into one command, run on the same tree with the
same programs, so that a scenario is written once and runs on either ground. It is emulated (TCG), because a /dev/kvm
that answers may still hang in its first instruction on a nested host, and so 10 to 50 times slower than the host.
"""

import lzma
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.shell import CommandError, run

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "build" / "guest"
SLOWNESS = 15
_KERNEL_PACKAGE = "linux-image-rt-amd64"
_ROOT_MODULES = ("9p", "9pnet_virtio", "virtio_pci", "overlay")
_PROGRAMS = ("qemu-system-x86_64", "apt-get", "dpkg-deb", "modprobe", "depmod", "cpio")
_BUSYBOX = Path("/bin/busybox")
_MEMORY_MIB = 3072


@dataclass(frozen=True)
class Kernel:
    """An unpacked Debian kernel with the initramfs that finds the host's root."""

    release: str
    tree: Path

    @property
    def image(self) -> Path:
        """What QEMU boots."""
        return self.tree / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """What the guest binds to /lib/modules."""
        return self.tree / "lib" / "modules" / self.release

    @property
    def initramfs(self) -> Path:
        """Made by ``prepare``."""
        return self.tree / "initramfs.cpio"


@dataclass(frozen=True)
class Outcome:
    """What the command in the guest came to; ``console`` is the kernel's."""

    status: int | None
    """None when the guest did not get to the end."""
    output: str
    console: str


def obstacle() -> str | None:
    """Why this machine cannot run the guest, or None."""
    if platform.machine() != "x86_64":
        return f"the guest shares this machine's root and needs x86_64, this is {platform.machine()}"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if not _BUSYBOX.exists():
        missing.append(str(_BUSYBOX))
    return f"not installed: {' '.join(missing)}" if missing else None


def prepare() -> Kernel:
    """Fetch and unpack the kernel and make its initramfs; cached by the kernel's release."""
    try:
        kernel = _kernel()
    except CommandError:  # the package lists are missing, or older than the archive
        run(["apt-get", "-q", "update"], timeout=600)
        kernel = _kernel()
    _make_initramfs(kernel)
    return kernel


def _kernel() -> Kernel:
    package = _kernel_package()
    kernel = Kernel(package.removeprefix("linux-image-"), CACHE / package)
    if not kernel.image.exists():
        _unpack(package, kernel.tree)
    return kernel


def run_in_guest(command: str, results: Path, *, seconds: float) -> Outcome:
    """Boot the guest, run the shell ``command`` in the tree and power off. ``results`` is /results inside, writable."""
    kernel = prepare()
    results.mkdir(parents=True, exist_ok=True)
    (results / "command").write_text(command, encoding="utf-8")
    (results / "status").unlink(missing_ok=True)
    console = _boot(_qemu(kernel, results), seconds)
    return Outcome(_status(results / "status"), _text(results / "output"), console)


def _kernel_package() -> str:
    """The package that Debian's meta package stands for now; raises CommandError when it is not known."""
    depends = run(["apt-cache", "--no-all-versions", "show", _KERNEL_PACKAGE]).stdout
    return next(word for word in depends.split() if word.startswith("linux-image-") and word != _KERNEL_PACKAGE)


def _unpack(package: str, tree: Path) -> None:
    fresh = tree.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    run(["sh", "-c", f"cd {shlex.quote(str(fresh))} && apt-get -q download {package}"], timeout=600)
    (archive,) = fresh.glob("*.deb")
    run(["dpkg-deb", "--extract", str(archive), str(fresh)], timeout=300)
    archive.unlink()
    if not (fresh / "lib").exists():  # Debian 13 packages below /usr
        (fresh / "lib").symlink_to("usr/lib")
    (release,) = (path.name for path in (fresh / "lib" / "modules").iterdir())
    run(["depmod", "-b", str(fresh), release], timeout=300)
    shutil.rmtree(tree, ignore_errors=True)
    fresh.rename(tree)


def _make_initramfs(kernel: Kernel) -> None:
    root = kernel.tree / "initramfs"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "modules", "proc", "dev", "lower", "upper", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy2(_BUSYBOX, root / "bin" / "busybox")
    shutil.copy2(Path(__file__).parent / "guest" / "init", root / "init")
    (root / "init").chmod(0o755)
    for number, module in enumerate(_module_files(kernel)):
        (root / "modules" / f"{number:03}.ko").write_bytes(_uncompressed(module))
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with kernel.initramfs.open("wb") as archive:
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"],
            cwd=root,
            input=names.encode(),
            stdout=archive,
            check=True,
            timeout=60,
        )


def _uncompressed(module: Path) -> bytes:
    """Debian 13 compresses modules, which busybox cannot load."""
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def _module_files(kernel: Kernel) -> list[Path]:
    """Each module once, what it depends on first."""
    files: dict[Path, None] = {}
    for name in _ROOT_MODULES:
        shown = run(["modprobe", "-d", str(kernel.tree), "-S", kernel.release, "--show-depends", name]).stdout
        files.update((Path(line.split()[1]), None) for line in shown.splitlines() if line.startswith("insmod"))
    return list(files)


def _qemu(kernel: Kernel, results: Path) -> list[str]:
    share = "security_model=none,multidevs=remap"
    arguments = f"console=ttyS0 quiet panic=-1 mitigations=off REPOSITORY={REPOSITORY} MODULES={kernel.modules}"
    return [
        *("qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", str(_MEMORY_MIB)),
        *("-nographic", "-no-reboot", "-nic", "none", "-kernel", str(kernel.image), "-initrd", str(kernel.initramfs)),
        *("-append", arguments),
        *("-virtfs", f"local,path=/,mount_tag=root,readonly=on,{share}"),
        *("-virtfs", f"local,path={results},mount_tag=results,{share}"),
    ]


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
