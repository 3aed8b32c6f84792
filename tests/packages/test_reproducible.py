"""The same sources give packages with the same bytes, wherever, whenever and by whomever they are made.

The programs are compiled once more with ``make packages-all`` only, because that takes minutes.
"""

import shutil
from pathlib import Path

import pytest

from tests.lab.basics import shell
from tests.packages import elsewhere
from tests.packages.made import ALL, COMMIT, OWN_ARCHITECTURE, kernel
from tests.packages.members import differences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SMALLEST = "meshsec-overlayd"


def test_the_same_sources_give_the_same_bytes(release: str, packages: dict[str, Path], tmp_path: Path) -> None:
    if missing := elsewhere.obstacle():
        pytest.skip(missing)
    settings = {**COMMIT, "KERNEL": str(kernel(tmp_path / "kernel"))}
    again = elsewhere.made_again(release, OWN_ARCHITECTURE, tmp_path / "again", settings, compiled=ALL)
    first = {path.name: path for path in packages["meshsec"].parent.glob("meshsec*.deb")}
    assert set(first) == {name for name in again if name.startswith("meshsec")}
    assert any(name.startswith("meshsec-image_") for name in first), "the kernel's metapackage is one, too"
    assert {name: differences(path, again[name]) for name, path in first.items()} == {name: [] for name in first}


PROGRAM = "usr/bin/overlayd"
CHANGES = {
    f"touch --date=@1700000001 {PROGRAM}": f"data.tar: ./{PROGRAM}: time 1700000000 and 1700000001",
    f"chmod 0700 {PROGRAM}": f"data.tar: ./{PROGRAM}: mode 755 and 700",
    f"chown 1:1 {PROGRAM}": f"data.tar: ./{PROGRAM}: owner 0:0 root:root and 1:1 daemon:daemon",
    f"rm {PROGRAM}": f"data.tar: ./{PROGRAM} is only in the first",
    f"printf x >>{PROGRAM}; touch --date=@1700000000 {PROGRAM}": f"data.tar: ./{PROGRAM}: content ",
    "sed -i s/overlay/OVERLAY/ DEBIAN/control; touch --date=@1700000000 DEBIAN/*": "control.tar: ./control: content ",
}
"""Commands that change an unpacked package, and how the line begins that says so."""


def test_what_differs_is_named(packages: dict[str, Path], tmp_path: Path) -> None:
    """Each case changes one member, so one line says so; the same package once more has none."""
    first = _packed(packages[SMALLEST], tmp_path, ":")
    assert differences(first, _packed(packages[SMALLEST], tmp_path, ":")) == []
    for command, begin in CHANGES.items():
        (said,) = differences(first, _packed(packages[SMALLEST], tmp_path, command))
        assert said.startswith(begin), command


def test_another_compression_is_named(packages: dict[str, Path], tmp_path: Path) -> None:
    first, second = (_packed(packages[SMALLEST], tmp_path, ":", level) for level in ("-z1", "-z2"))
    assert differences(first, second) == ["the members are the same; their order or their compression is not"]


def _packed(package: Path, place: Path, command: str, level: str = "-z1") -> Path:
    """Unpack a package, run a command in its tree, and make a new package of it in ``place``."""
    tree, out = place / "tree", place / f"{len(list(place.glob('*.deb')))}.deb"
    shutil.rmtree(tree, ignore_errors=True)
    shell.run(["dpkg-deb", "-R", str(package), str(tree)])
    shell.run(["sh", "-ec", f"cd '{tree}'; {command}; find . -type d -exec touch --date=@1700000000 {{}} +"])
    # dpkg-deb(1) sets later times back to this one, and writes it into the archive's headers.
    environment = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1700000009"}
    shell.run(["dpkg-deb", "-Zgzip", level, "--build", str(tree), str(out)], env=environment)
    return out
