"""Which negotiation may start: first come, first served, under a cap and a rate."""

from collections import OrderedDict

from meshsec.core.policy.limits import TokenBucket
from meshsec.core.policy.policy import Policy


class AttemptQueue:
    """The peers that wait for a negotiation, and those whose negotiation is in progress."""

    def __init__(self, policy: Policy) -> None:
        self._cap = policy.concurrency
        self._bucket = TokenBucket.full(policy.initiate_rate, policy.initiate_burst, 0.0)
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._active: set[str] = set()

    def waits(self, name: str) -> bool:
        """Return whether the peer waits for its place."""
        return name in self._waiting

    def is_active(self, name: str) -> bool:
        """Return whether this node is negotiating with the peer."""
        return name in self._active

    def enqueue(self, name: str) -> None:
        """Let the peer wait for a place. A peer waits once."""
        self._waiting[name] = None

    def withdraw(self, name: str) -> None:
        """Give up the peer's place in the queue."""
        self._waiting.pop(name, None)

    def start_next(self, now: float) -> str | None:
        """Return the peer whose turn it is, or None. Its attempt counts as in progress until ``finish``."""
        if not self._waiting or len(self._active) >= self._cap:
            return None
        bucket = self._bucket.take(now)
        if bucket is None:
            return None
        self._bucket = bucket
        name, _ = self._waiting.popitem(last=False)
        self._active.add(name)
        return name

    def finish(self, name: str) -> None:
        """Record the end of the peer's attempt, whatever its result."""
        self._active.discard(name)

    def ready_at(self, now: float) -> float | None:
        """Return when ``start_next`` is worth another call if nothing else happens; None: not before an event."""
        return self._bucket.ready_at(now) if self._waiting and len(self._active) < self._cap else None

    def clear(self) -> None:
        """Forget all waiting and active peers: the IKE daemon is away."""
        self._waiting.clear()
        self._active.clear()
