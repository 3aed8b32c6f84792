"""`kernelconfig ran` records which functions of a driver run while a mesh point comes up and traffic passes.

The driver is mac80211_hwsim, with mac80211 above it, in the guest.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.shell import run
from tests.lab.radio import hwsim, meshsec_radio

MODULES = ("mac80211_hwsim", "mac80211")
FIRST, SECOND = "ran-a", "ran-b"
"""Radios, and the namespaces that they are moved to."""
_MESH = f"""\
set -e
number=1
for name in {FIRST} {SECOND}; do
    iw phy $name set netns name $name
    ip netns exec $name iw phy $name interface add mesh0 type mp
    ip -n $name address add 10.83.0.$number/24 dev mesh0
    ip -n $name link set mesh0 up
    ip netns exec $name iw dev mesh0 mesh join ran freq 2412 HT20
    number=$((number + 1))
done
tries=0
until ip netns exec {FIRST} ping -c 1 -W 2 10.83.0.2; do
    tries=$((tries + 1))
    [ $tries -lt 60 ]
done
ip netns exec {FIRST} ping -c 30 -i 0.1 -s 1000 10.83.0.2
ip netns exec {FIRST} iw dev mesh0 mesh leave
"""
_INSTANCES = Path("/sys/kernel/tracing/instances")


@pytest.fixture
def radios() -> Any:
    """Plug two radios in, and make two namespaces for them."""
    if obstacle := meshsec_radio.obstacle():
        pytest.skip(obstacle)
    if not _INSTANCES.is_dir():
        run(["mount", "-t", "tracefs", "tracefs", str(_INSTANCES.parent)])
    with hwsim.radio(FIRST, "rana"), hwsim.radio(SECOND, "ranb"):
        try:
            for name in (FIRST, SECOND):
                run(["ip", "netns", "add", name])
            yield
        finally:
            for name in (FIRST, SECOND):
                run(["ip", "netns", "exec", name, "iw", "phy", name, "set", "netns", str(os.getpid())], check=False)
                run(["ip", "netns", "delete", name], check=False)


def _kernelconfig(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kernelconfig", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "kernel-config")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=900, check=False)


def _recorded(output: Path, *command: str) -> dict[str, dict[str, set[str]]]:
    """Return what the modules' functions did while a command ran."""
    named = [part for module in MODULES for part in ("--module", module)]
    result = _kernelconfig("ran", *named, "--output", output, "--", *command)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(_INSTANCES.glob("kernelconfig-*")), "the tracer is still there"
    recording = json.loads(output.read_text())
    assert recording["lost"] == 0
    return {run["module"]: {key: set(run[key]) for key in ("ran", "traceable")} for run in recording["runs"]}


def test_functions_of_a_mesh_point_run_and_those_of_an_access_point_do_not(radios: None, tmp_path: Path) -> None:
    """The negative case comes first: while nothing happens, no function of a mesh runs."""
    idle = _recorded(tmp_path / "idle.json", "true")
    meshing = {"mac80211": {"ieee80211_join_mesh", "ieee80211_leave_mesh", "mesh_rx_plink_frame"}}
    meshing["mac80211_hwsim"] = {"mac80211_hwsim_tx", "mac80211_hwsim_add_interface", "mac80211_hwsim_sta_add"}
    assert not any(meshing[module] & idle[module]["ran"] for module in MODULES)
    output = tmp_path / "ran.json"
    busy = _recorded(output, "sh", "-c", _MESH)
    for module in MODULES:
        assert meshing[module] <= busy[module]["ran"], meshing[module] - busy[module]["ran"]
        assert busy[module]["ran"] < busy[module]["traceable"]
    others = {"ieee80211_start_ap", "ieee80211_stop_ap", "ieee80211_join_ocb"}
    assert others <= busy["mac80211"]["traceable"]
    assert not others & busy["mac80211"]["ran"]
    (path,) = Path("/lib/modules", os.uname().release).rglob("mac80211_hwsim.ko*")
    result = _kernelconfig("dissect", "--json", "--ran", output, path)
    (module,) = json.loads(result.stdout)["modules"]
    functions = {function["name"] for function in module["functions"]}
    assert set(module["ran"]["ran"]) == busy["mac80211_hwsim"]["ran"] <= functions
    assert {need["provider"] for need in module["needs"]} >= {"mac80211", "cfg80211", "vmlinux"}


def test_the_commands_status_is_passed_on_and_what_cannot_be_followed_is_refused(radios: None, tmp_path: Path) -> None:
    output = tmp_path / "ran.json"
    assert _kernelconfig("ran", "-m", "mac80211_hwsim", "-o", output, "--", "sh", "-c", "exit 7").returncode == 7
    absent = _kernelconfig("ran", "-m", "b43", "-o", output, "--", "true")
    assert (absent.returncode, absent.stdout) == (2, "")
    assert absent.stderr == "kernelconfig: module b43 is not loaded after the command; load it: modprobe b43\n"
    gone = _kernelconfig("ran", "-m", "mac80211_hwsim", "-o", output, "--", "no-such-program")
    assert (gone.returncode, gone.stderr) == (2, "kernelconfig: no-such-program: No such file or directory\n")
    assert not list(_INSTANCES.glob("kernelconfig-*"))
