"""How often the page's process passes questions of browsers on to meshsecd."""

from dataclasses import dataclass, field

from meshsec.core.policy.limits import TokenBucket

SOURCES = 256
"""Addresses that are counted at a time. The one that asked longest ago is forgotten first."""


@dataclass
class Pace:
    """A rate for each address and one for all together. This machine has its own, so that others cannot use it up."""

    rate: float
    """Questions of one address in a second."""
    burst: int
    """Questions of one address after a pause."""
    total: float
    """How many times as much all others may ask together. It also bounds what somebody with many addresses asks."""
    _sources: dict[str, TokenBucket] = field(default_factory=dict)
    """What each address has left, the one that asked longest ago first."""
    _others: TokenBucket | None = None

    def admits(self, source: str, now: float, *, own: bool) -> bool:
        """Count a question at ``now`` (monotonic seconds) and return whether it may be passed on.

        ``own``: it is one of this machine's, whose addresses are one source.
        """
        source = "" if own else source
        bucket = self._sources.pop(source, None) or TokenBucket.full(self.rate, self.burst, now)
        left = bucket.take(now)
        self._keep(source, left or bucket)
        return left is not None and (own or self._takes_of_all(now))

    def _takes_of_all(self, now: float) -> bool:
        before = self._others or TokenBucket.full(self.total * self.rate, round(self.total * self.burst), now)
        left = before.take(now)
        self._others = left or before
        return left is not None

    def _keep(self, source: str, bucket: TokenBucket) -> None:
        while len(self._sources) >= SOURCES:
            del self._sources[next(iter(self._sources))]
        self._sources[source] = bucket
