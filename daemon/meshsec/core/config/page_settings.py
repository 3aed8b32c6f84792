"""``[page]`` of ``meshsec.toml``: the page in the browser (docs/guide/page.md)."""

from typing import Annotated

from msgspec import Meta, Struct


class PageSettings(Struct, frozen=True):
    """``[page]``."""

    port: Annotated[
        int, Meta(ge=1024, le=65535, description="the TCP port of the page, on this machine and at the mesh addresses")
    ] = 8269
    access: Annotated[
        bool, Meta(description="clients of this access node see the page too, at the node's address in their network")
    ] = False

    @property
    def port_for_clients(self) -> int | None:
        """Where clients see the page; None: nowhere."""
        return self.port if self.access else None
