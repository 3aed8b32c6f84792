"""The faults that ``leaktest`` provokes; tests/scenarios/protection/test_leaktest.py shows what it sees."""

from pathlib import Path
from typing import Any

import pytest

from meshsec.cli.app import App
from meshsec.cli.leaktest import PROVOCATIONS, _provocation, _show, _Test
from namespaces import inside, ip, needs_root, new_namespace

__all__ = ["inside", "new_namespace"]


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


@needs_root
@pytest.mark.parametrize(("address", "tried"), [("10.9.0.1", True), ("10.8.0.1", False)])
def test_a_network_is_tried_from_an_address_in_one_behind_this_node_or_named_as_not_tried(
    inside: str, capsys: pytest.CaptureFixture[str], address: str, tried: bool
) -> None:
    for one in (f"{address}/24", "fc00::1/128"):
        ip("address", "add", one, "dev", "lo", *(["nodad"] if ":" in one else []))
    shown = {"peer": "boat", "ready": [], "problem": ""}
    status: dict[str, Any] = {
        "node": {"address": "fc00::1", "ipv4": None},
        "networks": [{**shown, "network": one} for one in ("10.1.0.0/16", "2001:db8:1::/64")],
        "own_networks": ["10.9.0.0/16", "0.0.0.0/0"],
        "overlay": None,
        "esp_ground": "kernel",
    }
    peers = [{"name": "boat", "address": "fc00::2", "ipv4": "10.77.0.2"}]
    view = _Test(b"0" * 16, status, peers, ()).run((), 50, 0.5, sends=True)
    assert [one["target"] for one in view["networks"]] == ["10.1.0.1" if tried else None, "2001:db8:1::1"]
    _show(view)
    named = "not tried: 10.1.0.0/16: this node has no IPv4 address, in the mesh or in a network behind it"
    assert (named in capsys.readouterr().out) != tried
