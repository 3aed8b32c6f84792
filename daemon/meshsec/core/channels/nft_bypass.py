"""The rules for the policy's bypass list (ADR 0048): the parts that ``nft_rules`` puts into its chains."""

from collections.abc import Iterable

from meshsec.core.values.bypass import Bypass

ERRORS6 = "destination-unreachable, packet-too-big, time-exceeded, parameter-problem"
ICMPV6_ON_LINK = f"icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert, {ERRORS6} }}"
_ICMP_ERRORS = "icmp type { destination-unreachable, time-exceeded, parameter-problem }"


def arriving(entries: Iterable[Bypass]) -> list[str]:
    """Return what lets in what the entries name."""
    return [rule for one in entries for rule in _passing(one, "saddr", "sport", "bypass_in")]


def leaving(entries: Iterable[Bypass]) -> list[str]:
    """Return what lets it out."""
    return [rule for one in entries for rule in _passing(one, "daddr", "dport", "bypass_out")]


def _passing(entry: Bypass, address: str, port: str, counter: str) -> list[str]:
    """Rules for one bypass entry, placed after the rules that drop peers' traffic.

    An entry for one protocol also lets ICMP errors through.
    """
    family, errors = ("ip", _ICMP_ERRORS) if entry.prefix.version == 4 else ("ip6", ICMPV6_ON_LINK)
    there = f"{family} {address} {entry.prefix}"
    narrowed = f" {entry.protocol} {port} {entry.port}" if entry.port else f" meta l4proto {entry.protocol}"
    passes = f'{there}{narrowed if entry.protocol else ""} counter name "{counter}" accept'
    return [passes, f"{there} {errors} accept"] if entry.protocol else [passes]
