"""Each package says what it contains of others: all of it, and nothing else.

What a package has to list follows from its own files: directories of Python packages, paths of crates in programs,
notices of the page.
"""

import base64
import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.lab.basics import shell
from tests.lab.basics.places import BUILD, REPOSITORY
from tests.packages.made import AUDIT, OWN_ARCHITECTURE, PACKAGES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PROGRAMS = {"meshsec-olsrv2d": ("olsrv2d", "olsrv2-signer"), "meshsec-overlayd": ("overlayd",)}
TARGET = {"amd64": "x86_64", "arm64": "aarch64"}.get(OWN_ARCHITECTURE, "") + "-unknown-linux-gnu"
JUDGE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or "valid")
"""
NOT_LINKED = ("serde_derive", "proc-macro2", "proptest", "toml_writer")
"""Crates of the lock that run in the compiler, or that tests alone need."""

Listed = dict[tuple[str, str], dict[str, Any]]
"""Components by name and version."""


@pytest.fixture(scope="module")
def unpacked(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the files of all our packages."""
    directory = tmp_path_factory.mktemp("unpacked")
    for package in packages.values():
        shell.run(["dpkg-deb", "-x", str(package), str(directory)], timeout=120)
    return directory


def _text(unpacked: Path, package: str) -> str:
    return (unpacked / f"usr/share/doc/{package}/{package}.cdx.json").read_text(encoding="utf-8")


def _listed(unpacked: Path, package: str, kind: str) -> Listed:
    """Return the components of a package that come from one registry."""
    components = json.loads(_text(unpacked, package))["components"]
    found = {(one["name"], one["version"]): one for one in components if one["purl"].startswith(f"pkg:{kind}/")}
    assert all(unquote(one["purl"]) == f"pkg:{kind}/{name}@{version}" for (name, version), one in found.items())
    return found


def _hashes(listed: Listed) -> dict[tuple[str, str], str]:
    return {key: one["hashes"][0]["content"] for key, one in listed.items()}


def test_each_package_has_a_valid_document_of_its_version(unpacked: Path) -> None:
    for package in PACKAGES:
        text = _text(unpacked, package)
        assert shell.run([str(AUDIT), "-c", JUDGE], stdin=text).stdout == "valid\n"
        document = json.loads(text)
        assert document["metadata"]["component"]["name"] == package
        assert document["metadata"]["component"]["version"].startswith("1.2.3+deb")
        assert document["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")


def test_the_judge_refuses_what_the_schema_does_not_allow(unpacked: Path) -> None:
    document = json.loads(_text(unpacked, "meshsec"))
    document["components"][0]["hashes"][0]["content"] = "none"
    assert "'none'" in shell.run([str(AUDIT), "-c", JUDGE], stdin=json.dumps(document)).stdout


def test_each_component_has_licence_and_hash(unpacked: Path) -> None:
    """The standard library comes with the compiler, and has no file of its own."""
    for package in PACKAGES:
        for one in json.loads(_text(unpacked, package))["components"]:
            assert one["licenses"], one
            assert one.get("hashes") or one["purl"].startswith("pkg:generic/rust-std@"), one


@pytest.mark.parametrize("package", PROGRAMS)
def test_crates_are_those_in_the_programs(unpacked: Path, package: str) -> None:
    listed = set(_listed(unpacked, package, "cargo"))
    seen = {crate for name in PROGRAMS[package] for crate in _seen(unpacked / "usr/bin" / name)}
    assert len(seen) > 10
    assert seen <= listed
    assert listed <= {crate for name in PROGRAMS[package] for crate in _needed(name)}
    assert not {name for name, _ in listed} & set(NOT_LINKED)
    assert _hashes(_listed(unpacked, package, "cargo")).items() <= _sums().items()


@pytest.mark.parametrize("package", PROGRAMS)
def test_notices_and_document_list_the_same_crates(unpacked: Path, package: str) -> None:
    text = gzip.decompress((unpacked / f"usr/share/doc/{package}/crate-notices.gz").read_bytes()).decode()
    assert set(re.findall(r"^  (\S+) (\S+): ", text, re.MULTILINE)) == set(_listed(unpacked, package, "cargo"))


def test_python_packages_are_those_that_are_installed(unpacked: Path) -> None:
    site = unpacked / "usr/lib/meshsec"
    places = {place: place.name.removesuffix(".dist-info").split("-") for place in site.glob("*.dist-info")}
    installed = {(name.replace("_", "-"), version) for name, version in places.values() if name != "meshsec"}
    listed = _listed(unpacked, "meshsec", "pypi")
    assert set(listed) == installed
    assert len(installed) > 15
    locked = (REPOSITORY / "daemon/requirements.lock").read_text(encoding="utf-8")
    assert all(f"--hash=sha256:{value}" in locked for value in _hashes(listed).values())
    for place in places:
        assert place.name.startswith("meshsec-") or list(_licence_texts(place)), f"{place.name} has no licence's text"


def test_npm_packages_are_those_in_the_page(unpacked: Path) -> None:
    notices = gzip.decompress((unpacked / "usr/share/doc/meshsec/page-notices.gz").read_bytes()).decode()
    listed = _listed(unpacked, "meshsec", "npm")
    assert set(listed) == set(re.findall(r"^(\S+) ([0-9.]+) \(.+\)$", notices, re.MULTILINE))
    lock = json.loads((REPOSITORY / "daemon/page/package-lock.json").read_text(encoding="utf-8"))["packages"]
    for (name, version), value in _hashes(listed).items():
        entry = lock[f"node_modules/{name}"]
        assert (entry["version"], entry["integrity"]) == (version, "sha512-" + _base64(value))


@pytest.mark.parametrize(
    ("licence", "reported", "said"),
    [
        ("", "stray", "sbom: pypi package stray 1.0 names no licence; do not ship it"),
        ("License-Expression: MIT\n", "other", "has stray, and pip's report"),
    ],
)
def test_what_has_no_licence_or_no_hash_is_refused(licence: str, reported: str, said: str, tmp_path: Path) -> None:
    done = _documented(tmp_path, licence, reported)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_has_both_is_listed(tmp_path: Path) -> None:
    """The document of the case that the refused ones differ from."""
    assert _documented(tmp_path, "License-Expression: MIT\n", "stray").returncode == 0
    assert '"pkg:pypi/stray@1.0"' in (tmp_path / "out/meshsec.cdx.json").read_text(encoding="utf-8")


def _documented(place: Path, licence: str, reported: str) -> subprocess.CompletedProcess[str]:
    """Run tools/sbom for a single Python package of our making."""
    if not (AUDIT.exists() and (BUILD / "page/packages.json").exists()):
        pytest.skip("not there: CycloneDX's library or the page; fix: `tools/setup audit`, `make page`")
    info = place / "site/stray-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: stray\nVersion: 1.0\n{licence}", encoding="utf-8")
    entry = {"metadata": {"name": reported}, "download_info": {"archive_info": {"hashes": {"sha256": "0" * 64}}}}
    report = place / "report.json"
    report.write_text(json.dumps({"install": [entry]}), encoding="utf-8")
    argv = [str(AUDIT), "tools/sbom", str(place / "out"), "1.2.3", TARGET, str(place / "site"), str(report)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def _seen(program: Path) -> set[tuple[str, str]]:
    """Return the crates whose sources a program names, in its messages for a panic."""
    found = re.findall(rb"/registry/src/[^/]+/([a-z0-9_-]+)-(\d+\.\d+\.\d+[^/]*)/", program.read_bytes())
    return {(name.decode(), version.decode()) for name, version in found}


def _needed(program: str) -> set[tuple[str, str]]:
    """Return the crates that a program of the workspace may need, with the features of all members and their tests."""
    argv = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", TARGET]
    metadata = json.loads(shell.run([*argv, "--manifest-path", str(REPOSITORY / "daemon/Cargo.toml")]).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    waiting = [name for name in metadata["workspace_members"] if packages[name]["name"] == program]
    found: set[str] = set()
    while waiting:
        if (package := waiting.pop()) not in found:
            found.add(package)
            waiting += [one["pkg"] for one in nodes[package] if any(not kind["kind"] for kind in one["dep_kinds"])]
    return {(packages[name]["name"], packages[name]["version"]) for name in found}


def _sums() -> dict[tuple[str, str], str]:
    lock = (REPOSITORY / "daemon/Cargo.lock").read_text(encoding="utf-8")
    found = re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"', lock)
    return {(name, version): value for name, version, value in found}


def _licence_texts(place: Path) -> Iterator[Path]:
    names = ("licen", "copying")
    return (path for path in place.rglob("*") if path.is_file() and path.name.lower().startswith(names))


def _base64(value: str) -> str:
    return base64.b64encode(bytes.fromhex(value)).decode()
