"""What the kernel of a node has in its tables."""

import json
from typing import Any

from tests.lab.basics.shell import run

_ROUTER = ("proto", "100")
"""Selects the routes that a routing daemon of the mesh installs, olsrv2d and olsrd2 alike."""


class Kernel:
    """The routes in one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def routes(self, *selector: str) -> list[dict[str, Any]]:
        """Return unicast routes of both families: those of the selector, by default those of the routing daemon."""
        found: list[dict[str, Any]] = []
        for family in ("-4", "-6"):
            # A table that was never used does not exist: this family has no routes.
            argv = ["ip", "-n", self._namespace, "-j", family, "route", "show", *(selector or _ROUTER)]
            shown = run(argv, check=False)
            found += json.loads(shown.stdout or "[]") if shown.returncode == 0 else []
        return found

    def next_hops(self) -> dict[str, str]:
        """Return the next hop of each of the routing daemon's routes, by destination with its prefix length."""
        gateways = ((route["dst"], route.get("gateway", "")) for route in self.routes())
        return {_with_length(destination, gateway): gateway for destination, gateway in gateways}

    def destinations(self) -> set[str]:
        """Return the destinations of the routing daemon's routes, each with its prefix length."""
        return set(self.next_hops())

    def interfaces(self) -> dict[str, str]:
        """Return the interface of each of the routing daemon's routes, by destination; an address has no length."""
        return {route["dst"]: route["dev"] for route in self.routes()}


def _with_length(destination: str, gateway: str) -> str:
    """Add the prefix length, which iproute2 omits for single addresses and both families' default route."""
    if destination == "default":
        return "::/0" if ":" in gateway else "0.0.0.0/0"
    return destination if "/" in destination else f"{destination}/{128 if ':' in destination else 32}"
