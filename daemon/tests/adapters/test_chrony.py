"""Without chronyd doctor says so, and does not fail. What a real one tells is in the scenarios."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshsec.adapters import chrony
from meshsec.core.explain.findings import Level

ROOT = os.geteuid() == 0


def test_without_chrony_it_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = chrony.check("/run/chrony/chronyd.sock")
    assert "chrony is not installed" in found.found
    assert (found.level, "apt install chrony" in found.fix) == ((Level.WARN, True) if ROOT else (Level.OK, False))


@pytest.mark.skipif(not ROOT, reason="only root is advised: chronyd answers nobody else")
@pytest.mark.parametrize("capability", ["sys_time", "net_raw"])
def test_who_may_not_set_the_clock_is_told_of_the_drop_in(capability: str) -> None:
    """By a process without the capability, as in a container, and by one without another."""
    bounding = subprocess.run(["setpriv", "--dump"], capture_output=True, text=True, check=True).stdout
    may_set = "sys_time" in bounding.partition("Capability bounding set:")[2].partition("\n")[0]
    asked = "from meshsec.adapters import chrony; print(chrony.check('/run/none/chronyd.sock').fix)"
    command = ["setpriv", f"--bounding-set=-{capability}", sys.executable, "-c", asked]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "apt install chrony" in told
    assert ("In a container" in told) is (capability == "sys_time" or not may_set)


@pytest.mark.parametrize(("answer", "said"), [("exit 1", "does not answer at /run/x"), ("echo nonsense", "'nonsense'")])
def test_an_answer_that_is_none_is_told(
    answer: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a program in chronyc's place: the real one never says the like."""
    program = tmp_path / "chronyc"
    program.write_text(f"#!/bin/sh\n{answer}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(chrony.ChronyError, match=said):
        chrony.tracking("/run/x")
