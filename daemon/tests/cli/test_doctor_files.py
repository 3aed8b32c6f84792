"""What ``meshsec doctor`` finds by itself: addresses that another key has left, and a clock that is behind."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.identity import raw_public_key
from namespaces import inside, ip, needs_root, new_namespace

__all__ = ["inside", "new_namespace"]

Meshsec = Callable[..., Result]
YEAR = 365 * 86400


def checks(meshsec: Meshsec, name: str) -> list[dict[str, str]]:
    """Return what doctor finds under a name."""
    found: list[dict[str, str]] = json.loads(meshsec("doctor", "--json").stdout)["checks"]
    return [one for one in found if one["name"] == name]


def addresses(meshsec: Meshsec) -> list[str]:
    card = json.loads(meshsec("key", "show", "--json").stdout)
    return [card["address"], card["locator"]]


@needs_root
def test_addresses_of_another_key_are_named_with_the_commands_that_take_them_off(
    meshsec: Meshsec, boat: Meshsec, inside: str
) -> None:
    own, others = addresses(meshsec), addresses(boat)
    for address in (*own, "fd77::7"):
        ip("addr", "add", f"{address}/128", "dev", "lo")
    assert checks(meshsec, "own addresses") == []
    for address in others:
        ip("addr", "add", f"{address}/128", "dev", "lo")
    (check,) = checks(meshsec, "own addresses")
    assert check["level"] == "warn"
    assert check["found"].startswith(f"lo has addresses of another key: {others[0]}, {others[1]};")
    commands = check["mend"].partition("without it: ")[2].split("; ")
    for command in commands:
        ip(*command.split()[1:])
    assert checks(meshsec, "own addresses") == []


@needs_root
def test_the_addresses_of_a_next_key_are_this_nodes_own(meshsec: Meshsec, inside: str) -> None:
    following = json.loads(meshsec("key", "next", "--json").stdout)["address"]
    ip("addr", "add", f"{following}/128", "dev", "lo")
    assert checks(meshsec, "own addresses") == []


def test_a_node_without_a_configuration_is_told_the_command_that_makes_one(meshsec: Meshsec, tmp_path: Path) -> None:
    (tmp_path / "a/meshsec.toml").rename(tmp_path / "a/elsewhere.toml")
    (check,) = checks(meshsec, "configuration")
    assert (check["level"], check["mend"]) == ("fail", "meshsec up")
    (tmp_path / "a/meshsec.toml").write_text("[node]\nname = 3\n")
    (check,) = checks(meshsec, "configuration")
    assert (check["level"], check["mend"]) == ("fail", "correct the lines named")


def test_without_a_key_no_address_is_called_anothers(meshsec: Meshsec, tmp_path: Path) -> None:
    for path in (tmp_path / "a/state").glob("node.*"):
        path.unlink()
    assert checks(meshsec, "own addresses") == []
    (key,) = checks(meshsec, "key")
    assert "`meshsec init` makes one" in key["found"]


@pytest.mark.parametrize("file", ["meshsec.toml", "state/node.key", "peers/boat.card"])
def test_a_clock_that_is_before_the_date_of_a_file_is_a_year_behind(
    meshsec: Meshsec, boat: Meshsec, tmp_path: Path, file: str
) -> None:
    meshsec("peer", "add", "boat", json.loads(boat("key", "show", "--json").stdout)["card"])
    (check,) = checks(meshsec, "clock")
    assert check["level"] == "ok"
    assert time.strftime("%Y-%m-%d", time.gmtime()) in check["found"]
    later = time.time() + YEAR + 60
    os.utime(tmp_path / "a" / file, (later, later))
    (check,) = checks(meshsec, "clock")
    assert check["level"] == "warn"
    assert f"{tmp_path}/a/{file} was written" in check["found"]
    assert "at least 365 days behind" in check["found"]
    assert f"`touch {tmp_path}/a/{file}`" in check["mend"]


@pytest.mark.parametrize(("ahead", "level"), [(60, "ok"), (YEAR, "warn")])
def test_a_fleets_list_shows_a_clock_that_was_wrong_from_the_start(meshsec: Meshsec, ahead: int, level: str) -> None:
    key = Ed25519PrivateKey.generate()
    fleet = Fleet("rescue", raw_public_key(key.public_key()))
    listed = fleets.sign_list(key, int(time.time()) + ahead, [], None)
    assert meshsec("fleet", "join", fleets.fleet_text(fleet)).exit_code == 0
    assert meshsec("fleet", "take", fleets.list_text(listed)).exit_code == 0
    (check,) = checks(meshsec, "clock")
    assert check["level"] == level
    assert ("the fleet rescue signed its list" in check["found"]) is (level == "warn")
