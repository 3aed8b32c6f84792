"""Which negotiation may start: first come, first served, under a cap and a rate."""

from collections import OrderedDict

from meshsec.core.policy.limits import TokenBucket
from meshsec.core.policy.policy import Policy


class Initiations:
    """The queue of peers to negotiate with, and those in progress."""

    def __init__(self, policy: Policy) -> None:
        self._cap = policy.concurrency
        self._bucket = TokenBucket.full(policy.initiate_rate, policy.initiate_burst, 0.0)
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._active: set[str] = set()

    def queued(self, name: str) -> bool:
        """Whether the peer waits for its place."""
        return name in self._queue

    def active(self, name: str) -> bool:
        """Whether an attempt of ours is in progress."""
        return name in self._active

    def enqueue(self, name: str) -> None:
        """Let the peer wait for a place, once."""
        self._queue[name] = None

    def withdraw(self, name: str) -> None:
        """The peer does not need its place any more."""
        self._queue.pop(name, None)

    def start_next(self, now: float) -> str | None:
        """The peer whose turn it is now; its attempt counts as in progress until ``finish``."""
        if not self._queue or len(self._active) >= self._cap:
            return None
        bucket = self._bucket.take(now)
        if bucket is None:
            return None
        self._bucket = bucket
        name, _ = self._queue.popitem(last=False)
        self._active.add(name)
        return name

    def finish(self, name: str) -> None:
        """The attempt ended, in whatever way."""
        self._active.discard(name)

    def ready_at(self, now: float) -> float | None:
        """When ``start_next`` is worth another call although nothing else happens."""
        return self._bucket.ready_at(now) if self._queue and len(self._active) < self._cap else None

    def clear(self) -> None:
        """Nothing waits and nothing is in progress: the IKE daemon is away."""
        self._queue.clear()
        self._active.clear()
