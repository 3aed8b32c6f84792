"""Ask NetworkManager, with nmcli(1), which interfaces it manages."""

import subprocess
from collections.abc import Iterable

_SECONDS = 10.0
_UNMANAGED = "10"
"""NM_DEVICE_STATE_UNMANAGED (NetworkManager's D-Bus API, NMDeviceState)."""
_UNAVAILABLE = "0"
"""NM_DEVICE_STATE_UNKNOWN."""


def managed(interfaces: Iterable[str]) -> list[str]:
    """Return the interfaces that it manages; none where it does not run, or is not installed."""
    return [name for name in interfaces if _state(name) not in {"", _UNAVAILABLE, _UNMANAGED}]


def _state(interface: str) -> str:
    """Return the number of the interface's state; empty where there is none."""
    argv = ["nmcli", "--terse", "--get-values", "GENERAL.STATE", "device", "show", interface]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ""
    words = done.stdout.split()
    return words[0] if words and done.returncode == 0 else ""
