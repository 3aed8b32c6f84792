"""What `meshsec up` must do on a booted machine that has the programs and nothing else."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess

UNITS = ("meshsec.target", "meshsec-firewall", "meshsec-ike", "meshsecd", "olsrv2d")
_FILES = "find /etc/meshsec /etc/systemd/system /var/lib/meshsec -type f -exec sha256sum {} + -o -type l -print | sort"
_PROCESSES = "systemctl show --property=MainPID meshsecd olsrv2d meshsec-ike"

Shell = Callable[[str], CompletedProcess[str]]
"""Runs a command line on the machine, and raises nothing when that fails."""


def assert_goes_up(run: Shell, name: str, interface: str) -> None:
    """Check that one command makes a node that runs, that what is missing is named, and that a second run keeps all."""
    assert run("systemctl start meshsec.target").returncode != 0
    assert "`meshsec up`" in run("systemctl status meshsec.target").stdout
    assert "`meshsec up`" in run("journalctl --no-pager --unit=meshsec.target").stdout
    assert "--name is missing" in run("meshsec up </dev/null").stderr
    assert run("test -e /etc/meshsec/meshsec.toml").returncode != 0, "a refusal writes nothing"

    made = run(f"meshsec up --name {name} --interface {interface} </dev/null")
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"{name} runs. Its card:" in made.stdout
    for unit in UNITS:
        assert run(f"systemctl is-active {unit}").stdout == "active\n", unit
    assert run("systemctl is-enabled meshsec.target").stdout == "enabled\n"
    assert run("systemctl is-enabled strongswan").stdout == "disabled\n"
    assert json.loads(run("meshsec status --json").stdout)["node"]["name"] == name

    kept, processes = run(_FILES).stdout, run(_PROCESSES).stdout
    assert f"{name} runs" in run("meshsec up </dev/null").stdout
    assert run(_FILES).stdout == kept
    assert run(_PROCESSES).stdout == processes
