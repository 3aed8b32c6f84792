"""What hostapd is told. What it does then is shown by a phone in the guest (tests/scenarios/radio)."""

import socket
from pathlib import Path

import pytest

from meshsec.adapters.radio import hostapd

MAC = "06:00:00:00:00:01"


def test_hostapd_is_told_who_has_left(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
        control.bind(str(tmp_path / "ap0"))
        control.settimeout(10)
        hostapd.forget(tmp_path / "ap0", MAC)
        assert control.recv(100) == b"DEAUTHENTICATE 06:00:00:00:00:01 tx=0"
    hostapd.forget(tmp_path / "ap0", MAC)  # it ended and left its socket


def test_without_hostapd_nobody_is_told(tmp_path: Path) -> None:
    hostapd.forget(tmp_path / "ap0", MAC)


def test_a_hostapd_that_reads_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
        control.bind(str(tmp_path / "ap0"))
        with pytest.raises(hostapd.HostapdError, match=f"{tmp_path}/ap0: hostapd was not told that {MAC} has left"):
            _forget_often(tmp_path / "ap0")


def _forget_often(control: Path) -> None:
    for _ in range(100_000):
        hostapd.forget(control, MAC)
