"""The bypass list: what is reached in the clear on the mesh, because it knows no IPsec.

RFC 4301, section 4.4.1, calls an entry with the processing choice BYPASS. Peers are no matter of it: what protects them
comes first in the rules, and whoever becomes a peer is protected whatever the list says (ADR 0048).
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Network, ip_network

from meshsec.core.values.model import Bypass, Network

SHORTEST = {4: 16, 6: 48}
"""By IP version. A shorter prefix would open a mesh rather than an exception of it."""
_LINK_LOCAL = IPv6Network("fe80::/10")
"""May be opened as a whole (RFC 4291, section 2.5.6): it reaches no farther than one link."""
MOST = 64
"""Entries of a list; each packet of an unknown node is compared with them."""
PROTOCOLS = ("tcp", "udp")
"""A port needs one."""
_KEYS = {"prefix", "protocol", "port", "reason"}
_REASON = 200
"""Characters."""

ALLOWED = (
    f'a list of at most {MOST} different tables {{ prefix = "fd12:3456:789a::/64", reason = "..." }}, and with '
    f'protocol = "tcp" or "udp" and port = 1 to 65535 for less of it; a prefix is IPv6 of /{SHORTEST[6]} or longer, '
    f"IPv4 of /{SHORTEST[4]} or longer, or {_LINK_LOCAL}; a reason of one line, at most {_REASON} characters"
)

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["prefix", "reason"],
    "properties": {
        "prefix": {"type": "string", "pattern": "/"},
        "protocol": {"enum": list(PROTOCOLS)},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "reason": {"type": "string", "minLength": 1, "maxLength": _REASON},
    },
    "dependentRequired": {"port": ["protocol"]},
}


def decode(entry: object) -> Bypass:
    """An entry from its table. Raises ValueError."""
    if not isinstance(entry, Mapping) or not {"prefix", "reason"} <= entry.keys() <= _KEYS:
        raise ValueError
    protocol, port = entry.get("protocol", ""), entry.get("port", 0)
    if ("protocol" in entry and protocol not in PROTOCOLS) or ("port" in entry and not _is_port(port, protocol)):
        raise ValueError
    return Bypass(_prefix(entry["prefix"]), _reason(entry["reason"]), protocol, port)


def left_out(entries: Iterable[Bypass]) -> tuple[str, ...]:
    """What to say of each where connections alone are written: none is about it, the rules are."""
    return tuple(f"bypass {one} ({one.reason}): for the rules of `meshsec export nftables` alone" for one in entries)


def _is_port(port: object, protocol: object) -> bool:
    return bool(protocol) and isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= 65535


def _prefix(value: object) -> Network:
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
