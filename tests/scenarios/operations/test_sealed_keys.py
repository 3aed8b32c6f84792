"""Keys sealed by a TPM: the daemons come up with them, and a copy of the disk without that TPM is worth nothing.

The node is booted with systemd as process 1; its TPM is swtpm. What is on its disk is searched for the key.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from meshsec.adapters.files import systemd_creds
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.machines import booted, tpm
from tests.lab.machines.nspawn import Machine
from tests.lab.machines.tpm import SoftwareTpm

STATE = "/var/lib/meshsec"
KEY, SEALED, OPENED = f"{STATE}/node.key", f"{STATE}/node.key.sealed", "/run/meshsec/keys/node.key"
UNIT = "meshsec-keys.service"
SOCKET = "/run/tpm.sock"
DAEMONS = ("meshsecd.service", "olsrv2-signer.service")

pytestmark = pytest.mark.timeout(600, func_only=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Lab, Machine]]:
    """Yield node a, booted by the quick start, with two TPMs that are off, and b."""
    if obstacle := tpm.obstacle():
        pytest.skip(obstacle)
    for name in ("own", "other"):
        tpm.make(tmp_path / name)
    with booted.pair("sealed") as started:
        lab, machine = started
        lab["a"].wait_protected(lab["b"], 120)
        machine.run("systemctl", "start", "olsrv2-signer.service")
        by = f"{systemd_creds.VARIABLE}={tpm.device(SOCKET)}"
        machine.write(f"/run/systemd/system/{UNIT}.d/tpm.conf", f"[Service]\nEnvironment={by}\n")
        machine.run("systemctl", "daemon-reload")
        yield started


@contextmanager
def on(machine: Machine, state: Path) -> Iterator[None]:
    """Give the machine that TPM while the block runs."""
    with SoftwareTpm(state, machine.root / SOCKET.lstrip("/")):
        yield


def seal(machine: Machine, *, check: bool = True) -> str:
    """Run ``meshsec key seal`` and return what it says."""
    by = f"{systemd_creds.VARIABLE}={tpm.device(SOCKET)}"
    done = machine.run("env", by, "meshsec", "key", "seal", check=check)
    return done.stdout + done.stderr


def places(machine: Machine, forms: tuple[bytes, ...]) -> list[str]:
    """Return the files of the machine's disk in which the key is in any of its forms."""
    disk = machine.node.directory / "machine"
    found = [path for name in ("layer", "written") for path in (disk / name).rglob("*")]
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    assert any(path.name == "node.pub" for path in files), "this is not the machine's disk"
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]


def reboot(machine: Machine) -> None:
    """Take from the machine what a boot takes: the daemons and what is in memory. The disk stays."""
    machine.run("systemctl", "stop", "meshsec.target", *DAEMONS, UNIT, "run-meshsec-keys.mount")
    assert machine.run("test", "-e", OPENED, check=False).returncode, "the opened key outlived its memory"
    machine.run("systemctl", "start", "meshsec.target", *DAEMONS, check=False)


def states(machine: Machine, *units: str) -> list[str]:
    """Return what systemd says of each unit's state."""
    return [machine.show(unit, "ActiveState")["ActiveState"] for unit in units]


def test_a_disk_is_worth_nothing_without_the_tpm_that_sealed_it(pair: tuple[Lab, Machine], tmp_path: Path) -> None:
    lab, machine = pair
    pem = machine.run("cat", KEY).stdout.encode()
    seed = load_pem_private_key(pem, None).private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    forms = (pem.splitlines()[1][24:], seed)
    # A TPM that refuses: the node stays as it was, and the search finds what is there.
    assert "Nothing was changed: the keys are not sealed, and the node works" in seal(machine, check=False)
    assert places(machine, forms) == ["node.key"]
    assert machine.run("cat", KEY).stdout.encode() == pem
    with on(machine, tmp_path / "own"):
        assert f"{KEY}: sealed by this machine's TPM" in seal(machine)
        assert places(machine, forms) == []
        assert json.loads(machine.run("meshsec", "key", "status", "--json").stdout)["sealed"] is True
        assert "ok    node key" in machine.run("meshsec", "doctor", check=False).stdout, "meshsecd does not see it"
        reboot(machine)
        assert states(machine, UNIT, *DAEMONS) == ["active"] * 3
        lab["a"].wait_protected(lab["b"], 60)
    sealed = machine.run("cat", SEALED).stdout
    # A copy of the disk in another machine.
    with on(machine, tmp_path / "other"):
        reboot(machine)
        assert states(machine, *DAEMONS) == ["failed", "inactive"]
        said = machine.run("journalctl", "--no-pager", f"--unit={UNIT}", "--unit=meshsecd.service").stdout
        assert f"{KEY}: is sealed, and this machine's TPM has not opened it" in said
        assert "the TPM refuses (systemd-creds decrypt: " in said
        assert "Nothing was changed. On another machine, or with another TPM" in said
        assert machine.run("meshsec", "init", check=False).returncode, "it made another key over the sealed one"
    assert machine.run("cat", SEALED).stdout == sealed
    with on(machine, tmp_path / "own"):
        machine.run("systemctl", "restart", UNIT)
        wait_until("meshsecd runs again", lambda: states(machine, *DAEMONS) == ["active"] * 2, (), 60)
        lab["a"].wait_protected(lab["b"], 60)
    done = machine.run("meshsec", "zeroize", "--yes-destroy-keys")
    assert "NOT DESTROYED" not in done.stdout + done.stderr
    for path in (KEY, SEALED, OPENED):
        assert machine.run("test", "-e", path, "-o", "-L", path, check=False).returncode, path
