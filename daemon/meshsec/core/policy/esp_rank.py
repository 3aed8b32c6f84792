"""The order of ESP proposals that are equally strong: by the instructions that this processor has (ADR 0043)."""

import re
from collections.abc import Sequence
from itertools import groupby

from msgspec import structs

from meshsec.core.policy.policy import EspRank, Policy

STRENGTH = {"aes256gcm16": 256, "chacha20poly1305": 256, "aes128gcm16": 128}
"""Key bits of the ciphers that may change places, in strongSwan's words."""
_CHACHA = "chacha20poly1305"
_FLAGS = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)
"""The line of each processor in /proc/cpuinfo: of x86, and of ARM."""
_MULTIPLY = {"pclmulqdq", "pmull"}
"""The carry-less multiplication that GCM needs beside AES: of x86, and of ARM."""


def has_aes(cpuinfo: str) -> bool | None:
    """Return whether all processors have instructions for AES-GCM; None where /proc/cpuinfo does not say."""
    processors = [set(line.split()) for line in _FLAGS.findall(cpuinfo)]
    return all("aes" in one and one & _MULTIPLY for one in processors) if processors else None


def applied(policy: Policy, aes: bool | None) -> Policy:
    """Return the policy with its ESP proposals in the order for this processor, where it leaves that to the processor.

    Without AES instructions ChaCha20-Poly1305 is the faster one (RFC 7634, section 1). ``aes`` is None where nobody
    knows: then the order is that of the list.
    """
    if policy.esp_rank is EspRank.LISTED or policy.suites or aes is None:
        return policy
    return structs.replace(policy, esp_proposals=ranked(policy.esp_proposals, aes=aes))


def ranked(proposals: Sequence[str], *, aes: bool) -> tuple[str, ...]:
    """Return the same proposals; neighbours that differ in nothing but an equally strong cipher may change places."""
    found: list[str] = []
    for _, group in groupby(proposals, _alike):
        found += sorted(group, key=lambda one: (one.partition("-")[0] == _CHACHA) is aes)
    return tuple(found)


def _alike(proposal: str) -> tuple[object, str]:
    """Return what is equal for proposals that may change places; any other cipher is like nothing else."""
    cipher, _, rest = proposal.partition("-")
    return STRENGTH.get(cipher, proposal), rest
