"""A run that requires the lab ends with the fix where something is missing; a run by hand skips what needs it.

These tests run pytest again in a mount namespace that lacks something.
"""

import os
import subprocess
import sys

import pytest

from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import nspawn
from tests.lab.node.capabilities import REQUIRED

TUN = "mount -t tmpfs none /dev/net"
CHARON = "mount --bind /dev/null $(PATH=$PATH:/usr/sbin command -v charon-systemd)"
NSPAWN = "mount --bind /dev/null $(command -v systemd-nspawn)"

ANY = "tests/scenarios/protection/test_boot.py"
BOOTED = "tests/scenarios/operations/test_systemd.py::test_the_quick_start_ends_in_a_protected_channel"


def run_of(claim: str, without: str, *, required: bool) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != REQUIRED}
    if required:
        environment[REQUIRED] = "1"
    program = f'{without} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", program, "sh", sys.executable, "-m", "pytest", "-q", claim]
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


pytestmark = pytest.mark.skipif(bool(nspawn.obstacle()), reason=f"booted nodes are taken away: {nspawn.obstacle()}")


@pytest.mark.parametrize(("without", "text"), [(TUN, "/dev/net/tun (modprobe tun"), (CHARON, "package charon-systemd")])
def test_what_every_scenario_needs_ends_the_run_at_once_and_says_what_to_install(without: str, text: str) -> None:
    done = run_of(ANY, without, required=True)
    assert (done.returncode, text in done.stdout + done.stderr) == (1, True), done.stdout + done.stderr
    assert "make setup" in done.stdout + done.stderr
    assert "passed" not in done.stdout


def test_a_test_that_is_skipped_for_a_program_that_is_not_installed_fails() -> None:
    done = run_of(BOOTED, NSPAWN, required=True)
    assert done.returncode == 1, done.stdout
    assert "not installed: systemd-nspawn; fix: `make setup`" in done.stdout


@pytest.mark.parametrize(("claim", "without"), [(ANY, CHARON), (BOOTED, NSPAWN)])
def test_by_hand_it_is_skipped_and_said(claim: str, without: str) -> None:
    """The negative case."""
    done = run_of(claim, without, required=False)
    assert done.returncode == 0, done.stdout
    assert "SKIPPED" in done.stdout
    assert "failed" not in done.stdout
