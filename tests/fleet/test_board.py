"""``make fleet-more``: what a machine has that has a kernel of its own: which one is booted, and radios.

``MESHSEC_BOARD_SUITE=bookworm`` has it with Debian 12, which nobody has tried yet.
"""

import json
import os
from collections.abc import Iterator

import pytest

from tests.lab import board, shell
from tests.lab.board import Board
from tests.lab.fleet import PACKAGES
from tests.lab.fleet_controller import PROGRAMS, Played
from tests.lab.waiting import wait_until

pytestmark = [
    pytest.mark.skipif("MESHSEC_FLEET_ALL" not in os.environ, reason="minutes: `make fleet-more` runs it"),
    pytest.mark.timeout(5400, func_only=True),
]
"""Not the set-up, which builds a root when nobody has done that before. Each task of a play is seconds there."""

SUITE = os.environ.get("MESHSEC_BOARD_SUITE", "trixie")
RT: dict[str, object] = {"rt_kernel_enabled": True, "rt_kernel_reboot": True}
PASSWORD = "only the crew knows"  # noqa: S105  # a test's own
RADIO: dict[str, object] = {
    "meshsec_settings": {"radio": {"mesh_id": "rescue", "frequency": 2412, "security": "sae"}},
    "meshsec_deadman_seconds": 1800,  # an emulated machine's play is slow to confirm
}
JOIN_SECONDS = 180.0
_SECOND_RADIO = "ip netns add neighbour && iw phy $(cat /sys/class/net/wlan1/phy80211/name) set netns name neighbour"
_STATIONS = "iw dev wlan0 station dump"
_SAID = "journalctl --unit meshsec-radio@wlan0 --output cat"
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


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The mesh's password, as an operator keeps it; the arguments by which a play gets at it."""
    directory = tmp_path_factory.mktemp("vault")
    key, kept = directory / "key", directory / "vault.yml"
    key.write_text("the operator's\n", encoding="ascii")
    kept.write_text(json.dumps({"radio_password": PASSWORD}), encoding="ascii")
    shell.run([str(PROGRAMS / "ansible-vault"), "encrypt", f"--vault-password-file={key}", str(kept)])
    assert PASSWORD not in kept.read_text(encoding="ascii")
    return [f"--vault-password-file={key}", "-e", f"@{kept}"]


def test_a_radio_meets_a_neighbour_who_has_the_password(machine: Board, vault: list[str]) -> None:
    """In this order: who was refused is blocked for minutes, whatever its password is then (docs/radio.md)."""
    machine.ssh("echo options mac80211_hwsim radios=2 >/etc/modprobe.d/radios.conf && modprobe mac80211_hwsim")
    played = _play(machine, RADIO, *vault)
    assert PASSWORD not in played.output
    machine.ssh(_SECOND_RADIO)
    _join(machine, PASSWORD)
    wait_until("a peering", lambda: "ESTAB" in machine.ssh(_STATIONS).stdout, (), JOIN_SECONDS)
    again = _play(machine, RADIO, *vault)
    assert again.changed == 0, again.output
    assert "ESTAB" in machine.ssh(_STATIONS).stdout
    machine.ssh("systemctl stop neighbour")
    _join(machine, "nobody's password")
    wait_until("a refusal", lambda: "MESH-SAE-AUTH-FAILURE" in machine.ssh(_SAID).stdout, (), JOIN_SECONDS)
    assert "ESTAB" not in machine.ssh(_STATIONS).stdout


def _join(machine: Board, password: str) -> None:
    """Have the second radio join by hand, in a namespace of its own."""
    machine.ssh("install -m 0600 /dev/stdin /root/neighbour.password", stdin=f"{password}\n")
    machine.ssh(
        "systemd-run --quiet --collect --unit=neighbour --property=RuntimeDirectory=neighbour"
        " --property=LoadCredential=meshsec.sae-password:/root/neighbour.password"
        " ip netns exec neighbour meshsec-radio wlan1"
    )


def _play(machine: Board, variables: dict[str, object], *arguments: str, check: bool = True) -> Played:
    return machine.play(
        "provision", "-e", json.dumps({"meshsec_interfaces": ["wlan0"], **variables}), *arguments, check=check
    )


def _boot(machine: Board) -> str:
    """Another text after each boot."""
    return machine.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
