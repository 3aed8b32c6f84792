"""``[overlay]`` of ``meshsec.toml``: the other data plane (docs/reference/meshsec.toml.md)."""

from typing import Annotated

from msgspec import Meta, Struct, field

from meshsec.core.config.kinds import InterfaceName, SocketPath
from meshsec.core.values import tables
from meshsec.core.values.definition import Wrong

_TAKEN = "ipsec0"
"""charon's own device: user data that leaves by it counts as protected."""

NOT_ENABLED = "'overlay' needs [overlay] enabled = true"


class OverlaySettings(Struct, frozen=True):
    """Where the overlay's node answers, and which device it has."""

    enabled: Annotated[
        bool,
        Meta(
            description="whether overlayd runs, relays for others and takes the user data of trusted peers, whatever "
            "this node's own mode is"
        ),
    ] = False
    socket: Annotated[SocketPath, Meta(description="overlayd's control socket: a path of at most 107 octets")] = (
        "/run/overlayd/control.sock"
    )
    device: Annotated[InterfaceName, Meta(description=f"the name of its TUN device; not `{_TAKEN}`")] = field(
        name="tun", default="overlay0"
    )

    def wrong(self, _given: object) -> Wrong:
        """Yield the name of a device that is not the overlay's own."""
        if self.device == _TAKEN:
            yield ("tun",), f"the name of a device of its own: {tables.INTERFACE_RULE}, not {_TAKEN}"
