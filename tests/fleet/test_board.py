"""``make fleet-more``: the playbooks change the kernel and the radios of a machine that has its own.

``MESHSEC_BOARD_SUITE=bookworm`` runs it with Debian 12.
"""

import json
import os
from collections.abc import Iterator

import pytest

from tests.fleet import radio_neighbour
from tests.fleet.longer import longer
from tests.fleet.radio_neighbour import JOIN_SECONDS, STATIONS, wait_peering
from tests.lab.basics import shell
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import board
from tests.lab.machines.board import ADDRESS, BOOT_SECONDS, Board
from tests.lab.machines.fleet import PACKAGES
from tests.lab.machines.fleet_controller import PROGRAMS, Played

pytestmark = [
    longer,
    pytest.mark.timeout(5400, func_only=True),
]
"""The time limit excludes the fixtures, because building a root takes long. Each task of a play takes seconds there."""

SUITE = os.environ.get("MESHSEC_BOARD_SUITE", "trixie")
RT: dict[str, object] = {"rt_kernel_enabled": True, "rt_kernel_reboot": True}
PASSWORD = "only the crew knows"  # noqa: S105  # a test's own
_CONTROLLER = {"prefix": "192.0.2.0/24", "reason": "the controller comes in by the radio, and by no SA"}
RADIO: dict[str, object] = {
    "meshsec_settings": {
        "radio": {"mesh_id": "rescue", "frequency": 2412, "security": "sae"},
        "policy": {"bypass": [_CONTROLLER]},
    },
    "meshsec_deadman_seconds": 1800,  # An emulated machine's play is slow to confirm.
}
BLOCKED_SECONDS = 90.0
"""The longest time for which a neighbour may ignore a station that it has refused (docs/guide/radio.md)."""
UNCONFIRMED_SECONDS = 300
"""Longer than a play needs here from arming the timer to where the connection breaks."""
BY_RADIO, FROM_NEIGHBOUR = "192.0.2.1", "192.0.2.2"
_SAID = "journalctl --unit meshsec-radio@wlan0 --output cat"
_OTHER = "/etc/default/grub.d/other.cfg"
_TAGS = "--tags=base,rt_kernel"


@pytest.fixture(scope="module")
def machine() -> Iterator[Board]:
    """Boot a bare machine with Debian's ordinary kernel."""
    if obstacle := board.obstacle():
        pytest.skip(obstacle)
    if not list((PACKAGES / SUITE).glob("meshsec_*.deb")):
        pytest.skip(f"not installed: the project's packages for {SUITE}: `make deb RELEASE={SUITE}`")
    with Board(SUITE) as booted:
        yield booted


def test_a_boot_loader_that_takes_another_kernel_is_named(machine: Board) -> None:
    assert "PREEMPT_RT" not in machine.ssh("uname -v").stdout
    entry = f"Debian GNU/Linux, with Linux {machine.ssh('uname -r').stdout.strip()}"
    machine.ssh(f"install -D -m 0644 /dev/stdin {_OTHER}", stdin=f'GRUB_DEFAULT="{entry}"\n')
    before = _boot(machine)
    played = _play(machine, RT, _TAGS, check=False)
    assert played.recap[board.NAME]["failed"] == 1, played.output
    assert "runs a kernel without PREEMPT_RT" in played.output
    assert "what does its boot loader take?" in played.output
    assert _boot(machine) != before
    machine.ssh(f"rm {_OTHER} && update-grub")


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


def test_a_kernel_that_is_handed_over_is_installed_and_booted(machine: Board) -> None:
    """The same kernel, as a file of the controller: only its source differs."""
    release = machine.ssh("uname -r").stdout.strip()
    assert release.endswith("-rt-amd64"), "the test before this one did not boot it"
    (package,) = machine.bare.pool.glob(f"linux-image-{release}_*.deb")
    _forget(machine, release)
    handed = {**RT, "rt_kernel_deb": str(package)}
    played = _play(machine, handed, _TAGS)
    assert played.changed == 4, played.output  # A directory, a file, a package, a boot.
    assert machine.ssh("uname -r").stdout.strip() == release
    assert machine.ssh("dpkg-query -W -f '${Status}' linux-image-rt-amd64", check=False).returncode != 0
    assert _play(machine, handed, _TAGS).changed == 0


def _forget(machine: Board, release: str) -> None:
    """Boot the ordinary kernel, and remove the other."""
    machine.ssh(f"mv /boot/vmlinuz-{release} /boot/kept && update-grub && mv /boot/kept /boot/vmlinuz-{release}")
    before = _boot(machine)
    machine.ssh("systemctl reboot", check=False)
    wait_until("the machine is booted again", lambda: _boot(machine, check=False) not in ("", before), (), BOOT_SECONDS)
    assert "PREEMPT_RT" not in machine.ssh("uname -v").stdout
    machine.ssh(f"DEBIAN_FRONTEND=noninteractive apt-get -q -y purge linux-image-rt-amd64 linux-image-{release}")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the arguments with which a play reads the mesh's password as an operator keeps it."""
    directory = tmp_path_factory.mktemp("vault")
    key, kept = directory / "key", directory / "vault.yml"
    key.write_text("the operator's\n", encoding="ascii")
    kept.write_text(json.dumps({"radio_password": PASSWORD}), encoding="ascii")
    shell.run([str(PROGRAMS / "ansible-vault"), "encrypt", f"--vault-password-file={key}", str(kept)])
    assert PASSWORD not in kept.read_text(encoding="ascii")
    return [f"--vault-password-file={key}", "-e", f"@{kept}"]


def test_a_radio_meets_a_neighbour_who_has_the_password(machine: Board, vault: list[str]) -> None:
    radio_neighbour.load_radios(machine)
    played = _play(machine, RADIO, *vault)
    assert PASSWORD not in played.output
    radio_neighbour.move(machine)
    radio_neighbour.join(machine, PASSWORD)
    wait_peering(machine, JOIN_SECONDS)
    again = _play(machine, RADIO, *vault)
    assert again.changed == 0, again.output
    assert "ESTAB" in machine.ssh(STATIONS).stdout


def test_a_password_that_no_neighbour_has_is_taken_back(machine: Board, vault: list[str]) -> None:
    """The controller reaches the board over the radio only, and without an SA: the link itself is under test."""
    by_radio = _by_radio(machine)
    wrong = {"radio_password": "a slip of the pen", "meshsec_deadman_seconds": UNCONFIRMED_SECONDS}
    played = _play(machine, {**RADIO, **by_radio}, *vault, "--tags=radio", "-e", json.dumps(wrong), check=False)
    recap = played.recap[board.NAME]
    assert recap["unreachable"] + recap["failed"] == 1, played.output
    assert "taken back already" not in played.output, "it was slower than the timer: the way never broke"
    assert "ESTAB" not in machine.ssh(STATIONS).stdout
    wait_until("it is taken back", lambda: _taken_back(machine), (), UNCONFIRMED_SECONDS + BOOT_SECONDS)
    wait_peering(machine, BLOCKED_SECONDS + JOIN_SECONDS)
    again = _play(machine, {**RADIO, **by_radio}, *vault, "--tags=radio")
    assert again.changed == 0, again.output


def test_a_radio_meets_no_neighbour_with_another_password(machine: Board) -> None:
    """It comes last, because the neighbours ignore the radio for a while."""
    machine.ssh("systemctl stop neighbour")
    radio_neighbour.join(machine, "nobody's password")
    wait_until("a refusal", lambda: "MESH-SAE-AUTH-FAILURE" in machine.ssh(_SAID).stdout, (), JOIN_SECONDS)
    assert "ESTAB" not in machine.ssh(STATIONS).stdout


def _by_radio(machine: Board) -> dict[str, object]:
    """Return the variables with which Ansible reaches the board over its neighbour's radio."""
    way = f"exec 3<>/dev/tcp/{BY_RADIO}/22; cat <&3 & cat >&3"
    machine.ssh("install -m 0755 /dev/stdin /root/by-radio", stdin=f"#!/bin/bash\n{way}\n")
    machine.ssh(f"ip address add {BY_RADIO}/24 dev wlan0; ip -n neighbour address add {FROM_NEIGHBOUR}/24 dev wlan1")
    options = " ".join(machine.keys.options())
    jump = f"ssh -i {machine.keys.client} {options} root@{ADDRESS} ip netns exec neighbour /root/by-radio"
    common = f"{options} -o HostKeyAlias={ADDRESS} -o 'ProxyCommand={jump}'"
    return {"ansible_host": BY_RADIO, "ansible_ssh_common_args": common}


def _taken_back(machine: Board) -> bool:
    return "is taken back" in machine.ssh("journalctl --unit meshsec-deadman.service --output cat").stdout


def _play(machine: Board, variables: dict[str, object], *arguments: str, check: bool = True) -> Played:
    return machine.play(
        "provision", "-e", json.dumps({"meshsec_interfaces": ["wlan0"], **variables}), *arguments, check=check
    )


def _boot(machine: Board, *, check: bool = True) -> str:
    """Return a text that differs after each boot; without ``check`` empty where the machine does not answer."""
    return machine.ssh("cat /proc/sys/kernel/random/boot_id", check=check).stdout.strip()
