"""What ``meshsec doctor`` finds by itself: addresses that another key has left, while meshsecd is away."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from namespaces import inside, ip, needs_root, new_namespace

__all__ = ["inside", "new_namespace"]

Meshsec = Callable[..., Result]


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


def test_without_a_key_no_address_is_called_anothers(meshsec: Meshsec, tmp_path: Path) -> None:
    for path in (tmp_path / "a/state").glob("node.*"):
        path.unlink()
    assert checks(meshsec, "own addresses") == []
    (key,) = checks(meshsec, "key")
    assert "`meshsec init` makes one" in key["found"]
