"""A node asks to join the fleet that a file or a QR code on its disk names: the image's script, with the real CLI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from image import root

pytestmark = pytest.mark.thorough

LIBRARY = root.HERE / "files/usr/lib/meshsec-image"
CLI = Path(sys.executable).parent / "meshsec"


class Node:
    """A node's files below a folder, and its boots, as far as the script sees them."""

    def __init__(self, folder: Path) -> None:
        self.given, self._state, self._scripts = folder / "given", folder / "state", folder / "scripts"
        for one in (self.given, self._state, self._scripts):
            one.mkdir(parents=True)
        places = {
            "/usr/lib/meshsec-image": str(self._scripts),
            "/efi/meshsec": str(self.given),
            "/var/lib/node": str(self._state),
        }
        for name in ("given", "join"):
            text = (LIBRARY / name).read_text(encoding="ascii")
            for place, here in places.items():
                text = text.replace(place, here)
            (self._scripts / name).write_text(text, encoding="ascii")
        config = folder / "etc/meshsec.toml"
        self._environment = os.environ | {"MESHSEC_CONFIG": str(config), "PATH": f"{CLI.parent}:{os.environ['PATH']}"}
        config.parent.mkdir()
        lines = [f'{name} = "{folder / "etc" / name}"' for name in ("peers", "state", "run")]
        head = "[node]\nname = 'new'\n[routing]\ninterfaces = ['mesh0']\n[paths]\n"
        config.write_text(head + "\n".join(lines), encoding="ascii")
        self.run("init")

    def run(self, *words: str) -> str:
        """Return what a command of this node's prints."""
        done = subprocess.run(
            [CLI, *words], env=self._environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True
        )
        return done.stdout

    def boot(self) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            ["sh", self._scripts / "join"], env=self._environment, capture_output=True, text=True, check=False
        )

    def fleets(self) -> str:
        """Return what the node says of its fleets."""
        return self.run("fleet", "status")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "new")


@pytest.fixture(scope="module")
def rescue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give what the operator of a fleet writes for a new node."""
    return _files(tmp_path_factory.mktemp("rescue"), "rescue")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the same of another fleet."""
    return _files(tmp_path_factory.mktemp("other"), "other")


def _files(directory: Path, name: str) -> Path:
    for words in (["init", name], ["join-file", directory]):
        subprocess.run([CLI, "fleet", *words, "--directory", directory / "key"], check=True, capture_output=True)
    return directory


def _give(node: Node, fleet: Path, name: str = "meshsec.join") -> None:
    shutil.copyfile(fleet / name, node.given / name)


def test_a_file_is_taken_once(node: Node, rescue: Path) -> None:
    assert node.boot().returncode == 0, "nothing was given"
    _give(node, rescue)
    first = node.boot()
    assert first.returncode == 0, first.stderr
    assert "Read these six words to its operator" in first.stdout
    assert "rescue" in node.fleets()
    again = node.boot()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")

    node.run("fleet", "leave", "rescue")
    assert node.boot().returncode == 0
    assert "No fleet" in node.fleets(), "who made it leave is not overruled by the next boot"


def test_six_words_and_a_windows_editor_will_do(node: Node, rescue: Path) -> None:
    shown = node.run("fleet", "show", "--directory", str(rescue / "key"))
    words = next(line.removeprefix("words").strip() for line in shown.splitlines() if line.startswith("words"))
    (node.given / "meshsec.join").write_text(f"{words}\r\n\r\n", encoding="ascii", newline="")
    done = node.boot()
    assert done.returncode == 0, done.stderr
    assert "looks for the fleet" in done.stdout


def test_another_fleets_file_changes_nothing(node: Node, rescue: Path, other: Path) -> None:
    _give(node, rescue)
    assert node.boot().returncode == 0
    before = node.fleets()
    _give(node, other)
    refused = node.boot()
    assert refused.returncode == 1
    assert "<3>join: meshsec.join is another one than this node has taken before" in refused.stderr
    assert node.fleets() == before
    _give(node, rescue)
    assert node.boot().returncode == 0, "with the first one again all is well"


def test_a_node_that_joined_by_hand_keeps_its_fleet(node: Node, rescue: Path, other: Path) -> None:
    _give(node, rescue)
    node.run("fleet", "join", (node.given / "meshsec.join").read_text(encoding="ascii").strip())
    before = node.fleets()
    _give(node, other)
    refused = node.boot()
    assert refused.returncode == 1
    assert "this node has the fleet rescue already" in refused.stderr
    assert node.fleets() == before


def test_bad_files_are_refused_and_a_better_one_taken_later(node: Node, rescue: Path) -> None:
    card = (rescue / "meshsec.join").read_text(encoding="ascii")
    for text, said in {
        "": "is empty",
        card.swapcase().replace("MESHSEC-FLEET1", "meshsec-fleet1"): "damaged",
        "one two three four five six": "is not a word of the list",
        "--help": "allowed: a fleet's card or its six words",
        "@/etc/shadow": "allowed: a fleet's card or its six words",
    }.items():
        (node.given / "meshsec.join").write_text(text, encoding="ascii")
        refused = node.boot()
        assert refused.returncode == 1
        assert said in refused.stderr
        assert "this node stays as it was" in refused.stderr
    assert "No fleet" in node.fleets()
    _give(node, rescue)
    assert node.boot().returncode == 0
    assert "rescue" in node.fleets()


@pytest.mark.skipif(shutil.which("ZXingReader") is None, reason="ZXingReader is not installed: `tools/setup image`")
def test_a_picture_says_the_same(node: Node, rescue: Path) -> None:
    _give(node, rescue, "meshsec.join.png")
    text, picture = node.given / "meshsec.join", node.given / "meshsec.join.png"
    drawn = picture.read_bytes()
    for bad, said in ((drawn[:100], "no QR code is found"), (b"", "no QR code"), (bytes(1 << 21), "larger than")):
        picture.write_bytes(bad)
        refused = node.boot()
        assert refused.returncode == 1
        assert said in refused.stderr
    assert "No fleet" in node.fleets()
    picture.write_bytes(drawn)
    done = node.boot()
    assert done.returncode == 0, done.stderr
    assert "rescue" in node.fleets()
    text.write_bytes(b"")
    assert node.boot().returncode == 1, "the file counts before the picture"
