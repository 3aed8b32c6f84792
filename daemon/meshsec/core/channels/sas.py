"""A peer's IKE_SAs as the IKE daemon shows them, and which of them must not be relied on."""

from dataclasses import dataclass, field

from meshsec.core.values.model import IkeSa
from meshsec.core.values.sa_states import IkeSaState


@dataclass(slots=True)
class Sas:
    """Written by the functions that take events, read by all others."""

    listed: tuple[IkeSa, ...] = ()
    first_seen: dict[str, float] = field(default_factory=dict)
    """Monotonic time at which each live IKE_SA was first seen, by unique id."""
    revoked: frozenset[str] = frozenset()
    """Unique ids of IKE_SAs that must not be relied on: an older card authenticated them, or they are made again."""
    disowned: bool = False
    """A card was withdrawn: what the IKE daemon has or is negotiating may rest on it."""

    def see(self, now: float, ike_sas: tuple[IkeSa, ...]) -> None:
        """Record when each live IKE_SA was first seen. One that is still listed after Terminate keeps its time."""
        live = (sa.unique_id for sa in ike_sas if sa.is_live)
        self.first_seen = {unique_id: self.first_seen.get(unique_id, now) for unique_id in live}

    def revoke(self) -> None:
        """Give up all that are listed."""
        self.revoked |= {sa.unique_id for sa in self.listed}

    def connecting(self) -> bool:
        """Return whether the IKE daemon is negotiating an IKE_SA with the peer."""
        return any(sa.is_connecting for sa in self.listed)

    def revoked_left(self) -> bool:
        """Return whether a revoked IKE_SA is not closed yet: the IKE daemon would build on it."""
        return any(sa.unique_id in self.revoked and sa.state is not IkeSaState.DELETING for sa in self.listed)
