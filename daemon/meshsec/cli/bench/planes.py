"""The peer that is to be measured, and its data plane."""

import time
from collections.abc import Mapping
from typing import Any

import click

from meshsec.cli.client import Client, DaemonError
from meshsec.core.values.model import DataPlane

_PATIENCE = 30.0
"""Seconds: the overlay proves a way to the peer before it carries, and IPsec negotiates."""
_LOOK = 0.1


def entry(status: Mapping[str, Any], peer: str) -> Mapping[str, Any] | None:
    """Return what a status says of a peer; None if it is not one."""
    found: Mapping[str, Any] | None = next((one for one in status["peers"] if one["name"] == peer), None)
    return found


def named(status: Mapping[str, Any], peer: str) -> Mapping[str, Any]:
    """Return what a status says of a peer. Raises ClickException for this node itself, and for nobody."""
    if (found := entry(status, peer)) is not None:
        return found
    if peer in {status["node"]["name"], status["node"]["address"]}:
        raise click.ClickException(f"{peer} is this node itself; name a peer: `meshsec peer list` shows them")
    raise click.ClickException(f"{peer!r} is the name of no peer: `meshsec peer list` shows them")


def not_protected(found: Mapping[str, Any]) -> click.ClickException:
    """Return the refusal to measure a peer that is not protected."""
    name = found["name"]
    return click.ClickException(f"{name} is {found['state']}, not protected: `meshsec explain {name}` says why")


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
