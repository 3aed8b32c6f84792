"""The faults that ``leaktest`` provokes; tests/scenarios/protection/test_leaktest.py shows what it sees."""

from pathlib import Path

import pytest

from meshsec.cli.app import App
from meshsec.cli.leaktest import PROVOCATIONS, _provocation


@pytest.mark.parametrize(
    ("daemon", "unit"), [("strongswan", "meshsec-ike.service"), ("libreswan", "meshsec-pluto.service")]
)
def test_the_ike_daemon_that_is_killed_is_the_nodes_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: str, unit: str
) -> None:
    config, told = tmp_path / "meshsec.toml", tmp_path / "told"
    config.write_text(f'[node]\nname = "a"\n[routing]\ninterfaces = ["mesh0"]\n[ike]\ndaemon = "{daemon}"\n')
    systemctl = tmp_path / "bin/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f'#!/bin/sh\necho "$@" >{told}\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(systemctl.parent), prepend=":")
    _provocation(App(config, None), "kill-ike", [])()
    assert told.read_text() == f"kill --kill-whom=main --signal=KILL {unit}\n"
    _provocation(App(config, None), "kill-router", [])()
    assert told.read_text().endswith(" olsrv2d.service\n")
    assert set(PROVOCATIONS) >= {"kill-ike", "kill-router"}
