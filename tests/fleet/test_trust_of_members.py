"""What the role trust and remove_node make of peers that a fleet's key signs, judged by ansible. No node is reached."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.lab.guest_root import REPOSITORY
from tests.lab.patience import patient

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
"""Of the other nodes of the inventory, as they show them."""

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
        _task("roles/trust/tasks/collect.yml", "Who is to be"),
        _task("roles/trust/tasks/run.yml", "What changes"),
    ]
    shown = {"debug": {"msg": "{{ [trust_changed, trust_new, trust_stray | sort] | to_json }}"}}
    status, output = _played(tmp_path, values, [*others, *judged, shown])
    assert status == 0, output
    assert json.dumps([[], ["renewed"], ["gone", "of-an-old-meshsec"]]) in output.replace('\\"', '"'), output


@pytest.mark.parametrize(("node", "refused"), [("hand", False), ("of-an-old-meshsec", False), ("member", True)])
def test_remove_node_refuses_a_member(tmp_path: Path, node: str, refused: bool) -> None:
    task = _task("playbooks/remove_node.yml", "No fleet's key")
    status, output = _played(tmp_path, {"node": node, "remove_peers": _VIEW}, [task])
    assert (status != 0) == refused, output
    assert ("member is a member of the fleet rescue" in output) == refused, output


def _task(file: str, name: str) -> dict[str, Any]:
    """The task whose name begins so, of a list of tasks or of a playbook's last play."""
    entries = yaml.safe_load((_COLLECTION / file).read_text(encoding="utf-8"))
    tasks = entries[-1].get("tasks", entries)
    found: dict[str, Any] = next(task for task in tasks if task["name"].startswith(name))
    return found


def _played(directory: Path, values: dict[str, Any], tasks: list[dict[str, Any]]) -> tuple[int, str]:
    playbook = directory / "play.yml"
    play = {"hosts": "localhost", "gather_facts": False, "vars": values, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        [_PLAYBOOK, "-i", "localhost,", "-c", "local", playbook],
        env={**os.environ, "ANSIBLE_HOME": str(directory), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=patient(_RUN_SECONDS),
    )
    return done.returncode, done.stdout
