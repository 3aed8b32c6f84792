"""The role trust and remove_node determine the right members from an inventory and from a signed fleet.

Ansible runs; no node is reached.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY

_COLLECTION = REPOSITORY / "ansible"
_PLAYBOOK = Path(os.environ.get("MESHSEC_ANSIBLE") or Path(sys.executable).parent / "ansible-playbook")
_RUN_SECONDS = 120
_PEERS = [
    {"peer": "hand", "card": "H", "fleet": None},
    {"peer": "gone", "card": "G", "fleet": None},
    {"peer": "member", "card": "M", "fleet": "rescue"},
    {"peer": "renewed", "card": "OLD", "fleet": "rescue"},
    {"peer": "of-an-old-meshsec", "card": "A"},
]
_VIEW = {"stdout": json.dumps({"peers": _PEERS, "problems": []})}
_CARDS = {"hand": "H", "renewed": "NEW"}
"""Cards of the inventory's other nodes, as these show them."""
_LAYOUT = {
    "trust_hosts": "{{ groups['mesh'] }}",
    "trust_hubs": "hubs",
    "trust_peers": _VIEW,
    "trust_card": {"stdout": json.dumps({"card": "S"})},
}

pytestmark = pytest.mark.skipif(not _PLAYBOOK.exists(), reason="not installed: ansible-playbook")


def test_an_exclusive_layout_removes_no_member(tmp_path: Path) -> None:
    values = {
        "trust_layout": "full",
        "trust_exclusive": True,
        "trust_hosts": ["localhost", *_CARDS],
        "trust_peers": _VIEW,
        "trust_card": {"stdout": json.dumps({"card": "S"})},
    }
    others = [{"add_host": {"name": name, "trust_own": card}} for name, card in _CARDS.items()]
    judged = [
        _task("roles/trust/tasks/collect.yml", "Compute who is to be"),
        _task("roles/trust/tasks/run.yml", "Compute what changes"),
    ]
    shown = {"debug": {"msg": "{{ [trust_changed, trust_new, trust_stray | sort] | to_json }}"}}
    status, output = _played(tmp_path, values, [*others, *judged, shown])
    assert status == 0, output
    assert json.dumps([[], ["renewed"], ["gone", "of-an-old-meshsec"]]) in output.replace('\\"', '"'), output


@pytest.mark.parametrize(("node", "refused"), [("hand", False), ("of-an-old-meshsec", False), ("member", True)])
def test_remove_node_refuses_a_member(tmp_path: Path, node: str, refused: bool) -> None:
    task = _task("playbooks/remove_node.yml", "Fail if a fleet's key")
    status, output = _played(tmp_path, {"node": node, "remove_peers": _VIEW}, [task])
    assert (status != 0) == refused, output
    assert ("member is a member of the fleet rescue" in output) == refused, output


def test_brigades_trust_themselves_and_the_posts_and_not_each_other(tmp_path: Path) -> None:
    """The example says so; its variables are its own."""
    inventory = _COLLECTION / "inventories" / "vehicles"
    trusted = _laid_out(tmp_path, inventory, {})
    names = {brigade: {f"{brigade}-{number:02}" for number in range(1, 16)} for brigade in ("north", "south")}
    posts = {"post-1", "post-2"}
    assert set(trusted) == names["north"] | names["south"] | posts
    for brigade, members in names.items():
        for name in members:
            assert trusted[name] == (members | posts) - {name}, brigade
    for name in posts:
        assert trusted[name] == set(trusted) - {name}


def test_hubs_trust_everybody_and_the_others_the_hubs_alone(tmp_path: Path) -> None:
    inventory = _inventory(tmp_path, {"hubs": ["h1", "h2"], "leaves": ["l1", "l2"]})
    trusted = _laid_out(tmp_path, inventory, {"trust_layout": "hub", "trust_groups": []})
    assert trusted == {
        "h1": {"h2", "l1", "l2"},
        "h2": {"h1", "l1", "l2"},
        "l1": {"h1", "h2"},
        "l2": {"h1", "h2"},
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"trust_layout": "groups", "trust_groups": ["nroth"]}, "names nroth, which is no group of the inventory: "),
        (
            {"trust_layout": "hub", "trust_groups": [], "trust_hubs": "hub"},
            "names hub, which is no group of the inventory: hubs, leaves, mesh",
        ),
        ({"trust_layout": "groups", "trust_groups": []}, "trust_groups is empty"),
    ],
)
def test_a_layout_without_its_groups_is_refused(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    """It is refused before a card is collected: with trust_exclusive it would remove all peers."""
    inventory = _inventory(tmp_path, {"hubs": ["h1"], "leaves": ["l1"]})
    status, output = _played(tmp_path, {**_LAYOUT, **values}, _tasks("roles/trust/tasks/preflight.yml"), inventory)
    assert status != 0, output
    assert said in " ".join(output.split()), output


def _inventory(directory: Path, groups: dict[str, list[str]]) -> Path:
    inventory = directory / "hosts.json"
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in names}} for group, names in groups.items()}
    inventory.write_text(json.dumps({"all": {"children": {"mesh": {"children": children}}}}), encoding="ascii")
    return inventory


def _laid_out(directory: Path, inventory: Path, values: dict[str, Any]) -> dict[str, set[str]]:
    """Return whom each node of the inventory's mesh would trust. ``values`` override the inventory's."""
    judged = [
        *_tasks("roles/trust/tasks/preflight.yml"),
        _task("roles/trust/tasks/collect.yml", "Compute who is to be"),
    ]
    names = "{{ dict(groups.mesh | zip(groups.mesh | map('extract', hostvars, 'trust_names'))) | to_json }}"
    into = directory / "trusted.json"
    shown = {"copy": {"content": names, "dest": str(into)}, "delegate_to": "localhost", "run_once": True}
    status, output = _played(directory, {**_LAYOUT, **values}, [*judged, shown], inventory)
    assert status == 0, output
    return {name: set(trusted) for name, trusted in json.loads(into.read_text(encoding="utf-8")).items()}


@pytest.mark.parametrize(
    ("node", "operated", "refused"),
    [
        ("hand", None, False),
        ("of-an-old-meshsec", None, False),
        ("member", None, True),
        ("member", "another", True),
        ("member", "rescue", False),
    ],
)
def test_rotate_keys_refuses_a_member_whose_fleets_key_is_elsewhere(
    tmp_path: Path, node: str, operated: str | None, refused: bool
) -> None:
    """It is refused before a key is made."""
    judged = [
        _task("roles/rotate/tasks/look.yml", name)
        for name in ("Ask whether a fleet's key", "Check that the fleet's key")
    ]
    operator = {"rc": 1 if operated is None else 0, "stdout": json.dumps({"fleets": [{"name": operated}]})}
    values = {
        "inventory_hostname": node,
        "rotate_lists": {"results": [_VIEW]},
        "rotate_operator": operator,
        "rotate_fleet_directory": "office",
    }
    status, output = _played(tmp_path, values, judged)
    assert (status != 0) == refused, output
    assert ("member is a member of the fleet rescue, whose key is not in office" in output) == refused, output


def _task(file: str, name: str) -> dict[str, Any]:
    """Return the task whose name begins so, from a list of tasks or a playbook's last play."""
    entries = _tasks(file)
    tasks = entries[-1].get("tasks", entries)
    found: dict[str, Any] = next(task for task in tasks if task["name"].startswith(name))
    return found


def _tasks(file: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = yaml.safe_load((_COLLECTION / file).read_text(encoding="utf-8"))
    return read


def _played(
    directory: Path, values: dict[str, Any], tasks: list[dict[str, Any]], inventory: Path | None = None
) -> tuple[int, str]:
    """Play tasks on the mesh of an inventory, or on this machine alone. Return status and output."""
    playbook = directory / "play.yml"
    play = {"hosts": "mesh" if inventory else "localhost", "gather_facts": False, "vars": values, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        [_PLAYBOOK, "-i", inventory or "localhost,", "-c", "local", playbook],
        env={**os.environ, "ANSIBLE_HOME": str(directory), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=patient(_RUN_SECONDS),
    )
    return done.returncode, done.stdout
