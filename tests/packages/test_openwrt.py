"""OpenWrt's packages: what they copy is a workspace, their services start the program as they say, and with an SDK they
are built.

OPENWRT_SDK names an unpacked SDK of OpenWrt whose feed `packages` is installed; without one nothing is compiled for it.
"""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD, REPOSITORY

SDK = "OPENWRT_SDK"
FEED = REPOSITORY / "daemon/openwrt"
PACKAGES = ("olsrv2d", "overlayd")
UNITS = REPOSITORY / "daemon/systemd"


def test_what_is_copied_is_a_whole_workspace(tmp_path: Path) -> None:
    recipe = (FEED / "sources.mk").read_text(encoding="utf-8")
    copied = re.findall(r"\$\(WORKSPACE\)/(\S+)", recipe.partition("define Build/Prepare")[2].partition("endef")[0])
    assert "crates" in copied
    for name in copied:
        source = REPOSITORY / "daemon" / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    command = ["cargo", "metadata", "--no-deps", "--format-version=1", "--offline", "--locked"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(PACKAGES) <= {package["name"] for package in json.loads(done.stdout)["packages"]}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_service_has_the_privileges_of_its_unit_and_no_others(package: str) -> None:
    granted = json.loads((FEED / package / "files" / f"{package}.json").read_text(encoding="utf-8"))
    unit = (UNITS / f"{package}.service").read_text(encoding="utf-8")
    allowed = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[0].split()
    assert len(granted) == 5
    assert all(sorted(names) == sorted(allowed) for names in granted.values())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_service_is_valid_shell_and_names_installed_files(package: str) -> None:
    script = FEED / package / "files" / f"{package}.init"
    subprocess.run(["sh", "-n", script], check=True)
    text = script.read_text(encoding="utf-8")
    assert f"procd_set_param command /usr/sbin/{package} --config" in text
    assert f"procd_set_param capabilities /etc/capabilities/{package}.json" in text
    assert f"USERID:={package}:{package}" in (FEED / package / "Makefile").read_text(encoding="utf-8")


def test_the_routers_configuration_is_one_that_it_takes() -> None:
    path = FEED / "olsrv2d/files/olsrv2d.toml"
    subprocess.run([BUILD / "bin/olsrv2d", "--config", path, "--check"], check=True)
    # The service makes this folder for the router's account.
    folder = Path(tomllib.loads(path.read_text(encoding="utf-8"))["management"]["socket"]).parent
    assert f"FOLDER={folder}\n" in (FEED / "olsrv2d/files/olsrv2d.init").read_text(encoding="utf-8")


@pytest.mark.skipif(SDK not in os.environ, reason=f"no SDK of OpenWrt: {SDK} names none, so nothing is compiled for it")
@pytest.mark.timeout(7200)
def test_the_packages_are_built_by_an_sdk() -> None:
    sdk = Path(os.environ[SDK])
    feeds = sdk / "feeds.conf"
    if not feeds.exists():
        shutil.copy(sdk / "feeds.conf.default", feeds)
    line = f"src-link meshsec {FEED}\n"
    if line not in feeds.read_text(encoding="utf-8"):
        feeds.write_text(feeds.read_text(encoding="utf-8") + line, encoding="utf-8")
    for arguments in (["update", "meshsec"], ["install", "-p", "meshsec", *PACKAGES]):
        subprocess.run([sdk / "scripts/feeds", *arguments], cwd=sdk, check=True)
    for package in PACKAGES:
        subprocess.run(["make", f"package/{package}/compile"], cwd=sdk, check=True)
        assert list((sdk / "bin").rglob(f"{package}[-_]*"))
