"""Which interfaces NetworkManager manages, as nmcli says it: the number and the name of the state."""

from pathlib import Path

import pytest

from meshsec.adapters import network_manager

NMCLI = """#!/bin/sh
case $6 in
wlan0) echo '100 (connected)' ;;
eth1) echo '30 (disconnected)' ;;
eth2) echo '10 (unmanaged)' ;;
*) echo "Error: Device '$6' not found." >&2; exit 10 ;;
esac
"""


def test_an_interface_is_managed_in_whatever_state_but_unmanaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nmcli").write_text(NMCLI)
    (tmp_path / "nmcli").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert network_manager.managed(["wlan0", "eth1", "eth2", "mesh0"]) == ["wlan0", "eth1"]


def test_where_it_is_not_installed_or_does_not_run_it_manages_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert network_manager.managed(["wlan0"]) == []
    (tmp_path / "nmcli").write_text("#!/bin/sh\necho 'Error: NetworkManager is not running.' >&2; exit 8\n")
    (tmp_path / "nmcli").chmod(0o755)
    assert network_manager.managed(["wlan0"]) == []
