"""``meshsec`` as a process: start-up, terminal, manual pages and completions."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from meshsec.cli.docs import write

Meshsec = Callable[..., Result]
PROGRAM = [sys.executable, "-c", "from meshsec.cli import main; main(prog_name='meshsec')"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_the_environment_names_the_configuration(meshsec: Meshsec, tmp_path: Path) -> None:
    done = run("key", "show", MESHSEC_CONFIG=str(tmp_path / "a/meshsec.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == meshsec("key", "show").stdout


def test_failures_have_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "missing.toml"
    done = run("--config", str(path), "status")
    assert done.returncode == 1
    assert done.stderr == f"Error: {path}: there is no configuration; `meshsec --config {path} init` makes one\n"


def test_a_configuration_written_by_hand_still_needs_a_key_and_the_command_is_named(
    meshsec: Meshsec, tmp_path: Path
) -> None:
    path = tmp_path / "a/state/node.key"
    for file in (path, path.with_suffix(".pub")):
        file.unlink()
    config = str(tmp_path / "a/meshsec.toml")
    missing = f"Error: {path}: there is no key; `meshsec init` makes one"
    asked = run("--config", config, "status")
    assert (asked.returncode, asked.stderr) == (
        1,
        f"{missing}; then `systemctl start meshsec.target` starts meshsecd\n",
    )
    daemon = [sys.executable, "-c", "from meshsec.daemon import main; main()", "--config", config]
    started = subprocess.run(daemon, capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (os.EX_CONFIG, f"{missing}\n"), "the unit would start it for ever"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats"], "No such command 'stats'. Perhaps 'status' is meant."),
        (["peer", "add", "boat"], "Missing argument 'CARD...'"),
        (["status", "--jsn"], "No such option"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_command_imports_only_what_it_needs() -> None:
    """A command that needs no table, cryptography, netlink or event loop does not import their slow modules."""
    program = "import sys; from meshsec.cli import main; main(['version'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "click" in loaded
    assert not {"rich", "cryptography", "pyroute2", "asyncio", "mnemonic", "segno", "vici"} & set(loaded)


def on_terminal(*arguments: str, **environment: str) -> str:
    """Return what a command prints on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*PROGRAM, *arguments], {**os.environ, "TERM": "xterm", **environment})  # noqa: S606
    output = b""
    try:
        while chunk := os.read(terminal, 4096):
            output += chunk
    except OSError:
        pass  # the terminal's other end is closed (pty(7))
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return output.decode()


def test_colour_is_used_only_on_a_terminal_and_not_with_no_color(meshsec: Meshsec, tmp_path: Path) -> None:
    arguments = ["--config", str(tmp_path / "a/meshsec.toml"), "doctor"]
    assert "\x1b[31m" in on_terminal(*arguments, NO_COLOR="")
    assert "\x1b" not in on_terminal(*arguments, NO_COLOR="1")
    assert "\x1b" not in run(*arguments).stdout


def test_a_terminal_that_is_too_narrow_cuts_nothing(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    shown = json.loads(boat("key", "show", "--json").stdout)
    assert meshsec("peer", "add", "boat", shown["card"]).exit_code == 0
    address = shown["address"]
    arguments = ["--config", str(tmp_path / "a/meshsec.toml"), "peer", "list"]
    narrow, wide = (on_terminal(*arguments, NO_COLOR="1", COLUMNS=columns) for columns in ("50", "140"))
    assert address in narrow
    assert address in wide
    assert len(narrow.splitlines()) > len(wide.splitlines()) == 2
    assert max(map(len, narrow.splitlines())) <= 50


def test_manual_pages_and_completions_are_generated(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix(): path for path in write(tmp_path)}
    assert sorted(written) == [
        "completions/bash/meshsec",
        "completions/fish/meshsec.fish",
        "completions/zsh/_meshsec",
        "man/meshsec-page.8",
        "man/meshsec-radio.8",
        "man/meshsec.1",
        "man/meshsecd.8",
    ]
    page = written["man/meshsec.1"].read_text()
    for command in ("init", "key show", "peer verify", "status", "explain", "export", "watch", "bench sa\\-setup"):
        assert f".SS meshsec {command} " in page
    subprocess.run(["bash", "-n", written["completions/bash/meshsec"]], check=True)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_manual_pages_are_good_roff(tmp_path: Path) -> None:
    for path in (path for path in write(tmp_path) if path.parent.name == "man"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", path], capture_output=True, text=True, check=True)
        assert done.stderr == ""


def completed(config: Path, words: str) -> list[str]:
    """Return the completions that bash offers after these words."""
    environment = {"_MESHSEC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return run(MESHSEC_CONFIG=str(config), **environment).stdout.split()


def test_completion_knows_commands_and_peers(meshsec: Meshsec, tmp_path: Path) -> None:
    """Peers with a refused card are offered too, because `meshsec peer remove` takes them."""
    config = tmp_path / "a/meshsec.toml"
    (config.parent / "peers/boat.card").touch()
    (config.parent / "peers/ship.card").touch()
    assert completed(config, "meshsec ex") == ["plain,explain", "plain,export"]
    assert completed(config, "meshsec peer remove b") == ["plain,boat"]
    assert completed(config, "meshsec explain ") == ["plain,boat", "plain,ship"]
    shutil.rmtree(config.parent / "state")
    assert completed(config, "meshsec explain ") == ["plain,boat", "plain,ship"], "the key is gone"
    assert completed(tmp_path / "missing.toml", "meshsec explain ") == []


def test_completion_knows_the_members_of_a_fleet(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    card = json.loads(boat("key", "show", "--json").stdout)["card"]
    office = ["--directory", str(tmp_path / "office")]
    created = meshsec("fleet", "init", "rescue", *office).stdout
    signed = meshsec("fleet", "sign", card, *office).stdout.strip()
    fleet = next(line.split()[-1] for line in created.splitlines() if line.startswith("fleet"))
    assert meshsec("fleet", "join", fleet).exit_code == 0
    assert meshsec("fleet", "take", signed).exit_code == 0
    assert completed(tmp_path / "a/meshsec.toml", "meshsec peer show b") == ["plain,boat"]
    assert completed(tmp_path / "a/meshsec.toml", "meshsec peer show s") == []
