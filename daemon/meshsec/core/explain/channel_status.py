"""What is shown of a channel: its state where either data plane may carry user data."""

from typing import NamedTuple

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.lifecycle import State
from meshsec.core.values.model import DataPlane

_STANDING = frozenset({State.PROTECTED, State.HELD})


class Shown(NamedTuple):
    """One channel as people see it."""

    state: State
    reason: str
    since: float
    """Monotonic time at which it became so."""
    plane: DataPlane | None
    """The data plane that carries user data now; None when none does."""


def shown(engine: Engine, channel: Channel) -> Shown:
    """Return the life cycle of the SA (lifecycle.py), unless the overlay carries or is to carry user data."""
    if channel.handover.carried_since is not None:
        return Shown(State.PROTECTED, _carried(channel), channel.handover.carried_since, DataPlane.OVERLAY)
    plane = DataPlane.IPSEC if channel.state in _STANDING else None
    if channel.handover.mode is not DataPlane.OVERLAY:
        return Shown(channel.state, channel.reason, channel.since, plane)
    waiting = f"waiting for the overlay's session: {_lacking(engine, channel)}"
    if plane is not None:
        return Shown(channel.state, f"{channel.reason}; {waiting}", channel.since, plane)
    state = State.NO_ROUTE if channel.state is State.NO_ROUTE else State.WAITING
    return Shown(state, waiting, channel.since, None)


def _carried(channel: Channel) -> str:
    if channel.handover.mode is DataPlane.OVERLAY:
        return "the overlay's session carries user data"
    return f"the overlay carries user data until an SA is established: {channel.reason}"


def _lacking(engine: Engine, channel: Channel) -> str:
    overlay, address = engine.known.overlay, channel.card.address if channel.card else None
    if overlay.down is not None:
        return f"the overlay's node is away ({overlay.down})"
    if address not in overlay.kept:
        return "there is none to the peer yet"
    return "the route into the overlay's device is not installed yet"
