"""Roots of tests come from a dated snapshot where it can be reached, and from this machine's sources elsewhere.

The snapshot is a signed repository in a directory, whose index is out of date, as that of each snapshot is.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.machines import debian, fleet_repository, fleet_root, guest_root
from tests.lab.machines.debian import Snapshot
from tests.lab.machines.fleet_repository import SigningKey

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, fleet_repository.PROGRAMS)), reason="not installed: gpg or dpkg-scanpackages"
)

DATE = "20200102T030405Z"
PACKAGES = b"Package: dated\nVersion: 1\nArchitecture: all\nFilename: dated.deb\nSize: 1\nSHA256: 0\n\n"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """Make a snapshot of both archives with one package, and the key that apt is to trust."""
    monkeypatch.delenv(debian.NEWEST, raising=False)
    with SigningKey() as key:
        for archive, suite in (("debian", "trixie"), ("debian-security", "trixie-security")):
            place = tmp_path / "archive" / archive / DATE / "dists" / suite
            (place / "main/binary-amd64").mkdir(parents=True)
            (place / "main/binary-amd64/Packages").write_bytes(PACKAGES)
            lines = [
                *("Origin: Debian", f"Suite: {suite}", f"Codename: {suite}", "Architectures: amd64"),
                *(
                    "Components: main",
                    "Date: Thu, 02 Jan 2020 00:00:00 UTC",
                    "Valid-Until: Thu, 09 Jan 2020 00:00:00 UTC",
                ),
                *("SHA256:", f" {hashlib.sha256(PACKAGES).hexdigest()} {len(PACKAGES)} main/binary-amd64/Packages"),
            ]
            (place / "InRelease").write_bytes(key.sign("\n".join(lines) + "\n"))
        (tmp_path / "key.asc").write_bytes(key.public())
    return Snapshot(DATE, f"file:{tmp_path}/archive")


def updated(sources: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Have apt read these sources, and say what it knows of the package then."""
    shutil.rmtree(place / "apt", ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (place / "apt" / name).mkdir(parents=True)
    (place / "apt/sources.list").write_text(sources, encoding="ascii")
    (place / "apt/status").touch()
    settings = {
        "Dir::Etc::sourcelist": place / "apt/sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": "amd64",
        "Dir::State::lists": place / "apt/lists",
        "Dir::State::status": place / "apt/status",
        "Dir::Cache": place / "apt/cache",
        "Dir::Etc::trusted": place / "key.asc",
        "Dir::Etc::trustedparts": "-",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "true",
        "Acquire::Check-Date": "true",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    read = subprocess.run(
        ["apt-get", *options, "-q", "--error-on=any", "update"], capture_output=True, text=True, check=False
    )
    known = subprocess.run(["apt-cache", *options, "policy", "dated"], capture_output=True, text=True, check=True)
    return subprocess.CompletedProcess(read.args, read.returncode, known.stdout, read.stderr)


def test_a_snapshot_that_is_reached_is_used_and_stays(snapshot: Snapshot, tmp_path: Path) -> None:
    kept = tmp_path / "build/debian"
    assert debian.chosen(snapshot, kept) is None, "nothing is decided yet"
    assert debian.said(snapshot, kept) == "roots of tests: none was built"
    debian.decide(snapshot, kept)
    assert debian.chosen(snapshot, kept) == snapshot
    assert debian.said(snapshot, kept) == f"roots of tests: Debian's snapshot of {DATE}"
    shutil.rmtree(tmp_path / "archive")
    assert not snapshot.is_reached()
    debian.decide(snapshot, kept)
    assert debian.chosen(snapshot, kept) == snapshot, "a server that is away builds no root again"


def test_a_snapshot_that_is_not_reached_is_named(snapshot: Snapshot, tmp_path: Path) -> None:
    kept, away = tmp_path / "debian", Snapshot(DATE, f"file:{tmp_path}/nowhere")
    debian.decide(away, kept)
    assert debian.chosen(away, kept) is None
    assert debian.said(away, kept).endswith(f"sources; the snapshot of {DATE} could not be reached")
    later = Snapshot("20200203T000000Z", snapshot.place)
    (tmp_path / "archive/debian" / DATE).rename(tmp_path / "archive/debian" / later.date)
    debian.decide(later, kept)
    assert debian.chosen(later, kept) == later, "another date is decided for by itself"


def test_whoever_asks_for_the_newest_gets_it(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(debian.NEWEST, "1")
    debian.decide(snapshot, tmp_path / "debian")
    assert not (tmp_path / "debian").exists()
    assert debian.chosen(snapshot, tmp_path / "debian") is None
    assert "as asked for" in debian.said(snapshot, tmp_path / "debian")


def test_apt_reads_an_index_of_that_date(snapshot: Snapshot, tmp_path: Path) -> None:
    """Its signature counts, and its age does not."""
    done = updated(snapshot.sources("trixie"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Candidate: 1\n" in done.stdout
    assert "trixie-security" in done.stdout
    refused = updated(snapshot.sources("trixie").replace("[check-valid-until=no] ", ""), tmp_path)
    assert refused.returncode != 0
    assert "is expired" in refused.stderr
    with SigningKey() as another:
        (tmp_path / "key.asc").write_bytes(another.public())
    assert "NO_PUBKEY" in updated(snapshot.sources("trixie"), tmp_path).stderr


def test_a_root_of_the_snapshot_is_another_one(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes one of this machine's sources for it."""
    keys = []
    for found in (None, snapshot, Snapshot("20200203T000000Z")):
        monkeypatch.setattr(debian, "decide", lambda: None)
        monkeypatch.setattr(debian, "chosen", lambda found=found: found)
        keys.append((guest_root.key(), fleet_root.NODE.key("trixie")))
    assert len({key for both in keys for key in both}) == 6
    assert guest_root.sources_of("trixie").startswith(
        "deb [check-valid-until=no] http://snapshot.debian.org/archive/debian/"
    )
