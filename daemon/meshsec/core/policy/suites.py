"""Suites: an IKE and an ESP proposal that belong together, and which one an IKE_SA was negotiated with.

Proposals are in strongSwan's keywords, what a standing IKE_SA reports is in IANA's names (IKEv2 Transform Types 1 and
4); ``ENCRYPTION`` and ``KEY_EXCHANGE`` say which are the same.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

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

ALLOWED = (
    'a list of tables { name = "...", ike = "...", esp = "..." } with different names and different IKE algorithms: '
    f"one of {', '.join(ENCRYPTION)} and one of {', '.join(KEY_EXCHANGE)} in each IKE proposal"
)


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite of a policy profile."""

    name: str
    ike: str
    """IKE proposal, as aes256gcm16-prfsha256-x25519."""
    esp: str
    """ESP proposal, as aes256gcm16-x25519."""

    @property
    def algorithms(self) -> tuple[str, str]:
        """Encryption and key exchange of the IKE proposal in IANA's names. Raises ValueError unless one of each."""
        words = self.ike.split("-")
        (encryption,) = (ENCRYPTION[word] for word in words if word in ENCRYPTION)
        (key_exchange,) = (KEY_EXCHANGE[word] for word in words if word in KEY_EXCHANGE)
        return encryption, key_exchange


def decode(name: object, ike: object, esp: object, proposal: re.Pattern[str]) -> Suite:
    """A suite from the values of its table; ``proposal`` is the form of one. Raises ValueError."""
    if not (isinstance(name, str) and isinstance(ike, str) and isinstance(esp, str)):
        raise ValueError  # noqa: TRY004  # the caller names what is allowed
    if not (_NAME.fullmatch(name) and proposal.fullmatch(ike) and proposal.fullmatch(esp)):
        raise ValueError
    suite = Suite(name, ike, esp)
    _ = suite.algorithms
    return suite


def negotiated(suites: Iterable[Suite], sa: IkeSa) -> Suite | None:
    """The suite that an IKE_SA was negotiated with; None when it is none of these."""
    found = (sa.encryption, sa.key_exchange)
    return next((suite for suite in suites if suite.algorithms == found), None)
