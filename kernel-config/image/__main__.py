"""`python -m image build`: the command behind `make image`."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from image import disk, root
from image.shell import StepError, run, step

OUT = root.REPOSITORY / "build" / "image"
_INPUTS = (
    *("kernel-config/image", "daemon/meshsec", "daemon/systemd", "daemon/pyproject.toml", "daemon/requirements.lock"),
    *(f"daemon/page/{name}" for name in ("build.mjs", "icon.svg", "index.html", "package-lock.json", "src")),
    *("docs/guide/vehicle-image.md", "docs/reference/schema", "policies", "tools/install", "LICENSE"),
)
"""What goes into the image from here, besides the compiled programs."""
_PROGRAMS = ("olsrv2d", "olsrv2-signer", "overlayd")


@click.group()
def main() -> None:
    """The vehicle image."""


@main.command()
@click.option("--kernel", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A kernel's .deb.")
@click.option("--fresh", is_flag=True, help="Fetch Debian again, with its newest security updates.")
def build(kernel: Path | None, *, fresh: bool) -> None:
    """Build the image, as far as it is not there: the disk's path is the last line."""
    if os.geteuid() != 0:
        raise click.ClickException("building an image needs root: it makes a root file system")
    try:
        with _alone():
            click.echo(_build(kernel, fresh=fresh))
    except StepError as error:
        click.echo(f"image: {error}", err=True)
        sys.exit(1)


def _build(kernel: Path | None, *, fresh: bool) -> Path:
    begin = time.monotonic()
    base = OUT / f"base-{root.base_key(kernel)}"
    if fresh or not base.exists():
        with step(f"Debian ({root.SUITE}) with its packages, about a minute"):
            root.make_base(base, kernel)
    identity = disk.Identity(_key(base), _epoch())
    target = OUT / f"meshsec-{identity.key}.img"
    if target.exists():
        click.echo("image: nothing has changed since it was built")
    else:
        _make_image(base, target, identity)
        click.echo(f"image: built in {time.monotonic() - begin:.0f} s")
    link = OUT / "meshsec.img"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    _forget_others(target, base)
    return link


def _make_image(base: Path, target: Path, identity: disk.Identity) -> None:
    work = OUT / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    tree, boot = work / "root", work / "boot"
    with step("meshsec and its settings, the initramfs"):
        run(["cp", "--archive", "--reflink=auto", base, tree])
        release = root.finish(tree, identity.epoch)
    target.with_suffix(".packages").write_text(root.packages(tree), encoding="utf-8")
    root.seal(tree, boot)
    with step("the root's file system"):
        disk.make_erofs(tree, work / "root.erofs", identity)
    with step(f"the first partition with Linux {release}, the disk"):
        disk.make_uki(tree, boot, release, work / "uki.efi", identity)
        disk.make_esp(work / "uki.efi", work / "esp.fat", identity)
        disk.assemble(work / "esp.fat", work / "root.erofs", target, identity)
    shutil.rmtree(work)


def _key(base: Path) -> str:
    """Changes with everything that goes into the image."""
    digest = hashlib.sha256(f"{base.name} {base.stat().st_mtime_ns}".encode())
    for path in _input_files():
        digest.update(f"\0{path.relative_to(root.REPOSITORY)} {path.stat().st_mode:o}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _input_files() -> Iterator[Path]:
    for program in (root.REPOSITORY / "build" / "bin" / name for name in _PROGRAMS):
        if not program.exists():
            raise StepError(f"{program} is missing: run `make build docs`")
        yield program
    for name in _INPUTS:
        path = root.REPOSITORY / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _epoch() -> int:
    """Return the time that files in the image bear: SOURCE_DATE_EPOCH, else when its inputs were last committed."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    log = ["git", "-C", str(root.REPOSITORY), "log", "-1", "--format=%ct", "--", *_INPUTS]
    output = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    return int(output) if output else int(max(path.stat().st_mtime for path in _input_files()))


def _forget_others(target: Path, base: Path) -> None:
    """Keep the newest of each only: an image has half a gigabyte."""
    for path in (*OUT.glob("meshsec-*.img"), *OUT.glob("meshsec-*.packages")):
        if path.stem != target.stem:
            path.unlink()
    for path in OUT.glob("base-*"):
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
