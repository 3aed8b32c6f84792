"""Without chronyd doctor says so, and does not fail. What a real one tells is in the scenarios."""

import os
from pathlib import Path

import pytest

from meshsec.adapters import chrony
from meshsec.core.doctor import Level

ROOT = os.geteuid() == 0


def test_without_chrony_it_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = chrony.check("/run/chrony/chronyd.sock")
    assert "chrony is not installed" in found.found
    assert (found.level, "apt install chrony" in found.mend) == ((Level.WARN, True) if ROOT else (Level.OK, False))


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
