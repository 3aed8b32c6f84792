"""What the parts of the IKE side share: the IKE daemon and the rest of the agent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from meshsec.agent.driver import Spawn
from meshsec.core.channels.events import Event
from meshsec.core.ike.guard import Contest
from meshsec.core.ike.port import DaemonFacts, IkePort
from meshsec.core.policy.capability import Algorithms


@dataclass(slots=True)
class IkeDaemon:
    """The IKE daemon's port, and what the daemon reported of itself."""

    port: IkePort
    facts: DaemonFacts | None = None
    """The daemon's last report; None while it does not answer."""
    algorithms: Algorithms | None = None
    """What the IKE daemon that answered last can do; None if it does not report that."""
    down_reason: str = "not reached yet"


@dataclass(frozen=True, slots=True)
class Outside:
    """What the IKE side reports to the rest of the agent and asks it."""

    post: Callable[[Event], None]
    spawn: Spawn
    on_ended: Callable[[str], None]
    """Called with the peer's name at the end of each IKE_SA, before anything is read back."""
    contest: Callable[[str], Awaitable[Contest | None]]
    """Returns what more than one end answered in the name of a peer."""
    in_reach: Callable[[str], bool]
    """Returns whether a route leads to a peer."""
    peer_at: Callable[[str], str]
    """Returns the peer with this address, or an empty name."""
