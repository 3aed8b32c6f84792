"""A node installs from a repository of ``tools/repository`` what its key has signed, and nothing else."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.basics import shell
from tests.lab.basics.places import REPOSITORY
from tests.lab.machines.fleet_repository import SigningKey
from tests.packages.root import POOL_SOURCE, Root, bare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "meshsec-overlayd"
PLACE = "srv/repository"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a maintainer's key."""
    return _exported(tmp_path_factory.mktemp("key") / "key")


@pytest.fixture(scope="module")
def repository(
    release: str, packages: dict[str, Path], key_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a repository of our packages."""
    place = tmp_path_factory.mktemp("repository") / "out"
    done = _made(release, packages[NAME].parent, place, {"KEY_FILE": str(key_file)})
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def node(release: str, repository: Path, tmp_path: Path) -> Iterator[Root]:
    """Make a node that has the repository's file, and the repository where the file says."""
    with bare(release, tmp_path / "root") as root:
        shutil.copytree(repository, root.directory / PLACE)
        root.path("/etc/apt/sources.list").write_text(POOL_SOURCE, encoding="ascii")
        shutil.copy(repository / "meshsec.sources", root.path("/etc/apt/sources.list.d"))
        yield root


def test_a_node_installs_from_it(node: Root) -> None:
    node.run("apt-get", "-qq", "--error-on=any", "update")
    node.apt("install", NAME)
    assert node.run("overlayd", "--version").stdout.startswith("overlayd ")


def test_a_changed_package_is_refused(node: Root) -> None:
    package = next((node.directory / PLACE).glob(f"{NAME}_*.deb"))
    octets = bytearray(package.read_bytes())
    octets[len(octets) // 2] ^= 1
    package.write_bytes(octets)
    node.run("apt-get", "-qq", "--error-on=any", "update")
    refused = node.run("apt-get", "-q", "-y", "install", NAME, check=False)
    assert refused.returncode == 100
    assert "Hash Sum mismatch" in refused.stderr
    assert not node.path("/usr/bin/overlayd").exists()


def test_a_changed_index_is_refused(node: Root) -> None:
    """Somebody who changes a package and its index has no signature for the index."""
    for index in (node.directory / PLACE).glob("Packages*"):
        index.unlink()
    (node.directory / PLACE / "Packages").write_text(f"Package: {NAME}\nVersion: 99\n", encoding="ascii")
    assert "Hash Sum mismatch" in _refused(node) or "unexpected size" in _refused(node)


def _unsigned(place: Path) -> None:
    (place / "InRelease").unlink()
    (place / "Release.gpg").unlink()


def _altered(place: Path) -> None:
    for name in ("InRelease", "Release"):
        text = (place / name).read_text(encoding="ascii")
        (place / name).write_text(text.replace("Origin: meshsec", "Origin: another"), encoding="ascii")


def _signed_by_another(place: Path) -> None:
    (place / "Release.gpg").unlink()
    with SigningKey() as another:
        (place / "InRelease").write_bytes(another.sign((place / "Release").read_text(encoding="ascii")))


@pytest.mark.parametrize(
    ("change", "said"),
    [(_unsigned, "is not signed"), (_altered, "BADSIG"), (_signed_by_another, "NO_PUBKEY")],
)
def test_a_release_without_the_keys_signature_is_refused(node: Root, change: Callable[[Path], None], said: str) -> None:
    change(node.directory / PLACE)
    assert said in _refused(node)
    assert node.run("apt-get", "-q", "-y", "install", NAME, check=False).returncode == 100
    assert not node.path("/usr/bin/overlayd").exists()


def test_the_same_version_with_other_octets_is_refused(
    release: str, repository: Path, key_file: Path, packages: dict[str, Path], tmp_path: Path
) -> None:
    """The packages of before stay, and the repository as a whole, when it is refused."""
    before = sorted(repository.iterdir())
    assert _made(release, tmp_path, repository, {"KEY_FILE": str(key_file)}).returncode == 0
    assert sorted(repository.iterdir()) == before
    (tmp_path / packages[NAME].name).write_bytes(packages[NAME].read_bytes() + b"\n")
    kept = (repository / "InRelease").read_bytes()
    refused = _made(release, tmp_path, repository, {"KEY_FILE": str(key_file)})
    assert refused.returncode == 2
    assert "give it a version of its own" in refused.stderr
    assert (repository / "InRelease").read_bytes() == kept
    assert list(repository.parent.iterdir()) == [repository], "nothing half made is left"


def test_a_key_of_the_agent_signs(release: str, packages: dict[str, Path], tmp_path: Path) -> None:
    with SigningKey() as key:
        settings = {"KEY": key.fingerprint(), "GNUPGHOME": key.home}
        done = _made(release, packages[NAME].parent, tmp_path / "out", settings)
        assert done.returncode == 0, done.stderr
        assert f"signed by {key.fingerprint()}" in done.stdout
        refused = _made(release, packages[NAME].parent, tmp_path / "none", {**settings, "KEY": "0123"})
        assert refused.stderr == "repository: gpg has no secret key 0123\n"
        (tmp_path / "key").write_bytes(key.public())
    keyring = tmp_path / "keyring"
    shell.run(["gpg", "--dearmor", "--output", str(keyring), str(tmp_path / "key")])
    shell.run(["gpgv", "--keyring", str(keyring), str(tmp_path / "out/InRelease")])


def test_a_key_that_is_none_or_for_all_is_refused(key_file: Path, tmp_path: Path) -> None:
    """No repository is made then."""
    open_file = tmp_path / "key"
    shutil.copy(key_file, open_file)
    open_file.chmod(0o640)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    cases = {
        "no key; name one: ": {},
        "two keys, ": {"KEY": "A", "KEY_FILE": "B"},
        f"{open_file} can be read by others; run: chmod 600 ": {"KEY_FILE": str(open_file)},
        "no file /nowhere; write it: ": {"KEY_FILE": "/nowhere"},
    }
    for said, settings in cases.items():
        refused = _made("trixie", tmp_path, tmp_path / "out", settings)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"repository: {said}")
    refused = _made("trixie", tmp_path, tmp_path / "out", {"KEY_FILE": str(key_file)})
    assert refused.stderr == f"repository: no package in {tmp_path}; make some: make deb RELEASE=trixie\n"
    assert not (tmp_path / "out").exists()


def _made(release: str, packages: Path, place: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run tools/repository for the packages in a directory."""
    environment = {**os.environ, "FROM": str(packages), "OUT": str(place), **settings}
    argv = [str(REPOSITORY / "tools/repository"), release, f"file:/{PLACE}"]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=300)


def _exported(place: Path) -> Path:
    """Write a new secret key to a file, as `gpg --export-secret-keys` does."""
    with SigningKey() as key:
        place.touch(0o600)
        place.write_bytes(key.secret())
    return place


def _refused(node: Root) -> str:
    """Return what apt says when it refuses the repository."""
    done = node.run("apt-get", "-q", "--error-on=any", "update", check=False)
    assert done.returncode == 100, done.stdout
    return done.stderr
