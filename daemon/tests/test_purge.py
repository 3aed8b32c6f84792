"""What the package's own script removes in a purge; tests/packages runs it in a Debian of its own."""

import re
import subprocess
from pathlib import Path

import pytest

from meshsec.adapters.files import secret_file

POSTRM = Path(__file__).parents[1] / "debian/meshsec.postrm"
PLACES = re.compile(r"(?<= )/(?=(?:etc|run|var)/)")


def purge(root: Path) -> str:
    """Run the script on the files below ``root``, and return what it says."""
    text = PLACES.sub(f"{root}/", POSTRM.read_text(encoding="utf-8"))
    assert text.count(f"{root}/") >= 3, "it must not run on this machine's own files"
    assert not re.search(r"[ '\"]/(?:etc|run|var)/", text.split("echo", 1)[0])
    done = subprocess.run(["sh", "-c", text, "postrm", "purge"], capture_output=True, text=True, check=True, timeout=30)
    return done.stderr


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a node's state directory with what a purge removes."""
    place = tmp_path / "var/lib/meshsec"
    for path in (place / "lives", place / "second-secret", place / "cache/deep", tmp_path / "etc/meshsec/meshsec.toml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
    return place


def test_a_purge_keeps_the_key_and_nothing_else(state: Path, tmp_path: Path) -> None:
    for name in ("node.key", "node.next.key", "node.pub"):
        (state / name).write_text(name)
    assert "identity stays" in purge(tmp_path)
    assert {path.name for path in state.iterdir()} == {"node.key", "node.next.key", "node.pub"}
    assert not (tmp_path / "etc/meshsec").exists()


@pytest.mark.parametrize("end", secret_file.SURPLUS)
def test_a_purge_keeps_a_sealed_key_and_one_whose_sealing_was_interrupted(
    state: Path, tmp_path: Path, end: str
) -> None:
    """Under the key's own name is a link to memory then, so that this file has the only copy."""
    kept = {"node.key", "node.pub", f"node.key{end}", f"node.next.key{end}"}
    (state / "node.key").symlink_to("/run/meshsec/keys/node.key")
    for name in kept - {"node.key"}:
        (state / name).write_text(name)
    (state / f"second-secret{end}").write_text("content")
    assert "identity stays" in purge(tmp_path)
    assert {path.name for path in state.iterdir()} == kept


def test_a_purge_of_a_machine_without_a_key_leaves_nothing_and_says_nothing(state: Path, tmp_path: Path) -> None:
    assert purge(tmp_path) == ""
    assert not state.exists()
