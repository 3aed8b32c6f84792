"""``[page]`` of ``meshsec.toml``: the page in the browser (docs/guide/page.md)."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.config.access_settings import AccessSecurity, AccessSettings


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

    clients_log_in: Annotated[
        bool,
        Meta(
            description="clients of this node's access point can log in; everybody who has its password can take "
            "such a login over. It needs `access = true`, `security = 'sae'`, and no wired `ports` for clients"
        ),
    ] = False

    @property
    def port_for_clients(self) -> int | None:
        """Where clients see the page; None: nowhere."""
        return self.port if self.access else None


def page_problems(page: PageSettings, access: AccessSettings) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Yield what is wrong with logins of clients: where, the value, and what is allowed (ADR 0081)."""
    if not page.clients_log_in:
        return
    protected = access.radio is not None and access.radio.security is AccessSecurity.SAE and not access.ports
    if not (page.access and access.networks and protected):
        rule = "false, unless [page] has access = true, and [access] a radio with security = 'sae' and no ports"
        yield ("clients_log_in",), True, rule
