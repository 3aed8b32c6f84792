"""An image says what it contains of others, as our packages do: with a small root, and the real tools."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from image import __main__ as build
from image import contents, root
from image.architecture import AMD64
from image.disk import Identity
from image.shell import StepError

IDENTITY = Identity("0123456789abcdef", 1700000000, "1.2.3.20260101000000")
NAMES = {"meshsec-olsrv2d", "meshsec-overlayd"}
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: glibc
Version: 2.41-12

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b-4+deb13u1
"""


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the lists of a root with two of Debian's packages and one of PyPI's."""
    page = root.REPOSITORY / "build/page/packages.json"
    if not (contents.AUDIT.exists() and page.exists() and shutil.which("cargo")):
        pytest.skip("not there: CycloneDX's library, the page or cargo; fix: `tools/setup audit`, `make page`")
    directory = tmp_path_factory.mktemp("image")
    tree, work = directory / "root", directory / "work"
    for folder in (work, tree / "var/lib/dpkg/info", tree / "var/lib/dpkg/updates"):
        folder.mkdir(parents=True)
    (tree / "var/lib/dpkg/status").write_text(STATUS, encoding="ascii")
    (tree / "boot/raspberry").mkdir(parents=True)
    (tree / "boot/raspberry/packages").write_text("u-boot-rpi\t2025.01-3\n", encoding="ascii")
    info = tree / "usr/lib/meshsec/stray-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: stray\nVersion: 1.0\nLicense: MIT\n", encoding="ascii")
    entry = {"metadata": {"name": "stray"}, "download_info": {"archive_info": {"hashes": {"sha256": "0" * 64}}}}
    report = directory / "report.json"
    report.write_text(json.dumps({"install": [entry]}), encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "REPORT", report)
        contents.add(tree, directory / "meshsec.cdx.json", work, AMD64, IDENTITY)
    return directory


def _components(path: Path) -> dict[str, dict[str, Any]]:
    """Return the components by their package URLs."""
    return {one["purl"]: one for one in json.loads(path.read_text(encoding="utf-8"))["components"]}


def test_the_list_beside_the_image_has_debians_packages_and_all_others(listed: Path) -> None:
    document = json.loads((listed / "meshsec.cdx.json").read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["version"] == IDENTITY.version
    found = _components(listed / "meshsec.cdx.json")
    assert {url for url in found if url.startswith("pkg:deb/")} == {
        "pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=trixie&upstream=glibc",
        "pkg:deb/debian/tzdata@2025b-4%2Bdeb13u1?arch=all&distro=trixie",
        "pkg:deb/debian/u-boot-rpi@2025.01-3?arch=amd64&distro=trixie",
    }
    assert all(one["name"] and one["version"] for one in found.values())
    places = [listed / f"root/usr/share/doc/{name}/{name}.cdx.json" for name in ("meshsec", *NAMES)]
    assert found.keys() >= {url for place in places for url in _components(place)}
    for kind in ("cargo", "npm", "pypi"):
        assert any(url.startswith(f"pkg:{kind}/") for url in found), kind


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_image_has_the_notices_of_the_crates_that_it_lists(listed: Path, name: str) -> None:
    place = listed / f"root/usr/share/doc/{name}"
    text = (place / "crate-notices").read_text(encoding="utf-8")
    crates = {
        f"pkg:cargo/{crate}@{quote(version)}" for crate, version in re.findall(r"^  (\S+) (\S+): ", text, re.MULTILINE)
    }
    assert crates == {url for url in _components(place / f"{name}.cdx.json") if url.startswith("pkg:cargo/")}
    assert text.count("Permission is hereby granted") > 5


def test_without_the_library_no_image_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contents, "AUDIT", tmp_path / "python")
    with pytest.raises(StepError, match="`tools/setup audit` installs it"):
        contents.check()


def test_lists_of_this_image_stay_and_those_of_others_go(tmp_path: Path) -> None:
    for name in ("meshsec-new.img", "meshsec-new.cdx.json", "meshsec-new.packages", "meshsec-old.cdx.json"):
        (tmp_path / name).touch()
    build._forget_others(tmp_path / "meshsec-new.img", tmp_path / "base-new")
    assert {path.suffix for path in tmp_path.iterdir()} == {".img", ".json", ".packages"}
    assert not (tmp_path / "meshsec-old.cdx.json").exists()
