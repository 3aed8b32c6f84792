"""Wait for the data plane that is to be measured."""

import time
from collections.abc import Mapping
from typing import Any

from meshsec.cli.client import Client, DaemonError
from meshsec.core.values.model import DataPlane

_PATIENCE = 30.0
"""Seconds: the overlay proves a way to the peer before it carries, and IPsec negotiates."""
_LOOK = 0.1


def entry(status: Mapping[str, Any], peer: str) -> Mapping[str, Any] | None:
    """Return what a status says of a peer; None if it is not one."""
    found: Mapping[str, Any] | None = next((one for one in status["peers"] if one["name"] == peer), None)
    return found


def await_plane(client: Client, peer: str, plane: DataPlane) -> None:
    """Wait until a plane carries. Raises DaemonError."""
    end = time.monotonic() + _PATIENCE
    while True:
        found = entry(client.call("status"), peer)
        if found is not None and found["data_plane"] == plane:
            return
        if time.monotonic() > end:
            reason = "it is no peer any more" if found is None else f"{found['state']}, {found['reason']}"
            raise DaemonError(f"{plane} does not carry to {peer} after {_PATIENCE:.0f} s ({reason})")
        time.sleep(_LOOK)
