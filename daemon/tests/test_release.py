"""tools/release, in a clone of the repository: what it changes, and what it refuses without a change.

In place of `make`, a program writes down what it is asked to build, because a build takes minutes. Everything else is
real, cargo's check of the locks too.
"""

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CURRENT = re.findall(r'__version__ = "(.*)"', (ROOT / "daemon/meshsec/__init__.py").read_text(encoding="utf-8"))[0]
NEXT = "77.0.1"
PLACES = {
    "CHANGELOG.md",
    "ansible/galaxy.yml",
    "daemon/Cargo.lock",
    "daemon/Cargo.toml",
    "daemon/bare/Cargo.lock",
    "daemon/fuzz/Cargo.lock",
    "daemon/meshsec/__init__.py",
}
KEPT = "tests/vectors/schema"
SECTION = re.compile(r"^## \[(.*?)\](.*)\n", re.MULTILINE)


class Clone:
    """A clone of the repository with this tree's files, and a `make` that only writes its arguments down."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._programs = place.parent / "programs"
        self._programs.mkdir()

    def begin(self) -> None:
        """Forget what `make` was asked for, and let it succeed."""
        (self._programs / "made").unlink(missing_ok=True)
        self.making("exit 0")

    def making(self, script: str) -> None:
        """Let `make` do this."""
        make = self._programs / "make"
        make.write_text(f'#!/bin/sh\necho "$@" >>{self._programs}/made\n{script}\n', encoding="utf-8")
        make.chmod(0o755)

    def made(self) -> str:
        """Return what `make` was asked for."""
        return (self._programs / "made").read_text(encoding="utf-8")

    def git(self, *arguments: str) -> str:
        argv = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost.invalid", *arguments]
        return subprocess.run(argv, cwd=self.place, check=True, capture_output=True, text=True, timeout=60).stdout

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self._programs}:{os.environ['PATH']}"}
        argv = ["tools/release", *arguments]
        return subprocess.run(
            argv, cwd=self.place, env=environment, check=False, capture_output=True, text=True, timeout=120
        )

    def package_version(self) -> str:
        """Return the version that packages of the last commit have."""
        argv = ["tools/version", "HEAD"]
        return subprocess.run(argv, cwd=self.place, check=True, capture_output=True, text=True).stdout.strip()

    def refusal(self, version: str) -> str:
        """Return why a version is refused, after a check that the tree is as before."""
        before = self.git("status", "--porcelain"), self.git("diff", "HEAD")
        done = self.release(version)
        assert done.returncode == 1, done.stdout
        assert (self.git("status", "--porcelain"), self.git("diff", "HEAD")) == before
        return done.stderr

    def write(self, name: str, text: str) -> None:
        """Commit a file with this text."""
        (self.place / name).write_text(text, encoding="utf-8")
        self.git("commit", "--quiet", "--all", "--message", "changed")

    def read(self, name: str) -> str:
        return (self.place / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    place = tmp_path_factory.mktemp("release") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-tags", ROOT, place], check=True, timeout=60)
    made = Clone(place)
    for name in ("tools/release", "tools/version", *PLACES):
        (place / name).write_bytes((ROOT / name).read_bytes())
        (place / name).chmod((ROOT / name).stat().st_mode)
    made.git("add", "--all")
    made.git("commit", "--quiet", "--allow-empty", "--message", "this tree")
    made.git("branch", "start")
    return made


@pytest.fixture
def clone(fresh: Clone) -> Clone:
    """Return the clone as it was at first."""
    fresh.git("reset", "--quiet", "--hard", "start")
    fresh.git("clean", "--quiet", "-d", "--force")
    for tag in fresh.git("tag").split():
        fresh.git("tag", "--delete", tag)
    fresh.begin()
    return fresh


def test_the_version_is_set_everywhere_and_the_changelog_is_moved(clone: Clone) -> None:
    before = clone.read("CHANGELOG.md")
    done = clone.release(NEXT)
    assert done.returncode == 0, done.stderr
    clone.git("add", "--all")
    changed = clone.git("diff", "--name-only", "--no-renames", "HEAD").split()
    assert {name for name in changed if not name.startswith(KEPT)} == PLACES
    _check_schemas(clone.place)
    assert clone.made() == "build docs\n"
    assert f"git tag --sign v{NEXT}" in done.stdout
    assert subprocess.run(["tools/version"], cwd=clone.place, capture_output=True, check=True).stdout == b"77.0.1\n"
    assert clone.read("ansible/galaxy.yml").count(f"version: {NEXT}\n") == 1
    assert set(_versions(clone.place).values()) == {NEXT}
    for lock in (name for name in PLACES if name.endswith(".lock")):
        own = re.findall(r'name = "(.*)"\nversion = "(.*)"\n(?!source)', clone.read(lock))
        assert {version for name, version in own if not name.startswith("meshsec-")} == {NEXT}
    _check_moved(before, clone.read("CHANGELOG.md"))


def _check_schemas(place: Path) -> None:
    """Check that the schemas of the release are kept, and no others."""
    schemas = {path.name: path.read_text() for path in (place / "docs/reference/schema").glob("*-[0-9]*.json")}
    (kept,) = (path for path in (place / KEPT).iterdir() if path.is_dir())
    assert kept.name == NEXT
    assert len(schemas) > 30
    assert {path.name: path.read_text() for path in kept.iterdir()} == schemas


def _versions(place: Path) -> dict[str, str]:
    """Return the versions of the workspace's crates, by cargo, which refuses a lock that does not agree."""
    argv = ["cargo", "metadata", "--format-version=1", "--locked", "--offline"]
    done = subprocess.run(argv, cwd=place / "daemon", capture_output=True, text=True, check=True, timeout=60)
    return {one["name"]: one["version"] for one in json.loads(done.stdout)["packages"] if not one["source"]}


def _check_moved(before: str, after: str) -> None:
    """Check that all entries are as before, under a version with a date, and that nothing is unreleased."""
    assert SECTION.findall(after)[0] == ("Unreleased", "")
    name, date = SECTION.findall(after)[1]
    assert name == NEXT
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)
    assert after.replace(f"## [{NEXT}]{date}\n\n", "", 1) == before


def test_the_version_of_the_tree_can_be_released_once(clone: Clone) -> None:
    assert clone.release(CURRENT).returncode == 0
    clone.git("add", "--all")
    clone.git("commit", "--quiet", "--message", "release")
    assert f"{CURRENT} is not newer than {CURRENT}, which is released" in clone.refusal(CURRENT)


@pytest.mark.parametrize(
    "version", ["1.2", "v77.0.1", "77.0.1-rc1", "77.00.1", "77.0.1.0", "77.0.1\n", "", "\u0667.0.1"]
)
def test_another_form_is_refused(clone: Clone, version: str) -> None:
    assert "is no version; write it as X.Y.Z" in clone.refusal(version)


def test_a_version_that_is_not_newer_is_refused(clone: Clone) -> None:
    assert f"0.0.9 is older than {CURRENT}, which the tree has" in clone.refusal("0.0.9")
    clone.git("tag", f"v{NEXT}")
    clone.git("tag", "v9.9.9")
    assert f"{NEXT} is not newer than {NEXT}, which is released" in clone.refusal(NEXT)
    assert f"10.0.0 is not newer than {NEXT}, which is released" in clone.refusal("10.0.0")
    assert clone.release("77.0.2").returncode == 0


def test_a_section_without_an_entry_is_refused(clone: Clone) -> None:
    text = clone.read("CHANGELOG.md")
    head = text[: text.index("## [Unreleased]")]
    clone.write("CHANGELOG.md", f"{head}## [Unreleased]\n\n### Added\n\n## [0.0.1] - 2026-01-01\n\n- An entry.\n")
    assert "CHANGELOG.md has nothing under ## [Unreleased]" in clone.refusal(NEXT)
    clone.write("CHANGELOG.md", f"{head}## [0.0.1] - 2026-01-01\n\n- An entry.\n")
    assert "CHANGELOG.md has no section ## [Unreleased]" in clone.refusal(NEXT)


@pytest.mark.parametrize("name", ["README.md", "new"])
def test_a_tree_with_changes_is_refused(clone: Clone, name: str) -> None:
    with (clone.place / name).open("a", encoding="utf-8") as file:
        file.write("changed\n")
    assert name in clone.refusal(NEXT).partition("the tree has changes; ")[2]


def test_a_build_that_fails_leaves_the_tree_as_it_was(clone: Clone) -> None:
    clone.making("echo no compiler; exit 2")
    assert "make build docs failed:\nno compiler\n" in clone.refusal(NEXT)


def test_a_file_with_another_version_is_refused(clone: Clone) -> None:
    clone.write("ansible/galaxy.yml", clone.read("ansible/galaxy.yml").replace(f"version: {CURRENT}", "version: 0.0.7"))
    assert f"ansible/galaxy.yml does not have the version {CURRENT}" in clone.refusal(NEXT)


def test_packages_of_each_commit_are_newer_than_those_of_the_commit_before(clone: Clone) -> None:
    versions = [clone.package_version()]
    assert versions[0].startswith(f"{CURRENT}~")
    clone.git("tag", f"v{CURRENT}")
    versions.append(clone.package_version())
    assert versions[1] == CURRENT
    clone.write("README.md", "later\n")
    versions.append(clone.package_version())
    assert versions[2].startswith(f"{CURRENT}+git")
    assert versions[2].endswith(clone.git("rev-parse", "--short=8", "HEAD").strip())
    assert clone.release(NEXT).returncode == 0
    clone.git("commit", "--quiet", "--all", "--message", "release")
    versions.append(clone.package_version())
    for older, newer in itertools.pairwise(versions):
        for releases in (("12", "13"), ("13", "12")):
            debian = [f"{one}+deb{number}" for one, number in zip((older, newer), releases, strict=True)]
            assert (
                subprocess.run(["dpkg", "--compare-versions", debian[0], "lt", debian[1]], check=False).returncode == 0
            )


def test_how_it_is_used(clone: Clone) -> None:
    done = clone.release()
    assert (done.returncode, done.stderr) == (1, "usage: tools/release VERSION\n")
