"""The file that keeps the operator's choices of data planes."""

from ipaddress import IPv6Address
from pathlib import Path

import pytest

from meshsec.adapters.files.mode_store import ModeStoreError, load, save
from meshsec.core.values.model import DataPlane, Modes

PEER = IPv6Address("fc00::b")


@pytest.mark.parametrize(
    "modes",
    [
        Modes(),
        Modes(DataPlane.OVERLAY),
        Modes(None, {PEER: DataPlane.OVERLAY, IPv6Address("fc00::c"): DataPlane.IPSEC}),
    ],
)
def test_saved_choices_are_read_again(tmp_path: Path, modes: Modes) -> None:
    path = tmp_path / "state" / "modes.json"
    save(path, modes)
    assert load(path) == modes


def test_without_a_file_nothing_is_chosen(tmp_path: Path) -> None:
    assert load(tmp_path / "modes.json") == Modes()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "truncated"),
        ('{"default": "plain"}', r"'plain'.*\$\.default"),
        ('{"peers": {"boat": "overlay"}}', "'boat'"),
        ('{"peers": {"fc00::b": 1}}', r"\$\.peers"),
        ('{"default": "ipsec", "more": 1}', "more"),
        ('{"default": "' + "x" * 2**20 + '"}', "longer than"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "modes.json"
    path.write_text(content)
    with pytest.raises(ModeStoreError, match=why) as refused:
        load(path)
    assert str(path) in str(refused.value)


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "modes.json"
    path.mkdir()
    with pytest.raises(ModeStoreError, match="nothing was changed"):
        save(path, Modes(DataPlane.OVERLAY))
