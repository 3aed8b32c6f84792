"""``init`` and ``key``: the node's own key and card."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from meshsec import daemon
from meshsec.adapters.files import config_file
from meshsec.cli.key import behind
from meshsec.core.trust import card as cards

MESHSEC = f"{sys.executable} -c 'from meshsec.cli import main; main()'"
SCHEMAS = Path(__file__).parents[3] / "docs/reference/schema"


def shown(meshsec: Callable[..., Result]) -> dict[str, str]:
    view: dict[str, str] = json.loads(meshsec("key", "show", "--json").stdout)
    return view


def test_a_second_init_keeps_everything(meshsec: Callable[..., Result], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert len(before) == 3
    result = meshsec("init")
    assert result.exit_code == 0
    assert result.stdout.count(": kept") == 2
    assert {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace takes root")
def test_init_makes_a_node_from_nothing(tmp_path: Path) -> None:
    """The default paths are tried in a mount namespace with an /etc and /var/lib of its own."""
    shutil.copytree("/etc", tmp_path / "etc", symlinks=True)
    (tmp_path / "lib").mkdir()
    command = f"{MESHSEC} init --name boat --ipv4 10.77.0.2 --interface mesh0 --interface mesh1"
    script = f"mount --bind {tmp_path}/etc /etc && mount --bind {tmp_path}/lib /var/lib && exec {command}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / "lib/meshsec/node.key").stat().st_mode) == 0o600
    settings = config_file.load(tmp_path / "etc/meshsec/meshsec.toml")
    assert (settings.node.name, str(settings.node.ipv4)) == ("boat", "10.77.0.2")
    assert settings.routing.interfaces == ("mesh0", "mesh1")


def test_init_refuses_options_that_an_existing_configuration_would_ignore(meshsec: Callable[..., Result]) -> None:
    result = meshsec("init", "--name", "other")
    assert result.exit_code == 1
    assert "meshsec.toml exists; change name, ipv4 and interfaces there" in result.stderr


def test_a_wrong_address_is_wrong_usage(meshsec: Callable[..., Result]) -> None:
    result = meshsec("init", "--ipv4", "10.77.0")
    assert result.exit_code == 2
    assert "'10.77.0' is no IPv4 address" in result.stderr


def test_the_card_says_what_the_node_is(meshsec: Callable[..., Result]) -> None:
    view = shown(meshsec)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-card-1.json").read_text()))
    card = cards.parse(view["card"])
    assert (view["name"], view["ipv4"]) == ("rescue-1", "10.77.0.1")
    assert (view["address"], view["public_key"]) == (str(card.address), card.public_key.hex())


def test_text_groups_and_qr_show_the_same_card(meshsec: Callable[..., Result]) -> None:
    card = shown(meshsec)["card"]
    assert f"card         {card}\n" in meshsec("key", "show").stdout
    assert cards.grouped(card) in meshsec("key", "show", "--grouped").stdout
    assert "▀" in meshsec("key", "show", "--qr").stdout


def test_no_private_key_is_needed_to_show_the_card(meshsec: Callable[..., Result], tmp_path: Path) -> None:
    before = shown(meshsec)
    (tmp_path / "a/state/node.key").unlink()
    assert shown(meshsec) == before


def test_a_missing_key_says_what_makes_one(meshsec: Callable[..., Result], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "a/state")
    result = meshsec("key", "show")
    assert result.exit_code == 1
    assert "`meshsec init` makes one" in result.stderr


def test_a_bad_configuration_is_reported_with_its_lines(meshsec: Callable[..., Result], tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("rescue-1", "Rescue 1").replace("10.77.0.1", "224.0.0.1"))
    result = meshsec("key", "show")
    assert result.exit_code == 1
    assert f"{config}:2: node.name: 'Rescue 1' is not allowed" in result.stderr
    assert f"{config}:3: node.ipv4: '224.0.0.1' is not allowed" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="giving privileges up takes root")
@pytest.mark.parametrize("arguments", [["key", "show"], ["peer", "list"], ["init"]])
def test_a_directory_that_cannot_be_entered_is_named(tmp_path: Path, nodes: Path, arguments: list[str]) -> None:
    """Without capabilities even root may not enter another user's private directory."""
    node = Path(shutil.copytree(nodes / "a", tmp_path / "a"))
    (node / "state").chmod(0o700)
    os.chown(node / "state", 65534, 65534)
    program = "from meshsec.cli import main; main()"
    command = ["setpriv", "--bounding-set=-all", sys.executable, "-c", program]
    done = subprocess.run(
        [*command, "--config", str(node / "meshsec.toml"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {node}/state/node")
    assert done.stderr.endswith("Permission denied\n")


def keys(meshsec: Callable[..., Result]) -> tuple[str, str | None]:
    """Return the cards of the present and of the next key."""
    view = json.loads(meshsec("key", "status", "--json").stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-key-1.json").read_text()))
    return view["card"], view["next"]


def test_a_key_is_changed_through_a_next_one(meshsec: Callable[..., Result]) -> None:
    old = shown(meshsec)["card"]
    assert keys(meshsec) == (old, None)
    made = json.loads(meshsec("key", "next", "--json").stdout)
    jsonschema.validate(made, json.loads((SCHEMAS / "meshsec-card-1.json").read_text()))
    assert (made["name"], made["ipv4"]) == ("rescue-1", "10.77.0.1")
    assert json.loads(meshsec("key", "next", "--json").stdout) == made
    assert keys(meshsec) == (old, made["card"])
    refused = meshsec("key", "end")
    assert refused.exit_code == 1
    assert "nobody knows what the next key protects" in refused.stderr
    assert keys(meshsec) == (old, made["card"])
    ended = meshsec("key", "end", "--force")
    assert ended.exit_code == 0
    assert "restart meshsecd and meshsec-page, " in ended.stdout, "both are bound to addresses of the keys"
    assert "then olsrv2-signer, and reload" in ended.stdout, "the router's address is then the hash of the signer's key"
    assert keys(meshsec) == (made["card"], None)
    assert shown(meshsec) == made


def test_a_change_that_is_cancelled_leaves_the_key(meshsec: Callable[..., Result]) -> None:
    old = shown(meshsec)["card"]
    assert meshsec("key", "next").exit_code == 0
    assert meshsec("key", "cancel").exit_code == 0
    assert keys(meshsec) == (old, None)


def test_there_is_nothing_to_end_without_a_next_key(meshsec: Callable[..., Result]) -> None:
    old = keys(meshsec)
    result = meshsec("key", "end", "--force")
    assert result.exit_code == 1
    assert "meshsec key next" in result.stderr
    assert keys(meshsec) == old


def test_no_key_is_changed_while_the_overlay_uses_it(meshsec: Callable[..., Result], tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a", encoding="utf-8") as file:
        file.write("[overlay]\nenabled = true\n")
    result = meshsec("key", "next")
    assert result.exit_code == 1
    assert "[overlay] is enabled" in result.stderr
    assert keys(meshsec)[1] is None


@pytest.mark.parametrize(
    ("states", "names"),
    [
        ({"a": "protected", "a^": "protected"}, []),
        ({"a": "protected", "a^": "waiting", "b": "protected"}, ["a", "b"]),
        ({"a": "no-route", "a^": "no-route"}, []),
        ({"a": "protected", "a~": "protected", "a^": "protected"}, ["a~"]),
    ],
)
def test_key_end_names_the_peers_that_it_would_cut_off(states: dict[str, str], names: list[str]) -> None:
    assert behind({"name": name, "state": state} for name, state in states.items()) == names


def test_meshsecd_does_not_start_with_a_next_key_and_the_overlay(
    meshsec: Callable[..., Result], tmp_path: Path
) -> None:
    """overlayd has one key only, so it would ignore the other without notice."""
    assert meshsec("key", "next").exit_code == 0
    config = tmp_path / "a/meshsec.toml"
    with config.open("a", encoding="utf-8") as file:
        file.write("[overlay]\nenabled = true\n")
    result = CliRunner().invoke(daemon.main, ["--config", str(config)])
    assert result.exit_code == 1
    assert "node.next.key: the overlay's node has one key" in result.stderr
