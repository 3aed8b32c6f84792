"""``[position]`` of ``meshsec.toml``: where this node is (docs/reference/meshsec.toml.md)."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.positions.positions import ALTITUDES, Position
from meshsec.core.values.definition import Wrong


class PositionSettings(Struct, frozen=True):
    """``[position]``."""

    latitude: Annotated[
        float | None,
        Meta(
            ge=-90,
            le=90,
            description="degrees north (WGS 84), of a node that stays where it is",
            extra={"unit": "degrees", "default": "none"},
        ),
    ] = None
    longitude: Annotated[
        float | None,
        Meta(ge=-180, le=180, description="degrees east", extra={"unit": "degrees", "default": "none"}),
    ] = None
    altitude: Annotated[
        float | None,
        Meta(
            ge=ALTITUDES[0],
            le=ALTITUDES[1],
            description="metres above the ellipsoid of WGS 84, as a GPS receiver measures it",
            extra={"unit": "metres", "default": "none"},
        ),
    ] = None
    gpsd: Annotated[bool, Meta(description="ask gpsd on this machine where the node is")] = False
    port: Annotated[int, Meta(ge=1, le=65535, description="gpsd's TCP port on this machine")] = 2947

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield what only several keys together show."""
        for one, other in (("latitude", "longitude"), ("longitude", "latitude")):
            if one in given and other not in given:
                yield (one,), f"only together with {other}"
        if "altitude" in given and not {"latitude", "longitude"} & set(given):
            yield ("altitude",), "only together with latitude and longitude"
        if self.gpsd and self.latitude is not None:
            yield ("gpsd",), "false beside latitude and longitude; gpsd = true without them"

    @property
    def fixed(self) -> Position | None:
        """Return the position that the operator wrote down."""
        if self.latitude is None or self.longitude is None:
            return None
        return Position(self.latitude, self.longitude, self.altitude, fixed=True)
