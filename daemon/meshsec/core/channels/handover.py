"""Which data plane carries user data to one peer, and the change from IPsec to the overlay."""

from dataclasses import dataclass

from meshsec.core.values.model import DataPlane


@dataclass(slots=True)
class Handover:
    """Written by ``overlay_events``, read by all others."""

    mode: DataPlane = DataPlane.IPSEC
    """The data plane that is to carry user data. The channel's state is about the SA, whatever the mode."""
    carried_since: float | None = None
    """When the overlay began to carry user data to the peer (monotonic seconds); None while it does not."""
    switching: bool = False
    """The mode became ``overlay``, and the SAs from before are to end when the overlay carries user data."""
    superseded: frozenset[str] = frozenset()
    """Unique ids of those SAs."""

    def end(self) -> None:
        """Forget what the overlay did: the peer's card was withdrawn."""
        self.carried_since, self.switching, self.superseded = None, False, frozenset()

    def follow(self, now: float, *, carries: bool) -> None:
        """Record since when the overlay carries user data."""
        if not carries:
            self.carried_since = None
        elif self.carried_since is None:
            self.carried_since = now
