"""The policy profile: which algorithms, how patient, how many at once, and what is dropped.

A profile is a file ``policies/NAME.toml`` with the fields of ``Policy``; ``decode_policy`` turns its decoded table
into a ``Policy``. The defaults here are those of ``policies/default.toml``, which gives each setting's source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Network

from meshsec.core.model import Network, UnknownNodes


class RemovedPeers(StrEnum):
    """What becomes of the drop rule of a peer that is trusted no longer."""

    DROP = "drop"
    """It stands: user data to and from its addresses stays forbidden as long as the rules stand."""
    OPEN = "open"
    """It goes: the addresses fall under ``unknown_nodes``."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A complete profile. Times are seconds."""

    ike_proposals: tuple[str, ...] = ("aes256gcm16-prfsha256-x25519", "chacha20poly1305-prfsha256-x25519")
    """In strongSwan's names, best first (RFC 8247)."""
    esp_proposals: tuple[str, ...] = ("aes256gcm16-x25519", "chacha20poly1305-x25519", "aes128gcm16-x25519")
    """In strongSwan's names, best first (RFC 8221)."""
    ike_rekey_time: int = 14400
    child_rekey_time: int = 3600
    hold_time: float = 300.0
    """How long the SA of a peer without a route is kept: partitions heal."""
    deadline: float = 0.1
    """From route to protected; longer is reported as late."""
    initiate_timeout: float = 10.0
    """After which an attempt counts as failed."""
    concurrency: int = 4
    """Negotiations that this node initiates at the same time."""
    initiate_rate: float = 20.0
    """Attempts per second in the long run, over all peers."""
    initiate_burst: int = 40
    """Attempts that may be made at once after a pause."""
    backoff_first: float = 1.0
    backoff_factor: float = 2.0
    backoff_max: float = 60.0
    backoff_jitter: float = 0.2
    """Part of a delay by which it is lengthened at random, 0 to 1."""
    initiator_jitter: float = 0.01
    """The initiator waits at random up to this long, so that neighbours do not start in step."""
    takeover_delay: float = 2.0
    """After which the other end initiates because the initiator did not."""
    takeover_delay_fresh: float = 0.5
    """The same when our own IKE daemon is fresh: the initiator then believes that the SA stands."""
    unknown_nodes: UnknownNodes = UnknownNodes.DROP
    removed_peers: RemovedPeers = RemovedPeers.DROP
    mesh_prefixes: tuple[Network, ...] = (IPv6Network("fc00::/7"),)
    """What counts as a mesh address; the IPv4 mesh prefix is added here by the configuration."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of a table."""

    field: str
    value: object
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value!r} is not allowed; allowed: {self.allowed}"


class PolicyError(ValueError):
    """A table that is no policy: all of its problems at once."""

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def decode_policy(table: Mapping[str, object], base: Policy = Policy()) -> Policy:
    """``base`` with the fields of ``table`` in place of its own. Raises ``PolicyError``."""
    raise NotImplementedError
