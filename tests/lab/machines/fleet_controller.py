"""The controller of a test fleet: Ansible, run from the management network, and what its recap says."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.lab.basics import shell
from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY
from tests.lab.machines.fleet import Fleet

_RECAP = re.compile(r"^(\S+)\s+: (ok=\d+ .*)$", re.MULTILINE)
_PROGRAM = Path(os.environ.get("MESHSEC_ANSIBLE") or Path(sys.executable).parent / "ansible-playbook")
PROGRAMS = _PROGRAM.parent
"""Where Ansible's programs are."""
_PLAY_SECONDS, _SECONDS_PER_NODE = 900, 60


@dataclass(frozen=True)
class Played:
    """The result of a playbook."""

    status: int
    output: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        """Return the counts of ``ok``, ``changed``, ``failed``, ... by host."""
        return {
            host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in _RECAP.findall(self.output.rpartition("PLAY RECAP")[2])
        }

    @property
    def changed(self) -> int:
        """Return how many tasks changed something, on all hosts."""
        return sum(counts["changed"] for counts in self.recap.values())


class Reached(Protocol):
    """Machines that a controller reaches."""

    directory: Path
    run_directory: Path

    @property
    def controller(self) -> list[str]:
        """Return the words in front of a program that is to run where the controller is."""

    @property
    def inventory(self) -> Path:
        """Return the path of Ansible's inventory."""


class Controller:
    """Runs the project's playbooks on a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def play(self, playbook: str, *arguments: str, check: bool = True) -> Played:
        """Run a playbook of the collection by its name. Raises CommandError when ``check`` and it failed."""
        seconds = _PLAY_SECONDS + _SECONDS_PER_NODE * len(self.fleet.nodes)
        return play(self.fleet, playbook, *arguments, check=check, seconds=seconds)


def play(machines: Reached, playbook: str, *arguments: str, check: bool, seconds: float) -> Played:
    """Run a playbook of the collection on these machines, for at most ``seconds``."""
    path = REPOSITORY / "ansible" / "playbooks" / f"{playbook}.yml"
    argv = [*machines.controller, str(_PROGRAM), "-i", str(machines.inventory), str(path), *arguments]
    done = subprocess.run(
        argv,
        cwd=REPOSITORY / "ansible",
        env={**os.environ, **_environment(machines)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patient(seconds),
        check=False,
    )
    with (machines.directory / "ansible.log").open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(argv)}\n{done.stdout}\n")
    if check and done.returncode:
        raise shell.CommandError(subprocess.CompletedProcess(argv, done.returncode, done.stdout, ""))
    return Played(done.returncode, done.stdout)


def _environment(machines: Reached) -> dict[str, str]:
    return {
        "ANSIBLE_HOME": str(machines.directory / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        # The controller's own meshsec validates configurations.
        "PATH": f"{_PROGRAM.parent}:{os.environ['PATH']}",
        "ANSIBLE_FORKS": "10",
        # The path of a UNIX socket ends after 107 bytes; what is there is deleted with the lab.
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(machines.run_directory),
    }
