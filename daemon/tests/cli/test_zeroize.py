"""``meshsec zeroize`` asks before it destroys, needs no good configuration, and says what it could not destroy."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from meshsec.adapters import syslog
from namespaces import inside, new_namespace

__all__ = ["inside", "new_namespace"]

Meshsec = Callable[..., Result]
YES = "--yes-destroy-keys"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root destroys a node's key"),
    pytest.mark.usefixtures("inside"),  # It flushes the SAs of the namespace that it runs in.
]


@pytest.fixture
def key(meshsec: Meshsec, tmp_path: Path) -> Path:
    assert meshsec("key", "show").exit_code == 0
    return tmp_path / "a/state/node.key"


def test_the_key_goes_and_a_word_is_needed_for_that(meshsec: Meshsec, key: Path) -> None:
    refused = meshsec("zeroize", input="destroy\n")
    assert refused.exit_code == 2
    assert YES in refused.output
    assert key.exists()
    done = meshsec("zeroize", YES)
    assert (done.exit_code, done.output) == (0, "Files destroyed: 1. Processes ended: none.\n")
    assert not key.exists()
    assert key.with_suffix(".pub").exists(), "nobody could say which card is to be revoked"
    assert meshsec("zeroize", YES).exit_code == 0


def test_values_that_are_refused_elsewhere_save_no_key(meshsec: Meshsec, key: Path, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(f"nonsense = true\n{config.read_text()}")
    assert meshsec("check").exit_code != 0
    assert meshsec("zeroize", YES).exit_code == 0
    assert not key.exists()


@pytest.mark.parametrize("content", [None, "[paths\n"])
def test_where_the_keys_are_must_be_known(meshsec: Meshsec, key: Path, tmp_path: Path, content: str | None) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.unlink()
    if content is not None:
        config.write_text(content)
    refused = meshsec("zeroize", YES)
    assert refused.exit_code == 1
    assert f"{config}: " in refused.output
    assert "Nothing was destroyed" in refused.output
    assert key.exists()


def test_what_is_left_is_named_and_is_in_the_log(
    meshsec: Meshsec, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key.parent / "old.key").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(syslog, "SOCKET", str(tmp_path / "log"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        done = meshsec("zeroize", YES)
        said = log.recv(4096).decode()
    assert done.exit_code == 1
    assert "NOT DESTROYED:" in done.output
    assert str(tmp_path / "elsewhere") in done.output
    assert said.startswith("<34>meshsec[")
    assert "keys were destroyed. Files: 2." in said
    assert str(tmp_path / "elsewhere") in said
    assert not key.exists()
