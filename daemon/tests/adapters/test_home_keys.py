"""The key of a fleet is destroyed in every user's home, and no user can turn that against somebody else's file."""

import os
from pathlib import Path

import pytest

from meshsec.adapters.files import fleet_key, home_keys

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of several users")

OPERATOR, OTHER = 31001, 31002
SECRET = b"-----BEGIN PRIVATE KEY-----\n" * 40


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a machine with an operator in /home, one whose home is elsewhere, and one whom no file lists."""
    for name in ("home/operator", "home/remote", "srv/other", "root"):
        (tmp_path / name).mkdir(parents=True)
    os.chown(tmp_path / "home/operator", OPERATOR, OPERATOR)
    os.chown(tmp_path / "home/remote", OTHER, OTHER)
    (tmp_path / "passwd").write_text(
        f"root:x:0:0:root:{tmp_path}/root:/bin/sh\n"
        f"operator:x:{OPERATOR}:{OPERATOR}:,,,:{tmp_path}/home/operator:/bin/sh\n"
        f"other:x:{OTHER}:{OTHER}::{tmp_path}/srv/other:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        "daemon:x:1:1:daemon::/usr/sbin/nologin\n"
        "damaged line\n"
    )
    monkeypatch.setattr(home_keys, "PASSWD", tmp_path / "passwd")
    monkeypatch.setattr(home_keys, "HOMES", tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "root"))
    return tmp_path


def owned(path: Path, owner: int, content: bytes = SECRET) -> Path:
    """Make a file of a user, with the directory above it."""
    if not path.parent.exists():
        path.parent.mkdir()
        os.chown(path.parent, owner, owner)
    path.write_bytes(content)
    os.chown(path, owner, owner)
    return path


def blocks(path: Path, machine: Path) -> Path:
    """Return a file that shows what became of the blocks of another one."""
    other = machine / f"blocks-of-{path.parent.parent.name}"
    other.hardlink_to(path)
    return other


def test_a_key_that_an_operator_made_is_overwritten_and_removed(machine: Path) -> None:
    directory = machine / "home/operator/.meshsec-fleet"
    fleet_key.create(directory, "rescue", "")
    for path in (directory, *directory.iterdir()):
        os.chown(path, OPERATOR, OPERATOR)
    left = blocks(directory / "fleet.key", machine)
    assert home_keys.destroy(home_keys.places()) == (1, [])
    assert [path.name for path in directory.iterdir()] == ["fleet.card"]
    assert b"PRIVATE" not in left.read_bytes()


@pytest.mark.parametrize(
    ("place", "owner"), [("root", 0), ("srv/other", OTHER), ("home/remote", OTHER), ("home/operator", OPERATOR)]
)
@pytest.mark.parametrize("name", ["fleet.key", ".fleet.key.0123456789abcdef"])
def test_every_home_is_searched_also_for_what_was_interrupted(machine: Path, place: str, owner: int, name: str) -> None:
    key = owned(machine / place / ".meshsec-fleet" / name, owner)
    card = owned(key.with_name("fleet.card"), owner)
    assert home_keys.destroy(home_keys.places()) == (1, [])
    assert not key.exists()
    assert card.exists()


def test_a_key_that_root_made_in_a_users_home_goes_too(machine: Path) -> None:
    key = owned(machine / "home/operator/.meshsec-fleet/fleet.key", 0)
    assert home_keys.destroy(home_keys.places()) == (1, [])
    assert not key.exists()


def test_no_users_link_makes_root_overwrite_another_file(machine: Path) -> None:
    shadow = machine / "shadow"
    shadow.write_bytes(SECRET)
    key = owned(machine / "home/operator/.meshsec-fleet/fleet.card", OPERATOR).with_name("fleet.key")
    key.symlink_to(shadow)
    # The directory of another user's fleet is a link to one with somebody's key.
    owned(machine / "ssl/site.key", 0)
    (machine / "srv/other/.meshsec-fleet").symlink_to(machine / "ssl")
    count, failures = home_keys.destroy(home_keys.places())
    assert count == 0
    assert sorted(one.what for one in failures) == [str(key), str(machine / "srv/other/.meshsec-fleet")]
    assert all("symbolic link; what it points to was not touched" in one.why for one in failures)
    assert not key.is_symlink()
    assert shadow.read_bytes() == (machine / "ssl/site.key").read_bytes() == SECRET


def test_another_name_of_somebody_elses_file_is_not_overwritten(machine: Path) -> None:
    """A kernel without fs.protected_hardlinks lets a user make such a name."""
    files = [owned(machine / "shadow", 0), owned(machine / "letter", OTHER)]
    directory = owned(machine / "home/operator/.meshsec-fleet/fleet.card", OPERATOR).parent
    for number, file in enumerate(files):
        (directory / f"{number}.key").hardlink_to(file)
    count, failures = home_keys.destroy(home_keys.places())
    assert (count, len(failures)) == (0, 2)
    assert "belongs to user 0, who is not the directory's owner; it was not touched" in failures[0].why
    assert [file.read_bytes() for file in files] == [SECRET, SECRET]


def test_a_pipe_or_directory_in_a_keys_place_holds_nobody_up(machine: Path) -> None:
    directory = owned(machine / "home/operator/.meshsec-fleet/fleet.key", OPERATOR).parent
    os.mkfifo(directory / "a.key")
    (directory / "b.key").mkdir()
    count, failures = home_keys.destroy(home_keys.places())
    assert count == 1
    assert [Path(one.what).name for one in failures] == ["a.key", "b.key"]


def test_a_directory_that_the_environment_names_is_searched(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = owned(machine / "office/fleet.key", OPERATOR)
    assert home_keys.destroy(home_keys.places()) == (0, [])
    monkeypatch.setenv("MESHSEC_FLEET", str(key.parent))
    assert home_keys.destroy(home_keys.places()) == (1, [])
    assert not key.exists()


def test_under_sudo_the_home_is_that_of_its_user(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then two users are named for one home."""
    monkeypatch.setenv("HOME", str(machine / "home/operator"))
    owned(machine / "home/operator/.meshsec-fleet/fleet.key", OPERATOR)
    assert home_keys.destroy(home_keys.places()) == (1, [])


def test_a_machine_without_the_file_of_users_has_homes_all_the_same(machine: Path) -> None:
    (machine / "passwd").unlink()
    owned(machine / "home/operator/.meshsec-fleet/fleet.key", OPERATOR)
    assert home_keys.destroy(home_keys.places()) == (1, [])
