"""Every playbook can be read with each example inventory, the roles accept its values, and meshsec each node's
configuration.

No node is reached.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY

_COLLECTION = REPOSITORY / "ansible"
_PROGRAMS = Path(os.environ.get("MESHSEC_ANSIBLE") or Path(sys.executable).parent / "ansible-playbook").parent
_RUN_SECONDS = 240
NODES = {"three-pis": "hut,ridge,farm", "vehicles": "north-01,south-15,post-1,post-2"}
"""The nodes that are checked: vehicles of a brigade differ only in their names."""

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (_PROGRAMS / "ansible-playbook").exists(), reason="not installed: ansible-playbook"),
]


@pytest.mark.parametrize("inventory", NODES)
def test_every_playbook_can_be_read_with_an_example(inventory: str, tmp_path: Path) -> None:
    playbooks = sorted((_COLLECTION / "playbooks").glob("*.yml"))
    assert playbooks
    done = _ansible(tmp_path, "ansible-playbook", "--syntax-check", "-i", _inventory(inventory), *map(str, playbooks))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout, done.stdout


@pytest.mark.parametrize("inventory", NODES)
def test_an_examples_values_are_what_the_roles_and_meshsec_take(inventory: str, tmp_path: Path) -> None:
    done = _judge(tmp_path, inventory, "--limit", NODES[inventory])
    assert done.returncode == 0, done.stdout
    assert set(re.findall(r"^(\S+) +: ok=", done.stdout, re.MULTILINE)) == set(NODES[inventory].split(",")), done.stdout


def test_what_is_yes_or_no_may_be_given_by_extra_vars_which_are_text() -> None:
    specs = (yaml.safe_load(file.read_text()) for file in _COLLECTION.glob("roles/*/meta/argument_specs.yml"))
    options = (entry["options"] for spec in specs for entry in spec["argument_specs"].values() if "options" in entry)
    names = [name for each in options for name, option in each.items() if option.get("type") == "bool"]
    assert "trust_exclusive" in names
    used = re.compile(rf"\b({'|'.join(names)})\b(?! \| bool|:)")
    files = [*_COLLECTION.glob("roles/*/tasks/*.yml"), *_COLLECTION.glob("roles/*/templates/*")]
    raw = [f"{file.name}: {line}" for file in files for line in file.read_text().splitlines() if used.search(line)]
    assert not raw, "the text 'false' is true without a filter"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"monitoring_seconds": "often"}, "monitoring_seconds"), ({"meshsec_ipv4": "127.0.0.1"}, "node.ipv4")],
)
def test_a_wrong_value_is_refused(wrong: dict[str, object], message: str, tmp_path: Path) -> None:
    done = _judge(tmp_path, "three-pis", "--limit", "hut", "-e", json.dumps(wrong))
    assert done.returncode != 0
    assert message in done.stdout


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"meshsec_settings": {"radio": {"security": "sae"}}}, "radio_password of hut is missing"),
        ({"radio_password": "seven77"}, "is not 8 to 63 octets"),
        ({"radio_interfaces": ["wlan2"]}, "wlan2 is none of meshsec_interfaces: wlan1"),
        ({"radio_interfaces": ["lo"], "meshsec_interfaces": ["lo"]}, "lo of hut is not wireless"),
    ],
)
def test_what_cannot_be_a_radio_is_refused(wrong: dict[str, object], message: str, tmp_path: Path) -> None:
    """This machine serves as the node."""
    preflight = {"ansible.builtin.import_role": {"name": "radio", "tasks_from": "preflight"}}
    done = _play(tmp_path, "three-pis", [preflight], "--limit", "hut", "-e", json.dumps(wrong))
    assert done.returncode != 0
    assert message in " ".join(done.stdout.split()), done.stdout


def test_a_radio_that_is_not_plugged_in_yet_may_come(tmp_path: Path) -> None:
    preflight = {"ansible.builtin.import_role": {"name": "radio", "tasks_from": "preflight"}}
    absent = json.dumps({"radio_interfaces": ["absent0"], "meshsec_interfaces": ["absent0"]})
    done = _play(tmp_path, "three-pis", [preflight], "--limit", "hut", "-e", absent)
    assert done.returncode == 0, done.stdout


def _judge(home: Path, inventory: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Return what the roles and then `meshsec check` say of an inventory's values before anything is changed."""
    # No node is asked for its facts: those of this machine serve for all.
    facts = {"ansible.builtin.setup": {"gather_subset": ["!all"]}, "run_once": True}
    typed = {"ansible.builtin.validate_argument_spec": {"argument_spec": _options(home)}}
    judged = {"ansible.builtin.import_role": {"name": "meshsec", "tasks_from": "preflight"}}
    return _play(home, inventory, [facts, typed, judged], *arguments)


def _play(
    home: Path, inventory: str, tasks: Sequence[Mapping[str, object]], *arguments: str
) -> "subprocess.CompletedProcess[str]":
    path = home / "play.json"
    play = {"hosts": "mesh", "connection": "local", "gather_facts": False, "tasks": tasks}
    path.write_text(json.dumps([play]), encoding="utf-8")
    return _ansible(home, "ansible-playbook", "-i", _inventory(inventory), str(path), *arguments)


def _options(home: Path) -> dict[str, dict[str, object]]:
    """Return the options of all roles' main entries, without their defaults."""
    names = [path.parent.parent.name for path in (_COLLECTION / "roles").glob("*/meta/argument_specs.yml")]
    done = _ansible(home, "ansible-doc", "-t", "role", "--json", "-r", str(_COLLECTION / "roles"), *names)
    assert done.returncode == 0, done.stdout
    entries = [role["entry_points"].get("main", {}) for role in json.loads(done.stdout).values()]
    return {
        name: {key: value for key, value in option.items() if key != "default"}
        for entry in entries
        for name, option in entry.get("options", {}).items()
    }


def _inventory(name: str) -> str:
    return str(_COLLECTION / "inventories" / name)


def _ansible(home: Path, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "ANSIBLE_HOME": str(home / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORKS": "4",
        "ANSIBLE_ROLES_PATH": str(_COLLECTION / "roles"),
        # The controller's own meshsec validates configurations.
        "PATH": f"{_PROGRAMS}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [str(_PROGRAMS / program), *arguments],
        cwd=_COLLECTION,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patient(_RUN_SECONDS),
        check=False,
    )
