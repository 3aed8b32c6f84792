"""``make fleet-more``: what a machine has that has a kernel of its own: which one is booted.

``MESHSEC_BOARD_SUITE=bookworm`` has it with Debian 12, which nobody has tried yet.
"""

import json
import os
from collections.abc import Iterator

import pytest

from tests.lab import board
from tests.lab.board import Board
from tests.lab.fleet import PACKAGES
from tests.lab.fleet_controller import Played

pytestmark = [
    pytest.mark.skipif("MESHSEC_FLEET_ALL" not in os.environ, reason="minutes: `make fleet-more` runs it"),
    pytest.mark.timeout(5400, func_only=True),
]
"""Not the set-up, which builds a root when nobody has done that before. Each task of a play is seconds there."""

SUITE = os.environ.get("MESHSEC_BOARD_SUITE", "trixie")
RT: dict[str, object] = {"rt_kernel_enabled": True, "rt_kernel_reboot": True}
_TAGS = "--tags=base,rt_kernel"


@pytest.fixture(scope="module")
def machine() -> Iterator[Board]:
    """A bare machine, booted with Debian's ordinary kernel."""
    if obstacle := board.obstacle():
        pytest.skip(obstacle)
    if not list((PACKAGES / SUITE).glob("meshsec_*.deb")):
        pytest.skip(f"not installed: the project's packages for {SUITE}: `make deb RELEASE={SUITE}`")
    with Board(SUITE) as booted:
        yield booted


def test_the_node_boots_into_debians_rt_kernel_and_stays_there(machine: Board) -> None:
    assert "PREEMPT_RT" not in machine.ssh("uname -v").stdout
    before = _boot(machine)
    _play(machine, RT, _TAGS)
    assert "PREEMPT_RT" in machine.ssh("uname -v").stdout
    booted = _boot(machine)
    assert booted != before
    again = _play(machine, RT, _TAGS)
    assert again.changed == 0, again.output
    assert _boot(machine) == booted


def _play(machine: Board, variables: dict[str, object], *arguments: str, check: bool = True) -> Played:
    return machine.play(
        "provision", "-e", json.dumps({"meshsec_interfaces": ["wlan0"], **variables}), *arguments, check=check
    )


def _boot(machine: Board) -> str:
    """Another text after each boot."""
    return machine.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
