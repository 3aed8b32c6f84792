"""`tools/collection` refuses what Galaxy would refuse. `make collection` shows first that it accepts the collection."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD, REPOSITORY

_PROGRAMS = BUILD / "collection/tools/bin"
_RUN_SECONDS = 500

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (_PROGRAMS / "ansible-builder").exists(), reason="not installed: galaxy-importer; fix: `make collection`"
    ),
]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Return a copy of the collection to change."""
    return shutil.copytree(REPOSITORY / "ansible", tmp_path / "ansible_collections/meshsec/mesh")


def test_a_role_without_readme_is_refused(collection: Path) -> None:
    (collection / "roles/chrony/README.md").unlink()
    assert "galaxy-importer refuses it" in _refused(collection, "No role readme found")


def test_another_version_than_the_projects_is_refused(collection: Path) -> None:
    ours = subprocess.run([REPOSITORY / "tools/version"], check=True, capture_output=True, text=True).stdout.strip()
    _change(collection / "galaxy.yml", f"version: {ours}", f"version: {ours}9")
    _refused(collection, f"version is {ours}9, and daemon/meshsec/__init__.py has {ours}; set it to {ours}")


def test_a_warning_of_the_importer_is_a_refusal(collection: Path) -> None:
    (collection / "CHANGELOG.md").unlink()
    _refused(collection, "WARNING: No changelog found")


def test_what_ansible_test_finds_is_a_refusal(collection: Path) -> None:
    program = collection / "roles/monitoring/files/meshsec-metrics"
    program.write_text("#!/usr/bin/python3\n" + program.read_text(encoding="utf-8"), encoding="utf-8")
    assert "shebang" in _refused(collection, "ansible-test sanity refuses it")


def test_an_execution_environment_gets_the_ssh_client(collection: Path, tmp_path: Path) -> None:
    assert "openssh-client [platform:dpkg]" in _introspected(tmp_path)
    (collection / "meta/execution-environment.yml").unlink()
    (collection / "bindep.txt").unlink()
    assert "openssh-client" not in _introspected(tmp_path)


def _introspected(root: Path) -> str:
    """Return what ansible-builder would install for the collections below a directory."""
    argv = [str(_PROGRAMS / "ansible-builder"), "introspect", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def _refused(collection: Path, message: str) -> str:
    """Return what `tools/collection` says of a copy that it must refuse with this message."""
    # What is refused here is found without these two, which take most of the time.
    left_out = {"GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false", "GALAXY_IMPORTER_RUN_ANSIBLE_DOC": "false"}
    done = subprocess.run(
        [str(REPOSITORY / "tools/collection"), str(collection)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_RUN_SECONDS,
        env={**os.environ, **left_out},
    )
    assert done.returncode == 1, done.stdout
    assert message in done.stdout
    return done.stdout


def _change(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")
