"""Suites: an IKE and an ESP proposal that belong together, and which one an IKE_SA was negotiated with.

Proposals are in strongSwan's keywords, what an established IKE_SA reports is in IANA's names (IKEv2 Transform Types 1
and 4); ``ENCRYPTION`` and ``KEY_EXCHANGE`` say which are the same."""

import re
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.values.definition import Rule, Wrong
from meshsec.core.values.model import IkeSa

ENCRYPTION = {
    **{f"aes{bits}gcm16": f"AES_GCM_16-{bits}" for bits in (128, 192, 256)},
    **{f"aes{bits}ccm16": f"AES_CCM_16-{bits}" for bits in (128, 192, 256)},
    **{f"aes{bits}": f"AES_CBC-{bits}" for bits in (128, 192, 256)},
    "chacha20poly1305": "CHACHA20_POLY1305",
}
KEY_EXCHANGE = {
    "x25519": "CURVE_25519",
    "x448": "CURVE_448",
    "ecp256": "ECP_256",
    "ecp384": "ECP_384",
    "ecp521": "ECP_521",
    **{f"modp{bits}": f"MODP_{bits}" for bits in (2048, 3072, 4096, 6144, 8192)},
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
PROPOSAL = re.compile(r"(3des|[a-z][a-z0-9]*)([-_][a-z0-9]+)+")
_ALLOWED = f"one of {', '.join(ENCRYPTION)} and one of {', '.join(KEY_EXCHANGE)}"


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError
    return value


def _proposal(value: object) -> str:
    if not isinstance(value, str) or not PROPOSAL.fullmatch(value):
        raise ValueError
    return value


Proposal = Annotated[
    str,
    Rule(
        "a proposal in strongSwan's names, as aes256gcm16-prfsha256-x25519",
        _proposal,
        {"type": "string", "pattern": f"^{PROPOSAL.pattern}$"},
    ),
]


NAME_RULE = Rule(
    "1 to 32 characters of a-z, 0-9 and '-', the first not '-'",
    _name,
    {"type": "string", "pattern": f"^{_NAME.pattern}$"},
)
"""Names of suites and levels."""


class Suite(Struct, frozen=True):
    """One suite of a policy profile."""

    name: Annotated[
        str,
        NAME_RULE,
        Meta(description="what it is called in `floor` and in reports"),
    ]
    ike: Annotated[Proposal, Meta(description="IKE proposal, as aes256gcm16-prfsha256-x25519")]
    esp: Annotated[Proposal, Meta(description="ESP proposal, as aes256gcm16-x25519")]

    @property
    def algorithms(self) -> tuple[str, str] | None:
        """Encryption and key exchange of the IKE proposal in IANA's names; None unless it has one of each."""
        words = (self.ike or "").split("-")
        encryption = [ENCRYPTION[word] for word in words if word in ENCRYPTION]
        key_exchange = [KEY_EXCHANGE[word] for word in words if word in KEY_EXCHANGE]
        return (encryption[0], key_exchange[0]) if len(encryption) == len(key_exchange) == 1 else None

    def wrong(self, _given: object) -> Wrong:
        """Yield an IKE proposal of which it cannot be seen later that it was negotiated."""
        if self.algorithms is None:
            yield ("ike",), _ALLOWED


def negotiated(suites: Iterable[Suite], sa: IkeSa) -> Suite | None:
    """Return the suite that an IKE_SA was negotiated with; None when it is none of these."""
    found = (sa.encryption, sa.key_exchange)
    return next((suite for suite in suites if suite.algorithms == found), None)
