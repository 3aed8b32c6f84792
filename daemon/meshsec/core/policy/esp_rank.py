"""The order of ESP proposals that are equally strong: by what this processor does best (ADR 0043)."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec import structs

from meshsec.core.policy.policy import EspRank, Policy

STRENGTH = {"aes256gcm16": 256, "chacha20poly1305": 256, "aes128gcm16": 128}
"""Key bits of the ciphers that are measured, in strongSwan's words."""

FASTER = 1.2
"""Times as fast as the one that is listed first another must be to go before it: less may be chance."""

Rates = Mapping[str, float]
"""Octets of user data a second on one processor, by cipher."""


def applied(policy: Policy, rates: Rates) -> Policy:
    """The policy with its ESP proposals in the order for this processor, where it leaves that to the processor."""
    if policy.esp_rank is EspRank.LISTED or policy.suites:
        return policy
    return structs.replace(policy, esp_proposals=ranked(policy.esp_proposals, rates))


def ranked(proposals: Sequence[str], rates: Rates) -> tuple[str, ...]:
    """The same proposals. Neighbours that differ in nothing but an equally strong cipher are put by its speed."""
    found: list[str] = []
    for _, group in groupby(proposals, _alike):
        found += _by_speed(list(group), rates)
    return tuple(found)


def _alike(proposal: str) -> tuple[object, str]:
    """Equal for proposals that may change places; what has no cipher that is measured is like nothing else."""
    cipher, _, rest = proposal.partition("-")
    return STRENGTH.get(cipher, proposal), rest


def _by_speed(group: list[str], rates: Rates) -> list[str]:
    def rate(proposal: str) -> float:
        return rates.get(proposal.partition("-")[0], 0.0)

    fastest = sorted(group, key=rate, reverse=True)
    return fastest if rate(fastest[0]) >= FASTER * rate(group[0]) > 0 else group
