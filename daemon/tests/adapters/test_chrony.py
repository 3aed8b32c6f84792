"""What doctor says where chronyd is missing or answers nonsense; scenarios ask a real chronyd."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshsec.adapters import chrony
from meshsec.core.explain.findings import Level

ROOT = os.geteuid() == 0


def test_a_missing_chrony_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = chrony.check("/run/chrony/chronyd.sock")
    assert "chrony is not installed" in found.found
    assert (found.level, "apt install chrony" in found.fix) == ((Level.WARN, True) if ROOT else (Level.OK, False))


@pytest.mark.skipif(not ROOT, reason="only root is advised: chronyd answers nobody else")
@pytest.mark.parametrize("capability", ["sys_time", "net_raw"])
def test_a_process_without_cap_sys_time_is_pointed_to_the_drop_in(capability: str) -> None:
    bounding = subprocess.run(["setpriv", "--dump"], capture_output=True, text=True, check=True).stdout
    may_set = "sys_time" in bounding.partition("Capability bounding set:")[2].partition("\n")[0]
    asked = "from meshsec.adapters import chrony; print(chrony.check('/run/none/chronyd.sock').fix)"
    command = ["setpriv", f"--bounding-set=-{capability}", sys.executable, "-c", asked]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "apt install chrony" in told
    assert ("In a container" in told) is (capability == "sys_time" or not may_set)


@pytest.mark.parametrize(("answer", "said"), [("exit 1", "does not answer at /run/x"), ("echo nonsense", "'nonsense'")])
def test_an_answer_that_chronyc_never_gives_is_refused_with_its_text(
    answer: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "chronyc"
    program.write_text(f"#!/bin/sh\n{answer}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(chrony.ChronyError, match=said):
        chrony.tracking("/run/x")
