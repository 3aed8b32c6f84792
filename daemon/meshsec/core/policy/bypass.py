"""The bypass list of a policy: its bounds, and what is said of it where only connections are written."""

from collections.abc import Iterable

from meshsec.core.values.bypass import Bypass

MOST = 64
"""Entries of a list; each packet of an unknown node is compared with them."""
ALLOWED = f'a list of at most {MOST} different tables {{ prefix = "fd12:3456:789a::/64", reason = "..." }}'


def left_out(entries: Iterable[Bypass]) -> tuple[str, ...]:
    """Return what to say of each where connections alone are written: none is about it, the rules are."""
    return tuple(f"bypass {one} ({one.reason}): for the rules of `meshsec export nftables` alone" for one in entries)
