"""The controller of a test fleet: Ansible, run from the management network, and what its recap says."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lab import shell
from tests.lab.fleet import Fleet
from tests.lab.guest_root import REPOSITORY
from tests.lab.patience import patient

_RECAP = re.compile(r"^(\S+)\s+: (ok=\d+ .*)$", re.MULTILINE)
_PROGRAM = Path(os.environ.get("MESHSEC_ANSIBLE") or Path(sys.executable).parent / "ansible-playbook")
_PLAY_SECONDS, _SECONDS_PER_NODE = 900, 60


@dataclass(frozen=True)
class Played:
    """What a playbook came to."""

    status: int
    output: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        """Counts of ``ok``, ``changed``, ``failed``, ... by host."""
        return {
            host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in _RECAP.findall(self.output.rpartition("PLAY RECAP")[2])
        }

    @property
    def changed(self) -> int:
        """Tasks that changed something, on all hosts."""
        return sum(counts["changed"] for counts in self.recap.values())


class Controller:
    """Runs the project's playbooks on a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._home = fleet.directory / "ansible"
        self._home.mkdir(exist_ok=True)

    def play(self, playbook: str, *arguments: str, check: bool = True) -> Played:
        """Run a playbook of the collection by its name; raises CommandError when ``check`` and it failed."""
        path = REPOSITORY / "ansible" / "playbooks" / f"{playbook}.yml"
        argv = [*self.fleet.controller, str(_PROGRAM), "-i", str(self.fleet.inventory), str(path), *arguments]
        done = subprocess.run(
            argv,
            cwd=REPOSITORY / "ansible",
            env={**os.environ, **self._environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patient(_PLAY_SECONDS + _SECONDS_PER_NODE * len(self.fleet.nodes)),
            check=False,
        )
        with (self.fleet.directory / "ansible.log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(argv)}\n{done.stdout}\n")
        if check and done.returncode:
            raise shell.CommandError(subprocess.CompletedProcess(argv, done.returncode, done.stdout, ""))
        return Played(done.returncode, done.stdout)

    def _environment(self) -> dict[str, str]:
        return {
            "ANSIBLE_HOME": str(self._home),
            "ANSIBLE_NOCOLOR": "1",
            # The controller's own meshsec judges configurations.
            "PATH": f"{_PROGRAM.parent}:{os.environ['PATH']}",
            "ANSIBLE_FORKS": "10",
            # The path of a UNIX socket ends after 107 octets; what stands there goes with the lab.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.fleet.run_directory),
        }
