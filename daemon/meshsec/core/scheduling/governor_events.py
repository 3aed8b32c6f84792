"""What the governor reacts to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DaemonUp:
    """The IKE daemon is there, with its base class; its CPU clock starts again."""

    processors: int
    """Number of processors on which it may run."""


@dataclass(frozen=True, slots=True)
class DaemonGone:
    """There is no IKE daemon."""


@dataclass(frozen=True, slots=True)
class NegotiationBegan:
    """With a trusted peer: by this node, or expected of the peer. Once more for the same peer changes nothing."""

    peer: str


@dataclass(frozen=True, slots=True)
class NegotiationEnded:
    """The channel is established, or the attempt ended without one."""

    peer: str
    protected: bool
    took: float | None = None
    """Seconds of the set-up as measured; None where it is unknown when the peer began."""
    waited: float | None = None
    """Seconds that IKE threads waited for a CPU since it began, of all together, but no more than it lasted; None where
    that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Contention:
    """How the IKE daemon gets along with the load. None: this host does not say."""

    delay: float | None = None
    """Seconds that an IKE thread waited for a CPU before it ran, in the mean of the runs since the last look; None also
    when none ran."""
    starving: int | None = None
    """IKE threads that want a CPU and got none since the last look."""
    pressure: float | None = None
    """Part of the time since the last look that some task waited for a CPU (PSI), of the IKE daemon's own cgroup where
    it has one; 0 to 1."""
    queued: int | None = None
    """Jobs that the IKE daemon has and no thread of it works on."""


@dataclass(frozen=True, slots=True)
class Crowding:
    """How busy others keep the processors of the IKE daemon. It is known while that one is idle, too."""

    busy: float | None
    """Part of the time since the last look that the least busy one of them worked for others, 0 to 1; None: untold."""


@dataclass(frozen=True, slots=True)
class StreamReported:
    """How a protected stream fares since its last report."""

    stream: str
    loss: float | None = None
    """Part of its frames that it dropped, 0 to 1."""
    delay: float | None = None
    """Seconds that its frames were late, or that its service waited for a CPU each time it ran."""


@dataclass(frozen=True, slots=True)
class LevelRefused:
    """The host does not let the IKE daemon have a level; lower ones are left."""

    level: int
    reason: str


Event = (
    DaemonUp | DaemonGone | NegotiationBegan | NegotiationEnded | Contention | Crowding | StreamReported | LevelRefused
)
