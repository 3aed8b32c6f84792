"""``zeroize --watch`` ends with its own status when a key was held or nobody touched the node, and destroys nothing."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result

from children import child
from meshsec.adapters import input_keys, syslog
from meshsec.adapters.files import untouched_store
from meshsec.adapters.input_keys import InputKeys
from meshsec.cli import zeroize_watch
from meshsec.core.zeroize.dead_man import Untouched
from meshsec.core.zeroize.keys import CODES
from namespaces import wait_for

Meshsec = Callable[..., Result]
HOUR = 3600.0
UINPUT = Path("/dev/uinput")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root watches")


@pytest.fixture
def untouched(meshsec: Meshsec, tmp_path: Path) -> Path:
    """Give the record of a node with a timer of two hours."""
    assert meshsec("key", "show").exit_code == 0
    with (tmp_path / "a/meshsec.toml").open("a") as file:
        file.write("\n[zeroize]\ndead_man_h = 2\n")
    return tmp_path / "a/state/untouched"


def kept(path: Path, seconds: float, boot: str = "") -> None:
    untouched_store.save(path, Untouched(seconds, boot or untouched_store.boot(), untouched_store.now()))


def test_without_a_trigger_it_ends_at_once(meshsec: Meshsec) -> None:
    done = meshsec("zeroize", "--watch")
    assert done.exit_code == 0
    assert "neither key nor dead_man_h" in done.output
    assert "has no dead_man_h" in meshsec("alive").output


@pytest.mark.parametrize("boot", ["", "an earlier one"])
def test_a_node_that_nobody_touched_for_so_long_says_so_and_keeps_its_key(
    meshsec: Meshsec, untouched: Path, boot: str
) -> None:
    kept(untouched, 2 * HOUR, boot)
    done = meshsec("zeroize", "--watch")
    assert done.exit_code == zeroize_watch.DESTROY
    assert "nobody has said `meshsec alive` for 2 h" in done.output
    assert untouched.with_name("node.key").exists()


REFUSED_ELSEWHERE = {
    "an unknown key": ("[routing]\n", "[routing]\nnonsense = true\n"),
    "no interface": ('interfaces = ["mesh0"]', "interfaces = 7"),
    "a profile that is missing": ("[zeroize]\n", '[policy]\nprofile = "missing"\n[zeroize]\n'),
    "another path": ('peers = "peers"', "peers = []"),
}


def changed(tmp_path: Path, before: str, after: str) -> None:
    config = tmp_path / "a/meshsec.toml"
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after))


@pytest.mark.parametrize("change", REFUSED_ELSEWHERE.values(), ids=list(REFUSED_ELSEWHERE))
def test_a_value_that_is_refused_elsewhere_disarms_nothing(
    meshsec: Meshsec, untouched: Path, tmp_path: Path, change: tuple[str, str]
) -> None:
    changed(tmp_path, *change)
    assert meshsec("check").exit_code != 0
    assert meshsec("alive").exit_code == 0
    kept(untouched, 2 * HOUR)
    assert meshsec("zeroize", "--watch").exit_code == zeroize_watch.DESTROY


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('key = "KEY_NONE"', "zeroize.key: 'KEY_NONE' is not allowed; allowed: a name such as"),
        ("hold_s = 99", "zeroize.hold_s: 99 is not allowed; allowed:"),
        ("nonsense = 1", "zeroize.nonsense: is not a known key"),
    ],
)
def test_a_refused_value_beside_says_what_is_in_force(  # noqa: PLR0917  # fixtures and parameters
    meshsec: Meshsec, untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    changed(tmp_path, "dead_man_h = 2", f"dead_man_h = 2\n{given}")
    kept(untouched, 2 * HOUR)
    logged: list[str] = []
    monkeypatch.setattr(syslog, "critical", lambda _, text: logged.append(text))
    done = meshsec("zeroize", "--watch")
    assert done.exit_code == zeroize_watch.DESTROY
    for text in (done.output, logged[0]):
        assert f"{tmp_path / 'a/meshsec.toml'}: {said}" in text
        assert ". In force: no key, and dead_man_h 2; `meshsec check` examines the file" in text


def test_a_refused_time_leaves_the_key_armed(meshsec: Meshsec, untouched: Path, tmp_path: Path) -> None:
    changed(tmp_path, "dead_man_h = 2", 'dead_man_h = 0\nkey = "KEY_F12"')
    refused = meshsec("alive")
    assert "zeroize.dead_man_h: 0 is not allowed; allowed: a whole number from 1 to 8760" in refused.output
    assert f"In force: key {CODES['KEY_F12']} for 3 s, and no dead_man_h" in refused.output
    assert refused.exit_code == 1


def test_a_file_that_is_no_toml_says_that_nothing_is_waited_for(
    meshsec: Meshsec, untouched: Path, tmp_path: Path
) -> None:
    changed(tmp_path, "[zeroize]", "[zeroize")
    refused = meshsec("zeroize", "--watch")
    assert refused.exit_code == 1
    assert f"{tmp_path / 'a/meshsec.toml'}: " in refused.output
    assert "neither a key nor [zeroize] dead_man_h is waited for" in refused.output


def test_alive_begins_again_and_a_running_watch_notices(meshsec: Meshsec, untouched: Path) -> None:
    kept(untouched, 2 * HOUR - 30)
    timer = zeroize_watch.DeadMan(untouched, 2 * HOUR)
    assert not timer.is_over()
    assert meshsec("alive").exit_code == 0
    assert not timer.is_over()
    kept(untouched, 2 * HOUR)
    assert timer.is_over()
    assert meshsec("alive").exit_code == 0
    assert not timer.is_over()


def test_a_damaged_record_begins_again(untouched: Path) -> None:
    untouched.write_text("nonsense\n")
    assert not zeroize_watch.DeadMan(untouched, 2 * HOUR).is_over()
    restored = untouched_store.load(untouched)
    assert restored is not None
    assert restored.used == 0.0


def test_a_device_that_has_not_this_key_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has no keys, so that its octets are no events."""
    monkeypatch.setattr(input_keys, "DEVICES", tmp_path)
    os.mkfifo(tmp_path / "event0")
    keys = InputKeys(CODES["KEY_F12"])
    writer = os.open(tmp_path / "event0", os.O_RDWR)
    os.write(writer, struct.pack("@llHHi", 0, 0, 1, CODES["KEY_F12"], 1))
    assert list(keys.events(0.0)) == []
    keys.close()
    os.close(writer)


PRESSING = """\
import fcntl, os, struct, sys, time
code = int(sys.argv[1])
device = os.open("/dev/uinput", os.O_WRONLY | os.O_NONBLOCK)
fcntl.ioctl(device, 0x40045564, 1)     # UI_SET_EVBIT, EV_KEY
fcntl.ioctl(device, 0x40045565, code)  # UI_SET_KEYBIT
fcntl.ioctl(device, 0x405C5503, struct.pack("=HHHH80sI", 3, 1, 1, 1, b"meshsec test", 0))  # UI_DEV_SETUP
fcntl.ioctl(device, 0x5501)            # UI_DEV_CREATE
for line in sys.stdin:
    for value in (1, 0):
        for event in ((1, code, value), (0, 0, 0)):
            os.write(device, struct.pack("@llHHi", 0, 0, *event))
        time.sleep(float(line) if value else 0)
    print("released", flush=True)
"""


@pytest.mark.skipif(not UINPUT.exists(), reason="this kernel has no uinput")
def test_a_key_of_a_device_that_is_plugged_in_later_must_be_held(meshsec: Meshsec, tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as file:
        file.write('\n[zeroize]\nkey = "KEY_F12"\nhold_s = 3\n')
    assert meshsec("check").exit_code == 0
    watching = [str(Path(sys.executable).parent / "meshsec"), "--config", str(tmp_path / "a/meshsec.toml")]
    pressing = [sys.executable, "-c", PRESSING, str(CODES["KEY_F12"])]
    with (
        child(subprocess.Popen([*watching, "zeroize", "--watch"])) as watch,
        child(
            subprocess.Popen(pressing, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        ) as presser,
    ):
        assert presser.stdin
        assert presser.stdout
        wait_for(lambda: any("/dev/input/event" in one for one in _open_files(watch.pid)), "the device")
        for _ in range(3):
            presser.stdin.write("0.2\n")
            assert presser.stdout.readline() == "released\n"
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(4)
        presser.stdin.write("8\n")
        assert watch.wait(60) == zeroize_watch.DESTROY
        presser.stdin.close()


def _open_files(pid: int) -> Iterator[str]:
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            yield str(path.readlink())
