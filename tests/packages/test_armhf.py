"""Router and overlay for small routers: two packages for armhf, whose programs run in a bare root of armhf.

They are compiled with ``make packages-all`` only, because that takes minutes. An emulator of single programs runs them.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.basics import shell
from tests.lab.machines.guest_root import CONTAINED, sources_of, write_apt_settings
from tests.packages.made import ALL, made

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not ALL, reason="compiled for armhf with `make packages-all` only"),
]

EMULATOR = "qemu-arm-static"
PROGRAMS = ("olsrv2d", "olsrv2-signer", "overlayd")
LIBRARIES = "libc6,libgcc-s1,libsodium23"


@pytest.fixture(scope="module")
def packages(release: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(release, "armhf", tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def root(release: str, packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the release's libraries for armhf and our packages, unpacked."""
    if not shutil.which(EMULATOR):
        pytest.skip(f"not installed: {EMULATOR}")
    place = tmp_path_factory.mktemp("armhf")
    write_apt_settings(place / "apt.conf")
    options = ["--quiet", "--mode=root", "--variant=extract", "--architectures=armhf", f"--include={LIBRARIES}"]
    apt = [f"--aptopt={place / 'apt.conf'}", '--aptopt=APT::Sandbox::User "root"']
    argv = ["mmdebstrap", *options, *apt, "--format=directory", release, str(place / "root")]
    # Security updates of the libraries matter to nobody here.
    sources = "".join(line for line in sources_of(release).splitlines(keepends=True) if "-security" not in line)
    shell.run([*CONTAINED, "--", *argv, "-"], stdin=sources, timeout=900)
    if not (place / "root/lib").exists():
        (place / "root/lib").symlink_to("usr/lib")  # Since Debian 13 no package has it.
    for package in packages.values():
        shell.run(["dpkg-deb", "-x", str(package), str(place / "root")])
    return place / "root"


def run(root: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return shell.run([EMULATOR, "-L", str(root), str(root / "usr/bin" / program), *arguments], check=False, timeout=300)


def test_it_is_the_router_and_the_overlay_without_ike(packages: dict[str, Path]) -> None:
    assert set(packages) == {"meshsec-olsrv2d", "meshsec-overlayd"}
    for package in packages.values():
        assert shell.run(["dpkg-deb", "--field", str(package), "Architecture"]).stdout == "armhf\n"
        needed = shell.run(["dpkg-deb", "--field", str(package), "Depends"]).stdout
        assert set(re.findall(r"(?:^|, )([a-z0-9-]+)", needed)) <= {"libc6", "libgcc-s1", "systemd"}


def test_each_program_is_for_armhf_and_runs_there(root: Path) -> None:
    for program in PROGRAMS:
        header = shell.run(["readelf", "--file-header", str(root / "usr/bin" / program)]).stdout
        assert "ELF32" in header
        assert "hard-float ABI" in header
        assert run(root, program, "--version").stdout.startswith(f"{program} ")


def test_the_router_judges_a_configuration(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "olsrv2d.toml"
    config.write_text('[[interface]]\nname = "mesh0"\n', encoding="ascii")
    good = run(root, "olsrv2d", "--config", str(config), "--check")
    assert good.returncode == 0, good.stderr
    config.write_text("willingness = 16\n", encoding="ascii")
    bad = run(root, "olsrv2d", "--config", str(config), "--check")
    assert bad.returncode == 2
    assert "willingness" in bad.stderr
