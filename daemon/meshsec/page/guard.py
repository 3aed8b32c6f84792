"""What holds for every request: who may ask under which name, and what a browser may do with the answer."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Nothing from elsewhere, nothing inline, no frame around the page (CSP Level 3; Trusted Types)."""


class Guard:
    """Refuse requests that another page makes, and send ``HEADERS`` with every answer."""

    def __init__(self, app: ASGIApp, name: str, may_look: Callable[[str], bool]) -> None:
        """``name``: this node's in the mesh, the one beside ``localhost`` and its addresses that is served.

        Machines know it from their own files, as a rule. A name without a domain is asked of whoever answers on a LAN,
        and what a peer calls this node, its own resolver alone knows. ``may_look``: whether an address sees the page.
        """
        self._app = app
        self._may_look = may_look
        self._names = frozenset(("localhost", name.lower()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal_of(scope["client"]) or self._refusal(scope["method"], Headers(scope=scope))
        app = JSONResponse(refusal[1], status_code=refusal[0]) if refusal else self._app

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, sending)

    def _refusal_of(self, client: tuple[str, int] | None) -> tuple[int, dict[str, str]] | None:
        if client is not None and self._may_look(client[0]):
            return None
        message = (
            "only this machine and peers see the page; `access = true` in [page] of meshsec.toml shows it to clients, "
            "and to machines behind peers"
        )
        return 403, {"code": "not_a_peer", "message": message}

    def _refusal(self, method: str, headers: Headers) -> tuple[int, dict[str, str]] | None:
        """Return why a request is refused.

        A page of somebody else's whose name leads to this node's address (DNS rebinding) is known by the name that the
        browser sends. One that sends forms or scripts here is known by ``Origin`` and ``Sec-Fetch-Site``.
        """
        host = headers.get("host", "")
        if not self._is_own(host):
            message = f"this node is not called {host[:80]!r}; open the page by its address"
            return 421, {"code": "bad_host", "message": message}
        foreign = headers.get("origin", f"http://{host}") != f"http://{host}"
        if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"} and method != "GET":
            foreign = True
        if foreign:
            return 403, {"code": "foreign", "message": "another page asked; only this page itself may"}
        return None

    def _is_own(self, host: str) -> bool:
        """Return whether ``Host`` is an address, which nobody can make lead elsewhere, or a name of this node."""
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def accepts_gzip(header: str) -> bool:
    """Return whether ``Accept-Encoding`` names gzip (RFC 9110, section 12.5.3)."""
    for one in header.split(","):
        coding, _, weight = one.strip().lower().partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0"}
    return False
