"""``[page]`` of ``meshsec.toml``: the page in the browser (docs/guide/page.md)."""

from typing import Annotated

from msgspec import Meta, Struct


class PageSettings(Struct, frozen=True):
    """``[page]``."""

    port: Annotated[
        int, Meta(ge=1024, le=65535, description="the TCP port of the page, on this machine and at the mesh addresses")
    ] = 8269
    access: Annotated[
        bool,
        Meta(
            description="others than peers see the page, too: clients of access nodes, and machines in networks behind "
            "peers"
        ),
    ] = False

    @property
    def port_for_clients(self) -> int | None:
        """Where clients see the page; None: nowhere."""
        return self.port if self.access else None
