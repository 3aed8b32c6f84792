"""``[overlay]`` of ``meshsec.toml``: the other data plane (docs/meshsec.toml.md)."""

from dataclasses import dataclass

from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

_TAKEN = ("ipsec0",)
"""charon's own device: user data that leaves by it counts as protected."""

NOT_ENABLED = "'overlay' needs [overlay] enabled = true"


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    """Where the overlay's node answers and which device is its."""

    enabled: bool = False
    """It runs, relays for others and admits trusted peers, whatever this node's own mode is."""
    socket: str = "/run/overlayd/control.sock"
    device: str = "overlay0"
    """Its TUN device (``tun``)."""


def read(table: Table, base: str) -> OverlaySettings:
    """The section; relative paths start from the directory ``base``."""
    default = OverlaySettings()
    settings = OverlaySettings(
        enabled=table.take("enabled", tables.boolean, default.enabled),
        socket=table.take("socket", tables.path(base, tables.SOCKET_PATH_MAX), default.socket),
        device=table.take("tun", _device, default.device),
    )
    table.refuse_the_rest()
    return settings


def _device(value: object) -> str:
    if not isinstance(value, str) or not tables.is_interface_name(value) or value in _TAKEN:
        raise RefusedError(f"the name of a device of its own: {tables.INTERFACE_RULE}, not {', '.join(_TAKEN)}")
    return value
