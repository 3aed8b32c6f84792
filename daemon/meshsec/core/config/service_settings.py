"""``[[service]]`` of ``meshsec.toml``: what this node offers to its peers (docs/reference/meshsec.toml.md)."""

from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.config.kinds import NodeName
from meshsec.core.services.services import DESCRIPTION_MAX, Protocol, Service, visible
from meshsec.core.values.definition import Rule


def _description(value: object) -> str:
    if not isinstance(value, str) or len(value.encode()) > DESCRIPTION_MAX or visible(value) != value:
        raise ValueError
    return value


class ServiceTable(Struct, frozen=True):
    """One ``[[service]]``."""

    name: Annotated[NodeName, Meta(description="what peers see it called: of the same form as a node's name")]
    port: Annotated[int, Meta(ge=1, le=65535, description="where it listens at this node's mesh addresses")]
    protocol: Annotated[Protocol, Meta(description="by what it is reached")] = Protocol.TCP
    description: Annotated[
        str,
        Rule(f"a text on one line of at most {DESCRIPTION_MAX} bytes", _description, {"type": "string"}),
        Meta(
            description=f"what peers read about it: one line of at most {DESCRIPTION_MAX} bytes",
            extra={"default": "none"},
        ),
    ] = ""

    @property
    def service(self) -> Service:
        """Return the service."""
        return Service(self.name, self.port, self.protocol, self.description)
