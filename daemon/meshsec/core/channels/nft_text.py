"""nft's text of sets, chains and hooks, for the fail-closed rules (nft(8))."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from meshsec.core.values.model import Address, Network

_PRIORITIES = {
    "prerouting": ("raw", 0),  # before connection tracking, so that a forged packet costs no entry there
    "input": ("filter", 0),
    "forward": ("filter", 0),
    "output": ("filter", 0),
    "postrouting": ("srcnat", 10),  # after masquerading has given a packet its source
}
"""Priority of each hook's chain: nft's name, and a distance behind it."""
HOOKS = frozenset({"prerouting", "input", "forward", "output", "postrouting"})
"""Every hook of the table; it protects only while it is in all of them."""


def set_of(name: str, kind: str, elements: Sequence[object], *, interval: bool = False) -> str:
    """Return a named set with its elements."""
    flags = " flags interval; auto-merge;" if interval else ""
    quoted = (f'"{element}"' if kind == "ifname" else str(element) for element in elements)
    content = f" elements = {{ {', '.join(quoted)} }}" if elements else ""
    return f"  set {name} {{ type {kind};{flags}{content} }}"


def chain(name: str, rules: Iterable[str]) -> str:
    """Return a chain."""
    lines = "\n".join(f"    {rule}" for rule in rules)
    return f"  chain {name} {{\n{lines}\n  }}"


def hooked(hook: str, behind: int, rules: Iterable[str]) -> str:
    """Return the chain of a hook, ``behind`` its usual priority."""
    name, offset = _PRIORITIES[hook]
    return chain(hook, [f"type filter hook {hook} priority {name} + {offset + behind}; policy accept;", *rules])


def sorted6(addresses: Iterable[Address]) -> list[IPv6Address]:
    """Return the IPv6 addresses in order."""
    return sorted(address for address in addresses if isinstance(address, IPv6Address))


def sorted4(addresses: Iterable[Address]) -> list[IPv4Address]:
    """Return the IPv4 addresses in order."""
    return sorted(address for address in addresses if isinstance(address, IPv4Address))


def prefixes(networks: Iterable[Network], kind: type[IPv4Network] | type[IPv6Network]) -> list[str]:
    """Return the prefixes of one kind in order, without default routes."""
    return sorted(str(network) for network in networks if isinstance(network, kind) and network.prefixlen)
