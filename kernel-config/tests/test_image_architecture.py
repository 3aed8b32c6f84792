"""An image is for one architecture, and what is for another one is refused."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from image import __main__ as build
from image import architecture
from image.architecture import ALL, AMD64, ARM64, Architecture
from image.shell import StepError

NATIVE, FOREIGN = (AMD64, ARM64) if platform.machine() == "x86_64" else (ARM64, AMD64)


def test_an_architecture_that_there_is_no_image_for_is_refused() -> None:
    refused = CliRunner().invoke(build.main, ["build", "--arch", "armhf"])
    assert refused.exit_code == 2
    assert "'armhf' is not one of 'amd64', 'arm64'" in refused.output


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
@pytest.mark.parametrize("wanted", ALL.values(), ids=ALL)
def test_a_kernel_for_another_architecture_is_refused(tmp_path: Path, wanted: Architecture) -> None:
    package = tmp_path / "kernel.deb"
    _make_package(tmp_path / "tree", package, wanted.debian)
    architecture.check_kernel(package, wanted)
    (other,) = (one for one in ALL.values() if one != wanted)
    with pytest.raises(StepError, match=f"is a package for {wanted.debian}; the image is for {other.debian}"):
        architecture.check_kernel(package, other)


def _make_package(tree: Path, package: Path, debian: str) -> None:
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {"Package": "linux-image-test", "Version": "1", "Architecture": debian, "Maintainer": "m <m@localhost>"}
    text = "".join(f"{name}: {value}\n" for name, value in (fields | {"Description": "test"}).items())
    (tree / "DEBIAN/control").write_text(text, encoding="ascii")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, package], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        (None, False),
        ("enabled\ninterpreter /x\nflags: POF\n", True),
        ("enabled\ninterpreter /x\nflags: OP\n", False),
        ("disabled\ninterpreter /x\nflags: POF\n", False),
    ],
    ids=["absent", "registered", "not held open", "disabled"],
)
def test_a_machine_that_cannot_run_the_images_programs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str | None, *, runs: bool
) -> None:
    monkeypatch.setattr(architecture, "BINFMT", tmp_path)
    architecture.check_runs(NATIVE)
    if entry is not None:
        (tmp_path / f"qemu-{FOREIGN.machine}").write_text(entry, encoding="ascii")
    if runs:
        architecture.check_runs(FOREIGN)
        return
    with pytest.raises(StepError, match=f"runs no programs for {FOREIGN.debian}: .*`tools/setup image`"):
        architecture.check_runs(FOREIGN)
