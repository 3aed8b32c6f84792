"""The node's key on disk: its two files, their rights, and the change to a next key."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from meshsec import files
from meshsec.adapters.files import key_store
from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.core.trust.identity import make_card


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.key"


def test_a_made_key_is_read_back_and_gives_a_node(path: Path) -> None:
    made = key_store.create(path)
    assert key_store.load(path).pkcs8_pem() == made.pkcs8_pem() == path.read_bytes()
    assert make_card("node", made.public_key).address.packed[0] == 0xFC


def test_only_its_owner_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        key_store.create(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_everybody_may_read_the_public_half(path: Path) -> None:
    made = key_store.create(path)
    public = path.with_suffix(".pub")
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert "PRIVATE" not in public.read_text()
    path.unlink()
    assert key_store.load_public(path) == made.public_key


def test_without_its_public_half_the_key_itself_is_read(path: Path) -> None:
    made = key_store.create(path)
    path.with_suffix(".pub").unlink()
    assert key_store.load_public(path) == made.public_key


def test_a_public_half_of_another_key_is_refused_with_the_command_that_removes_it(path: Path, tmp_path: Path) -> None:
    made, public = key_store.create(path), path.with_suffix(".pub")
    public.write_bytes(key_store.create(tmp_path / "other.key").public_pem())
    for read in (key_store.load, key_store.load_public):
        with pytest.raises(KeyStoreError, match=rf"belongs to another public key than .*; .*`rm {public}`"):
            read(path)
    public.unlink()
    assert key_store.load_public(path) == made.public_key


def test_a_key_is_never_overwritten(path: Path) -> None:
    first = key_store.create(path).public_key
    with pytest.raises(KeyStoreError, match="never overwritten"):
        key_store.create(path)
    assert key_store.load(path).public_key == first


def test_the_repr_of_a_key_does_not_show_it(path: Path) -> None:
    key = key_store.create(path)
    seed = key.seed()
    for text in (repr(key), str(key), f"{key}"):
        assert seed.hex() not in text
        assert repr(seed) not in text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o644, 0o601])
def test_a_key_that_others_may_use_is_refused(mode: int, path: Path) -> None:
    key_store.create(path)
    path.chmod(mode)
    with pytest.raises(KeyStoreError, match=rf"has mode {mode:04o}.*chmod 600 {path}"):
        key_store.load(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_somebody_else_is_refused(path: Path) -> None:
    key_store.create(path)
    os.chown(path, 12345, -1)
    with pytest.raises(KeyStoreError, match="belongs to user 12345; allowed: root"):
        key_store.load(path)


def test_a_link_is_not_followed(path: Path) -> None:
    key_store.create(path)
    link = path.with_name("link.key")
    link.symlink_to(path)
    with pytest.raises(KeyStoreError, match="symbolic links"):
        key_store.load(link)


def test_a_pipe_does_not_block(path: Path) -> None:
    os.mkfifo(path, 0o600)
    with pytest.raises(KeyStoreError, match="is no regular file"):
        key_store.load(path)


def test_a_missing_key_says_what_makes_one(path: Path) -> None:
    with pytest.raises(KeyStoreError, match="`meshsec init` makes one"):
        key_store.load(path)


def test_another_kind_of_key_is_refused(path: Path) -> None:
    other = generate_private_key(SECP256R1())
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(KeyStoreError, match="is not an Ed25519 key"):
        key_store.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_without_a_key_is_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyStoreError, match="is no unencrypted PKCS#8 key in PEM"):
        key_store.load(path)
    path.with_suffix(".pub").write_bytes(content)
    path.unlink()
    with pytest.raises(KeyStoreError, match="is no public key in PEM"):
        key_store.load_public(path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyStoreError, match=r"missing/node\.key: No such file or directory; nothing was changed"):
        key_store.create(tmp_path / "missing/node.key")


def halves(path: Path) -> dict[str, bytes]:
    """Return the public key of each private key's file, and check that both files agree."""
    found = [one for one in (path, key_store.next_path(path)) if one.exists()]
    assert all(key_store.load(one).public_key == key_store.load_public(one) for one in found)
    return {one.name: key_store.load_public(one) for one in found}


def test_a_next_key_is_made_once_and_takes_the_place_of_the_present_one(path: Path) -> None:
    old = key_store.create(path).public_key
    new = key_store.create_next(path).public_key
    assert key_store.create_next(path).public_key == new != old
    assert halves(path) == {"node.key": old, "node.next.key": new}
    assert stat.S_IMODE(key_store.next_path(path).stat().st_mode) == 0o600
    key_store.end(path)
    assert halves(path) == {"node.key": new}
    assert sorted(one.name for one in path.parent.iterdir()) == ["node.key", "node.pub", "node.rotation"]


def test_a_key_is_found_by_its_public_half_while_it_is_one_of_the_node(path: Path) -> None:
    first, second = key_store.create(path), key_store.create_next(path)
    assert [key_store.find(path, one.public_key).pkcs8_pem() for one in (first, second)] == [
        first.pkcs8_pem(),
        second.pkcs8_pem(),
    ]
    key_store.end(path)
    assert key_store.find(path, second.public_key).pkcs8_pem() == second.pkcs8_pem()
    with pytest.raises(KeyStoreError, match="the key was changed"):
        key_store.find(path, first.public_key)


def test_each_keys_channels_keep_their_mark_over_the_changes(path: Path) -> None:
    key_store.create(path)
    marks = {key_store.load_public(path): ""}
    for _ in range(3):
        following = key_store.create_next(path).public_key
        rotation = key_store.rotation(path)
        assert rotation is not None
        assert rotation.mark_of(key_store.load_public(path)) == marks[key_store.load_public(path)]
        marks[following] = rotation.mark_of(following)
        assert marks[following] != marks[key_store.load_public(path)]
        key_store.end(path)
        ended = key_store.rotation(path)
        assert ended is not None
        assert ended.mark_of(following) == marks[following]


def test_a_cancelled_change_leaves_the_present_key_and_its_mark(path: Path) -> None:
    old = key_store.create(path).public_key
    for _ in range(2):
        key_store.create_next(path)
        key_store.cancel(path)
        rotation = key_store.rotation(path)
        assert rotation is not None
        assert rotation.mark_of(old) == ""
    assert halves(path) == {"node.key": old}


def test_an_end_without_a_next_key_is_refused(path: Path) -> None:
    old = key_store.create(path).public_key
    with pytest.raises(KeyStoreError, match="key next"):
        key_store.end(path)
    assert halves(path) == {"node.key": old}


class PowerCutError(Exception):
    """Raised in place of a change of the disk, so that nothing runs after it."""


def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Raise PowerCutError instead of the change of the disk with this number (from 0)."""
    left = iter(range(steps))
    for name in ("write", "rename", "remove"):
        real = getattr(files, name)

        def step(*arguments: object, real: Callable[..., None] = real, **options: object) -> None:
            if next(left, None) is None:
                raise PowerCutError
            real(*arguments, **options)

        monkeypatch.setattr(files, name, step)


@pytest.mark.parametrize("steps", range(4))
def test_an_interrupted_key_next_is_completed_by_the_next_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    old = key_store.create(path).public_key
    with monkeypatch.context() as patch:
        cut_after(patch, steps)
        with suppress(PowerCutError):
            key_store.create_next(path)
    assert halves(path)["node.key"] == old
    made = key_store.create_next(path).public_key
    assert halves(path) == {"node.key": old, "node.next.key": made}
    rotation = key_store.rotation(path)
    assert rotation is not None
    assert (rotation.mark_of(old), rotation.mark_of(made)) == ("", key_store.MARK)


@pytest.mark.parametrize("steps", range(5))
def test_an_interrupted_key_end_leaves_a_whole_key_and_is_completed_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    old, new = key_store.create(path).public_key, key_store.create_next(path).public_key
    with monkeypatch.context() as patch:
        cut_after(patch, steps)
        with suppress(PowerCutError):
            key_store.end(path)
    assert halves(path)["node.key"] in (old, new)
    if halves(path)["node.key"] == old or not path.with_suffix(".pub").exists():
        key_store.end(path)
    assert halves(path) == {"node.key": new}


@pytest.mark.parametrize("content", ["", "[]", '{"old": "", "next": ""}', '{"old": "", "next": "", "mark": "x"}'])
def test_a_damaged_record_of_a_key_change_is_refused_by_name(path: Path, content: str) -> None:
    key_store.create(path)
    path.with_suffix(".rotation").write_text(content)
    with pytest.raises(KeyStoreError, match=r"node\.rotation"):
        key_store.rotation(path)
