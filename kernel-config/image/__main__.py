"""`python -m image build`: the command behind `make image`."""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from image import architecture, contents, disk, raspberry, release, root, update
from image.architecture import Architecture
from image.shell import StepError, run, step

OUT = root.REPOSITORY / "build" / "image"
_INPUTS = (
    *(
        "kernel-config/image",
        "kernel-config/meshsec_update",
        "daemon/meshsec",
        "daemon/systemd",
        "daemon/pyproject.toml",
        "daemon/requirements.lock",
    ),
    *(f"daemon/page/{name}" for name in ("build.mjs", "icon.svg", "index.html", "package-lock.json", "src")),
    *("docs/guide/vehicle-image.md", "docs/reference/schema", "policies", "LICENSE"),
    *(f"tools/{name}" for name in ("crates.py", "install", "licences", "sbom")),
)
"""What goes into the image from here, besides the compiled programs."""
_PROGRAMS = ("olsrv2d", "olsrv2-signer", "overlayd")


class _Parts(NamedTuple):
    """What an image is made of."""

    base: Path
    programs: Path
    wanted: Architecture
    signer: release.Key | None


@click.group()
def main() -> None:
    """The vehicle image."""


@main.command()
@click.option("--arch", type=click.Choice([*architecture.ALL]), default="amd64", help="For which machines.")
@click.option("--kernel", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A kernel's .deb.")
@click.option("--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Signs its updates.")
@click.option("--fresh", is_flag=True, help="Fetch Debian again, with its newest security updates.")
def build(arch: str, kernel: Path | None, key_file: Path | None, *, fresh: bool) -> None:
    """Build the image, as far as it is not there: the disk's path is the last line."""
    if os.geteuid() != 0:
        raise click.ClickException("building an image needs root: it makes a root file system")
    try:
        wanted = architecture.ALL[arch]
        architecture.check_runs(wanted)
        contents.check()
        if kernel:
            architecture.check_kernel(kernel, wanted)
        with _alone(), release.key(key_file) as signer:
            click.echo(_build(wanted, kernel, signer, fresh=fresh))
    except StepError as error:
        click.echo(f"image: {error}", err=True)
        sys.exit(1)


def _build(wanted: Architecture, kernel: Path | None, signer: release.Key | None, *, fresh: bool) -> Path:
    begin = time.monotonic()
    out = _out(wanted)
    out.mkdir(exist_ok=True)
    programs = _programs(wanted)
    base = out / f"base-{root.base_key(kernel, wanted)}"
    if fresh or not base.exists():
        with step(f"Debian ({root.SUITE}, {wanted.debian}) with its packages, a minute, or ten by emulation"):
            root.make_base(base, kernel, wanted)
    identity = disk.Identity(_key(base, programs, signer), _dated(programs, signer), _version(base, programs))
    target = out / f"meshsec-{identity.key}.img"
    if target.exists():
        click.echo("image: nothing has changed since it was built")
    else:
        _make_image(_Parts(base, programs, wanted, signer), target, identity)
        click.echo(f"image: built in {time.monotonic() - begin:.0f} s")
    for suffix in (".img", ".update", contents.SUFFIX):
        link = out / f"meshsec{suffix}"
        link.unlink(missing_ok=True)
        if target.with_suffix(suffix).exists():
            link.symlink_to(target.with_suffix(suffix).name)
    _forget_others(target, base)
    return out / "meshsec.img"


def _out(wanted: Architecture) -> Path:
    """Return where images for that architecture are."""
    return OUT if wanted == architecture.AMD64 else OUT / wanted.debian


def _programs(wanted: Architecture) -> Path:
    """Return where the compiled programs are: what `make build` made, or compiled here for another architecture."""
    if platform.machine() == wanted.machine:
        return root.REPOSITORY / "build" / "bin"
    with step(f"olsrv2d and overlayd for {wanted.debian}"):
        return root.REPOSITORY / run([root.REPOSITORY / "tools/cross", wanted.debian]).splitlines()[-1]


def _make_image(parts: _Parts, target: Path, identity: disk.Identity) -> None:
    base, programs, wanted, signer = parts
    work = target.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    tree, boot = work / "root", work / "boot"
    with step("meshsec and its settings, the initramfs"):
        run(["cp", "--archive", "--one-file-system", "--reflink=auto", base, tree])
        kernel = root.finish(tree, identity.epoch, wanted, programs)
        update.prepare(tree, identity.version, signer)
    target.with_suffix(".packages").write_text(root.packages(tree) + raspberry.packages(tree), encoding="utf-8")
    with step("lists of what it contains, with the licences"):
        contents.add(tree, target.with_suffix(contents.SUFFIX), work, wanted, identity)
    root.seal(tree, boot)
    with step("the root's file system"):
        disk.make_erofs(tree, work / "root.erofs", identity)
    with step(f"the first partition with Linux {kernel}, the disk"):
        disk.make_uki(tree, boot, kernel, work / "uki.efi", identity, wanted)
        signed = _make_update(work, target.with_suffix(".update"), identity, wanted, signer) if signer else None
        disk.make_esp(disk.loader(tree, wanted), work / "uki.efi", work / "esp.fat", identity, wanted, signed)
        raspberry.add(work / "esp.fat", tree, boot, kernel, identity)
        disk.assemble(work / "esp.fat", work / "root.erofs", target, identity, wanted)
    shutil.rmtree(work)


def _make_update(work: Path, target: Path, identity: disk.Identity, wanted: Architecture, signer: release.Key) -> Path:
    files = {
        release.root_name(identity.version, identity.uuid("root"), wanted): work / "root.erofs",
        release.kernel_name(identity.version, wanted): work / "uki.efi",
    }
    release.make_update(files, target, signer)
    return target


def _version(base: Path, programs: Path) -> str:
    """Return the image's version: the project's, and when its sources or Debian's packages changed last."""
    epoch = _epoch(programs)
    changed = epoch if "SOURCE_DATE_EPOCH" in os.environ else max(epoch, int(base.stat().st_mtime))
    source = (root.REPOSITORY / "daemon/meshsec/__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return f"{version}.{datetime.fromtimestamp(changed, UTC):%Y%m%d%H%M%S}"


def _key(base: Path, programs: Path, signer: release.Key | None) -> str:
    """Changes with everything that goes into the image."""
    digest = hashlib.sha256(f"{base.name} {base.stat().st_mtime_ns} {_version(base, programs)}".encode())
    digest.update(signer.public if signer else b"")
    for path in _input_files(programs):
        digest.update(f"\0{path.relative_to(root.REPOSITORY)} {path.stat().st_mode:o}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _input_files(programs: Path) -> Iterator[Path]:
    for program in (programs / name for name in _PROGRAMS):
        if not program.exists():
            raise StepError(f"{program} is missing: run `make build docs`")
        yield program
    for name in _INPUTS:
        path = root.REPOSITORY / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _epoch(programs: Path) -> int:
    """Return the time of the image's sources: SOURCE_DATE_EPOCH, else when they were last committed."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    log = ["git", "-C", str(root.REPOSITORY), "log", "-1", "--format=%ct", "--", *_INPUTS]
    output = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    return int(output) if output else int(max(path.stat().st_mtime for path in _input_files(programs)))


def _dated(programs: Path, signer: release.Key | None) -> int:
    """Return the time that files in the image bear, which is not before the key was made (see update.CLOCK)."""
    return max(_epoch(programs), signer.created if signer else 0)


def _forget_others(target: Path, base: Path) -> None:
    """Keep the newest of each only: an image has half a gigabyte."""
    out = target.parent
    for path in out.glob("meshsec-*"):
        if path.name.partition(".")[0] != target.stem:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in out.glob("base-*"):
        if path != base:
            shutil.rmtree(path)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of the build: a second build waits and finds the work done."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
