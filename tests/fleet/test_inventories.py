"""Every playbook can be read with each example inventory, the roles accept its values, and meshsec each node's
configuration.

No node is reached.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY

_COLLECTION = REPOSITORY / "ansible"
_PROGRAMS = Path(os.environ.get("MESHSEC_ANSIBLE") or Path(sys.executable).parent / "ansible-playbook").parent
_RUN_SECONDS = 240
NODES = {
    "community": "school,bakery,farm,mill,library,square",
    "three-pis": "hut,ridge,farm",
    "vehicles": "north-01,south-15,post-1,post-2",
}
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


@pytest.mark.parametrize("given", ["5a" * 31, "5a" * 33, "5g" * 32, " " + "5a" * 32])
def test_a_second_secret_that_is_none_is_refused_before_anything_is_changed_and_not_shown(
    given: str, tmp_path: Path
) -> None:
    checked = {"ansible.builtin.import_role": {"name": "meshsec", "tasks_from": "preflight"}}
    extra = "-vvv", "-e", json.dumps({"meshsec_second_secret": given})
    done = _play(tmp_path, "three-pis", [checked], "--limit", "hut", *extra)
    assert done.returncode == 2, done.stdout
    assert "meshsec_second_secret of hut" in done.stdout
    assert "meshsec secret new" in done.stdout
    assert given not in done.stdout


def test_a_second_secret_is_taken(tmp_path: Path) -> None:
    _written(tmp_path, "three-pis", "hut", extra=["-e", json.dumps({"meshsec_second_secret": "5A" * 32})])


def test_a_second_secret_is_given_once_and_by_standard_input(tmp_path: Path) -> None:
    config = tmp_path / "meshsec.toml"
    tables = "[node]", 'name = "hut"', "[routing]", 'interfaces = ["mesh0"]', "[paths]", f'state = "{tmp_path}"'
    config.write_text("\n".join(tables), encoding="utf-8")
    program = tmp_path / "bin" / "meshsec"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {_PROGRAMS}/meshsec --config {config} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    given = {
        "ansible.builtin.import_role": {"name": "meshsec", "tasks_from": "second_secret"},
        "environment": {"PATH": f"{program.parent}:{os.environ['PATH']}"},
    }
    for secret, changed in (("5A" * 32, 1), ("5a" * 32, 0), ("5b" * 32, 1)):
        extra = "-vvv", "-e", json.dumps({"meshsec_second_secret": secret})
        done = _play(tmp_path, "three-pis", [given], "--limit", "hut", *extra)
        assert done.returncode == 0, done.stdout
        assert f"changed={changed}" in done.stdout
        assert secret not in done.stdout
        assert (tmp_path / "second-secret").read_text().strip() == secret.lower()


def test_an_upgrade_watches_each_unit_that_the_packages_restart() -> None:
    health = (_COLLECTION / "roles/upgrade/files/health.py").read_text(encoding="utf-8")
    watched = re.findall(r'"([a-z0-9-]+)"', health.partition("UNITS = (")[2].partition(")")[0])
    rules = (REPOSITORY / "daemon/debian/rules").read_text(encoding="utf-8")
    restarted = [line for line in rules.splitlines() if "--restart-after-upgrade" in line]
    units = re.findall(r"(\S+)\.service", "\n".join(restarted))
    assert "meshsecd" in units
    assert set(units) <= set(watched)


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
    [
        ({"monitoring_seconds": "often"}, "monitoring_seconds"),
        ({"meshsec_ipv4": "127.0.0.1"}, "node.ipv4"),
        ({"meshsec_routing_signatures": "always"}, "value of meshsec_routing_signatures must be one of"),
    ],
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
        ({"radio_rts_threshold": "2348"}, "radio_rts_threshold of hut is 2348"),
        ({"radio_rts_threshold": "auto"}, "radio_rts_threshold of hut is auto"),
    ],
)
def test_what_cannot_be_a_radio_is_refused(wrong: dict[str, object], message: str, tmp_path: Path) -> None:
    """This machine serves as the node."""
    preflight = {"ansible.builtin.import_role": {"name": "radio", "tasks_from": "preflight"}}
    done = _play(tmp_path, "three-pis", [preflight], "--limit", "hut", "-e", json.dumps(wrong))
    assert done.returncode != 0
    assert message in " ".join(done.stdout.split()), done.stdout


@pytest.mark.parametrize("password", ["", "seven77", "two\nlines of it"])
def test_an_access_point_without_its_password_is_refused(password: str, tmp_path: Path) -> None:
    preflight = {"ansible.builtin.import_role": {"name": "access", "tasks_from": "preflight"}}
    given = json.dumps({"access_password": password})
    done = _play(tmp_path, "community", [preflight], "--limit", "square", "-e", given)
    assert done.returncode != 0
    assert "access_password of square is missing" in " ".join(done.stdout.split()), done.stdout
    right = json.dumps({"access_password": "only the valley"})
    assert _play(tmp_path, "community", [preflight], "--limit", "square", "-e", right).returncode == 0


def test_a_community_takes_each_network_from_those_who_have_it(tmp_path: Path) -> None:
    nodes = _written(tmp_path, "community", "square", "farm")
    square, farm = nodes["square"], nodes["farm"]
    assert square["access"]["radio"]["shares"] == "wlan0"
    assert square["access"]["peers"] == ["library"]
    outside = {"0.0.0.0/0": {"school", "bakery"}, "::/0": {"school", "bakery"}}
    assert _accepted(square) == {**outside, "10.20.1.0/24": {"farm"}, "10.20.2.0/24": {"mill"}}
    assert "access" not in farm
    assert _accepted(farm)["10.130.0.0/16"] == {"library", "square"}


def test_a_configuration_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a second run would restart meshsecd, and the order of Ansible's sets changes from run to run."""
    texts = set()
    for seed in "123":
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        _written(tmp_path, "community", "bakery")
        texts.add((tmp_path / "bakery.toml").read_text(encoding="utf-8"))
    assert len(texts) == 1


def test_vehicles_believe_their_own_brigade_alone(tmp_path: Path) -> None:
    nodes = _written(tmp_path, "vehicles", "north-01", "post-1")
    north, post = nodes["north-01"], nodes["post-1"]
    assert north["access"]["radio"] == {
        "interface": "wlan1",
        "ssid": "north crew",
        "frequency": 2412,
        "country": "DE",
    }
    assert set(north["access"]["peers"]) == {f"north-{number:02}" for number in range(2, 16)}
    assert _accepted(north) == {"0.0.0.0/0": {"post-1", "post-2"}, "::/0": {"post-1", "post-2"}}
    assert _accepted(post)["10.132.0.0/16"] == {f"south-{number:02}" for number in range(1, 16)}


def test_a_radio_that_is_not_plugged_in_yet_may_come(tmp_path: Path) -> None:
    preflight = {"ansible.builtin.import_role": {"name": "radio", "tasks_from": "preflight"}}
    absent = json.dumps({"radio_interfaces": ["absent0"], "meshsec_interfaces": ["absent0"]})
    done = _play(tmp_path, "three-pis", [preflight], "--limit", "hut", "-e", absent)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("given", "written"), [("measured", "measured"), ("off", "off"), ("500", 500), (0, 0)])
def test_an_rts_threshold_of_the_inventory_is_in_the_configuration(
    given: str | int, written: str | int, tmp_path: Path
) -> None:
    chosen = json.dumps({"radio_rts_threshold": given})
    (node,) = _written(tmp_path, "three-pis", "hut", extra=["-e", chosen]).values()
    assert node["radio"]["rts_threshold"] == written


def test_without_one_the_table_radio_is_as_it_was(tmp_path: Path) -> None:
    nodes = _written(tmp_path, "three-pis", "hut")
    assert "rts_threshold" not in nodes["hut"]["radio"]


@pytest.mark.parametrize(
    ("given", "written"), [("", None), ("off", "off"), (False, "off"), ("prefer", "prefer"), ("require", "require")]
)
def test_how_routing_messages_are_signed_is_in_the_configuration(
    given: str | bool, written: str | None, tmp_path: Path
) -> None:
    """``off`` without quotes is false in YAML."""
    chosen = json.dumps({"meshsec_routing_signatures": given})
    (node,) = _written(tmp_path, "three-pis", "hut", extra=["-e", chosen]).values()
    assert node["routing"].get("signatures") == written


def test_signatures_are_refused_where_the_router_is_olsrd2(tmp_path: Path) -> None:
    olsrd2 = {"olsr_daemon": "olsrd2", "meshsec_links": []}
    chosen = json.dumps({"meshsec_routing_signatures": "prefer", **olsrd2})
    done = _judge(tmp_path, "three-pis", "--limit", "hut", "-e", chosen)
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "meshsec_routing_signatures of hut is prefer, and olsr_daemon is olsrd2" in said, done.stdout
    assert "set olsr_daemon to olsrv2d" in said
    _written(tmp_path, "three-pis", "hut", extra=["-e", json.dumps(olsrd2)])


def _written(home: Path, inventory: str, *names: str, extra: Sequence[str] = ()) -> dict[str, Any]:
    """Return the configuration that the roles write for these nodes."""
    source, written = _COLLECTION / "roles/meshsec/templates/meshsec.toml.j2", home / "{{ inventory_hostname }}.toml"
    content = f"{{{{ lookup('ansible.builtin.template', '{source}') }}}}"
    facts = {"ansible.builtin.setup": {"gather_subset": ["!all"]}, "run_once": True}
    defaults = {"ansible.builtin.import_role": {"name": "meshsec", "tasks_from": "preflight"}}
    shown = {"ansible.builtin.copy": {"content": content, "dest": str(written)}}
    done = _play(home, inventory, [facts, defaults, shown], "--limit", ",".join(names), *extra)
    assert done.returncode == 0, done.stdout
    return {name: tomllib.loads((home / f"{name}.toml").read_text(encoding="utf-8")) for name in names}


def _accepted(node: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return from whom a node's configuration takes each network."""
    return {one["prefix"]: set(one["from"]) for one in node["routing"]["accept"]}


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
