"""One entry of the policy's bypass list: what is reached in the clear on the mesh, because it knows no IPsec.

RFC 4301, section 4.4.1, calls an entry with the processing choice BYPASS. Peers are no matter of it: what protects them
comes first in the rules, and whoever becomes a peer is protected whatever the list says (ADR 0048).
"""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.values.definition import Rule, Wrong

SHORTEST = {4: 16, 6: 48}
"""Bits of a prefix, by IP version. A shorter one would open a mesh rather than an exception of it."""
_LINK_LOCAL = IPv6Network("fe80::/10")
"""The only short prefix that may be opened (RFC 4291, section 2.5.6): it reaches no farther than one link."""
_PROTOCOLS = ("tcp", "udp")
_REASON = 200
"""Characters."""


def _prefix(value: object) -> IPv4Network | IPv6Network:
    if not isinstance(value, str) or "/" not in value:
        raise ValueError
    prefix = ip_network(value)
    if prefix.prefixlen < SHORTEST[prefix.version] and prefix != _LINK_LOCAL:
        raise ValueError
    return prefix


def _reason(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= len(value) <= _REASON or not value.isprintable():
        raise ValueError
    return value


def _protocol(value: object) -> str:
    if value not in _PROTOCOLS:
        raise ValueError
    return str(value)


class Bypass(Struct, frozen=True):
    """Mesh addresses of no peer, reached in the clear."""

    prefix: Annotated[
        IPv4Network | IPv6Network,
        Rule(
            f"an IPv6 prefix of /{SHORTEST[6]} or longer, such as 'fd12:3456:789a::/64', an IPv4 prefix of "
            f"/{SHORTEST[4]} or longer, or {_LINK_LOCAL}",
            _prefix,
            {"type": "string", "pattern": "/"},
        ),
        Meta(description="where it is"),
    ]
    reason: Annotated[
        str,
        Rule(
            f"one line of 1 to {_REASON} characters",
            _reason,
            {"type": "string", "minLength": 1, "maxLength": _REASON},
        ),
        Meta(description="why it is reached in the clear: what `explain` and the rules say of it"),
    ]
    protocol: Annotated[
        str,
        Rule('"tcp" or "udp"', _protocol, {"enum": list(_PROTOCOLS)}),
        Meta(description="what alone passes; left out: all that goes there and comes from there"),
    ] = ""
    port: Annotated[int, Meta(ge=1, le=65535, description="the port there, not here; left out: all")] = 0

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield a port without a protocol."""
        if "port" in given and "protocol" not in given:
            yield ("port",), 'with protocol = "tcp" or "udp" only'

    def __str__(self) -> str:
        return f"{self.prefix}{f' {self.protocol}' if self.protocol else ''}{f' {self.port}' if self.port else ''}"

    @property
    def matches(self) -> str:
        """Return what it is about, without the reason."""
        return str(self)

    def table(self) -> dict[str, str | int]:
        """Return it as a profile's file has it."""
        table: dict[str, str | int] = {"prefix": str(self.prefix), "reason": self.reason}
        if self.protocol:
            table["protocol"] = self.protocol
        if self.port:
            table["port"] = self.port
        return table
