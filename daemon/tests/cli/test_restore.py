"""``restore`` trusts no file: a forged one neither writes nor removes what is not the node's, nor takes a bad key."""

import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from cli.saved_node import PASSPHRASE, Meshsec, elsewhere, emptied, resealed, restored, saved, state
from meshsec import files
from meshsec.adapters.files import backup as archives
from meshsec.adapters.files import key_store

__all__ = ["elsewhere", "saved"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads and writes a node's key")

Members = dict[str, bytes]


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Return a directory with somebody else's files."""
    place = tmp_path / "etc"
    (place / "deep").mkdir(parents=True)
    for name in ("passwd", "deep/shadow"):
        (place / name).write_text("somebody's")
    return place


def untouched(others: Path) -> bool:
    return sorted(path.name for path in others.rglob("*")) == ["deep", "passwd", "shadow"]


def name_of(path: Path) -> str:
    return str(path).lstrip("/")


def claims(members: Members, field: str, value: object) -> None:
    """Let the manifest say something else."""
    manifest = json.loads(members[archives.MANIFEST])
    members[archives.MANIFEST] = json.dumps({**manifest, field: value}).encode()


def configured(members: Members, config: Path, key: str, value: Path) -> None:
    """Let the configuration and the manifest say, in agreement, that files are elsewhere."""
    text, line, old = members[name_of(config)].decode(), f'{key} = "{key}"', config.parent / key
    assert line in text
    members[name_of(config)] = text.replace(line, f'{key} = "{value}"').encode()
    members[archives.MANIFEST] = members[archives.MANIFEST].replace(str(old).encode(), str(value).encode())
    for name in [name for name in members if name.startswith(name_of(old))]:
        members[name.replace(name_of(old), name_of(value))] = members.pop(name)


@pytest.mark.parametrize("field", ["own", "directories", "files"])
def test_a_manifest_names_no_other_place_than_the_configuration(
    saved: Path, meshsec: Meshsec, tmp_path: Path, others: Path, field: str
) -> None:
    before = state(tmp_path)
    resealed(saved, lambda members: claims(members, field, [str(others)]))
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    said = f"{saved}: {archives.MANIFEST} has {others} in '{field}'; its configuration and meshsec allow: "
    assert said in refused.output
    assert untouched(others)
    assert state(tmp_path) == before


@pytest.mark.parametrize("key", ["peers", "state"])
def test_a_configuration_in_the_file_puts_nothing_into_places_of_others(
    saved: Path, meshsec: Meshsec, tmp_path: Path, others: Path, key: str
) -> None:
    before, config = state(tmp_path), tmp_path / "a/meshsec.toml"
    resealed(saved, lambda members: configured(members, config, key, others))
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert f"{config} in it puts files into {others}; allowed: /etc/meshsec, " in refused.output
    assert f"`meshsec --config {config} restore {saved} --directory {others}`" in refused.output
    assert untouched(others)
    assert state(tmp_path) == before
    # Also where the operator names the directory, nothing is removed that this machine did not have as a node's.
    refused = restored(meshsec, saved, "--replace", "--directory", str(others))
    assert refused.exit_code == 1
    assert f"{others / 'deep/shadow'} is not in the backup" in refused.output
    assert untouched(others)
    assert state(tmp_path) == before


def test_a_new_machine_takes_a_node_with_places_of_its_own_if_they_are_named(
    saved: Path, meshsec: Meshsec, tmp_path: Path
) -> None:
    config, place = tmp_path / "a/meshsec.toml", tmp_path / "srv/mesh"
    resealed(saved, lambda members: configured(members, config, "state", place))
    emptied(tmp_path)
    named = ("--directory", str(config.parent), "--directory", str(place))
    assert restored(meshsec, saved, *named[:2]).exit_code == 1
    assert not any(config.parent.iterdir())
    done = restored(meshsec, saved, *named)
    assert done.exit_code == 0, done.output
    assert (place / "node.key").exists()


def link(path: Path, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name_of(path))
    member.type, member.linkname = kind, name_of(path.with_name("boat.card"))
    return member


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(saved: Path, meshsec: Meshsec, tmp_path: Path, kind: bytes) -> None:
    before = state(tmp_path)
    resealed(saved, lambda _: None, [link(tmp_path / "a/peers/more.card", kind)])
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert "more.card', which is a link, a directory or a device; allowed: regular files" in refused.output
    assert state(tmp_path) == before


@pytest.mark.parametrize("name", ["a/../b", "a//b", "a/./b", ".replaced-units.json", "node.key.sealed", "x.log"])
def test_names_that_no_backup_has_are_refused(saved: Path, meshsec: Meshsec, tmp_path: Path, name: str) -> None:
    before = state(tmp_path)
    resealed(saved, lambda members: members.update({f"{name_of(tmp_path)}/a/state/{name}": b"{}"}))
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert re.search(rf"holds \S*a/state/{re.escape(name)}", refused.output)
    assert state(tmp_path) == before


def test_an_absolute_name_and_a_name_twice_are_refused(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    before, key = state(tmp_path), tmp_path / "a/state/node.key"
    resealed(saved, lambda members: members.update({str(key): members[name_of(key)]}))
    assert "without a leading /" in restored(meshsec, saved, "--replace").output
    resealed(saved, lambda members: members.pop(str(key)) and None, [tarfile.TarInfo(name_of(key))])
    assert "twice" in restored(meshsec, saved, "--replace").output
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("node.key", b"junk", "node.key: is no unencrypted PKCS#8 key in PEM"),
        ("node.next.key", b"junk", "node.next.key: is no unencrypted PKCS#8 key in PEM"),
        ("node.pub", b"junk", "node.pub: is no public key in PEM"),
    ],
)
def test_a_key_that_is_none_is_not_put_in_place(  # noqa: PLR0917  # fixtures and parameters
    saved: Path, meshsec: Meshsec, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    before = state(tmp_path)
    resealed(saved, lambda members: members.update({name_of(tmp_path / "a/state" / name): content}))
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert f"{saved}: {tmp_path}/a/state/{said}" in refused.output
    assert state(tmp_path) == before


def test_a_key_of_another_card_is_not_put_in_place(
    saved: Path, meshsec: Meshsec, boat: Meshsec, tmp_path: Path
) -> None:
    before = state(tmp_path)
    key = tmp_path / "a/state/node.key"
    resealed(saved, lambda members: members.update({name_of(key): (tmp_path / "boat/state/node.key").read_bytes()}))
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert f"{key}: belongs to another public key than {key.with_suffix('.pub')}" in refused.output
    assert state(tmp_path) == before


def test_profiles_beside_the_configuration_are_known(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    (tmp_path / "a/policies").mkdir()
    (tmp_path / "a/policies/own.toml").write_text("")
    with config.open("a") as file:
        file.write('[policy]\nprofile = "own"\n')
    assert meshsec("check").exit_code == 0
    saved.unlink()
    assert meshsec("backup", str(saved), "--passphrase-stdin", input=PASSPHRASE).exit_code == 0
    emptied(tmp_path)
    done = restored(meshsec, saved, "--directory", str(config.parent))
    assert done.exit_code == 0, done.output


def test_a_link_among_the_directories_is_not_followed(
    saved: Path, meshsec: Meshsec, tmp_path: Path, others: Path
) -> None:
    resealed(saved, lambda members: members.update({name_of(tmp_path / "a/peers/more/x.card"): b"x"}))
    (tmp_path / "a/peers/more").symlink_to(others)
    refused = restored(meshsec, saved, "--replace")
    assert refused.exit_code == 1
    assert "more: is a symbolic link; allowed: a directory" in refused.output
    assert untouched(others)


def linked(path: Path, tmp_path: Path) -> Path:
    """Return another name of a file, by which its blocks can be looked at when the first one is gone."""
    other = tmp_path / f"blocks-of-{path.name}"
    other.hardlink_to(path)
    return other


def test_replacing_overwrites_the_keys_that_were_here(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    state_directory = tmp_path / "a/state"
    following = key_store.next_path(state_directory / "node.key")
    key_store.create_next(state_directory / "node.key")
    for name in (".node.key.0123456789abcdef", "node.key.unsealed"):
        (state_directory / name).write_bytes(b"PRIVATE KEY")
    hidden = linked(state_directory / ".node.key.0123456789abcdef", tmp_path)
    password = tmp_path / "credstore/meshsec.sae-password"
    blocks = [linked(one, tmp_path) for one in (state_directory / "node.key", following, password)]
    before = [one.read_bytes() for one in blocks]
    done = restored(meshsec, saved, "--replace")
    assert done.exit_code == 0, done.output
    for one, content in zip(blocks, before, strict=True):
        assert one.read_bytes() != content, one
        assert len(one.read_bytes()) == len(content)
    assert b"PRIVATE" not in hidden.read_bytes()
    assert not following.exists()
    assert sorted(path.name for path in state_directory.iterdir()) == ["node.key", "node.pub"]


def test_the_key_of_a_node_with_other_places_is_destroyed_too(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    config, other = tmp_path / "a/meshsec.toml", tmp_path / "other"
    config.write_text(config.read_text().replace('state = "state"', f'state = "{other}"'))
    (tmp_path / "a/state").rename(other)
    block = linked(other / "node.key", tmp_path)
    refused = restored(meshsec, saved)
    assert f"{other / 'node.key'} exists" in refused.output
    done = restored(meshsec, saved, "--replace")
    assert done.exit_code == 0, done.output
    assert not list(other.glob("node.*"))
    assert b"PRIVATE" not in block.read_bytes()


class CutError(Exception):
    """The power failed."""


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_after_a_power_cut_nothing_uses_the_key_until_the_next_restore(
    saved: Path, meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The files of two nodes are mixed then: name and trust of one, the key of the other."""
    before, mark = state(tmp_path), tmp_path / "a/state/.restore-interrupted"
    rename, calls = files.rename, iter(range(100))

    def cut(path: Path, target: Path) -> None:
        if next(calls) == after:
            raise CutError
        rename(path, target)

    with monkeypatch.context() as cutting:
        cutting.setattr(files, "rename", cut)
        with pytest.raises(CutError):
            restored(meshsec, saved, "--replace")
    assert mark.exists()
    said = f"{mark}: `meshsec restore` was interrupted"
    for command in (("init",), ("key", "show"), ("status",)):
        refused = meshsec(*command)
        assert refused.exit_code != 0
        if command != ("status",):
            assert said in refused.output
    doctor = meshsec("doctor")
    assert said in doctor.output
    assert "`meshsec restore FILE` completes it" in doctor.output
    with pytest.raises(key_store.HalfRestoredError, match=r"`meshsec restore FILE` completes it"):
        key_store.load(tmp_path / "a/state/node.key")
    done = restored(meshsec, saved)
    assert done.exit_code == 0, done.output
    assert f"{mark}: an earlier `meshsec restore` was interrupted" in done.output
    assert state(tmp_path) == before
    assert not [path for path in tmp_path.rglob(".*") if path.name != ".lock"]


def test_a_new_board_whose_power_was_cut_makes_no_other_key(
    saved: Path, meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(tmp_path)

    def cut(path: Path, target: Path) -> None:
        raise CutError

    with monkeypatch.context() as cutting:
        cutting.setattr(files, "rename", cut)
        with pytest.raises(CutError):
            restored(meshsec, saved, "--directory", str(tmp_path / "a"))
    with pytest.raises(key_store.HalfRestoredError):
        key_store.create(tmp_path / "a/state/node.key")
    assert restored(meshsec, saved, "--directory", str(tmp_path / "a")).exit_code == 0
