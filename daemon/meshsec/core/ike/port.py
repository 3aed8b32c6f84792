"""What the agent asks of an IKE daemon, whichever it is, and what it hears from it (ADR 0044)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.policy.capability import Algorithms
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import ConnectionSpec, IkeSa


class IkeError(Exception):
    """The IKE daemon is not reachable, does not answer in time, or answers what it should not."""

    def __init__(self, words: str, kind: FailureKind = FailureKind.OTHER) -> None:
        super().__init__(words)
        self.cause = Cause(words, kind)


class CommandError(IkeError):
    """The IKE daemon refused a command or could not carry it out; the text is the daemon's."""


@dataclass(frozen=True, slots=True)
class DaemonIdentity:
    """Tells one process of the IKE daemon from the next."""

    pid: int
    """0 when it runs in another PID name space."""
    since: str
    """Its start time, in any form that distinguishes it from a later one."""


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """What the IKE daemon says about itself."""

    identity: DaemonIdentity
    version: str
    plugins: tuple[str, ...]
    ike_sas: int
    half_open: int
    queued: int = 0
    """Jobs that no thread works on yet."""


@dataclass(frozen=True, slots=True)
class SaChanged:
    """An IKE_SA or CHILD_SA of a peer came, went or was rekeyed."""

    peer: str
    event: str
    """``ike-updown``, ``child-updown``, ``ike-rekey`` or ``child-rekey``."""
    up: bool


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of charon's log."""

    at: float
    """Monotonic seconds of its arrival; lines that arrived together, after a delay, have the same."""
    group: str
    ike_name: str
    """The connection, empty when charon does not know it yet."""
    unique_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something went wrong in charon (strongSwan 6.0.3 and later)."""

    kind: str
    peer: str


IkeEvent = SaChanged | LogLine | Alert


class IkePort(Protocol):
    """A client of one IKE daemon. ``run`` follows it; the commands may be used while it answers.

    Commands raise ``IkeError``. Peers are named as their connections are.
    """

    name: str
    """Name of the process, as people know it."""

    @property
    def is_gone(self) -> bool:
        """The kernel said at the last attempt that nobody listens: it does not run, it does not hang either."""

    async def run(
        self,
        on_up: Callable[[DaemonFacts], None],
        on_event: Callable[[IkeEvent], None],
        on_down: Callable[[str], None],
    ) -> None:
        """Follow it until cancelled: ``on_up`` each time it is met, ``on_down`` with the reason at each loss."""

    def reconnect(self) -> None:
        """Begin again: it did not answer a command, so its events cannot be relied on either."""

    def close(self) -> None:
        """Let go of what is kept open between commands."""

    async def facts(self) -> DaemonFacts:
        """Return its version, identity and load, by a real round trip."""

    async def algorithms(self) -> Algorithms | None:
        """Return the algorithms that it has; None where it cannot say."""

    async def load_keys(self, private_keys: Iterable[bytes]) -> None:
        """Give it the node's private keys (PKCS#8, PEM or DER), and let it forget others."""

    async def load_connection(self, spec: ConnectionSpec, secret: bytes | None = None) -> None:
        """Configure one peer; established SAs are kept.

        ``secret`` is the pair's, for ``Authentication.SECRET`` or ``second_secret``; its octets go nowhere else. One of
        before is forgotten.
        """

    async def unload_connection(self, name: str) -> None:
        """Take a peer out of the configuration, with its secret. Unknown names are fine."""

    async def connections(self) -> tuple[str, ...]:
        """Return the names of the peers that it knows."""

    async def ike_sas(self, peer: str = "") -> dict[str, tuple[IkeSa, ...]]:
        """Return the SAs by peer, of all peers or of one; a peer without SA is left out."""

    async def initiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA, with its IKE_SA when there is none; ends when it is established.

        Raises ``CommandError`` when the negotiation failed or did not end within ``seconds``.
        """

    async def terminate(self, unique_id: str, *, patient: bool = False) -> None:
        """Close one IKE_SA with its CHILD_SAs and notify the peer; returns at once. It may be gone already.

        ``patient``: the SAs are kept until the peer has confirmed it, where the daemon can do that.
        """

    async def rekey_child(self, unique_id: str, child: str) -> None:
        """Have a CHILD_SA of one IKE_SA replaced (RFC 7296, section 1.3.3); returns at once. Gone already is fine."""

    async def configured(self) -> tuple[Configured, ...]:
        """Return its connections, for ``meshsec drift``."""

    async def credentials(self) -> Credentials:
        """Return the credentials that it has, without private bytes."""
