"""Limits on what untrusted input can make this node do: a token bucket and an exponential delay. Pure values."""

from dataclasses import dataclass, replace

from meshsec.core.policy.policy import Policy

_CONTESTED_PAUSE = 0.25
"""Seconds between two attempts of which a stranger spoils each."""

_WHOLE = 1 - 1e-9
"""What counts as one token: a bucket asked at ``ready_at`` must not miss it by a rounding error."""


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """``rate`` tokens flow in per second, at most ``burst`` are kept."""

    rate: float
    burst: int
    tokens: float
    filled_at: float

    @classmethod
    def full(cls, rate: float, burst: int, now: float) -> "TokenBucket":
        """Return the bucket as it is after a pause."""
        return cls(rate, burst, float(burst), now)

    def take(self, now: float) -> "TokenBucket | None":
        """Return the bucket with one token less; None when it is empty."""
        tokens = self._tokens_at(now)
        return replace(self, tokens=max(0.0, tokens - 1), filled_at=now) if tokens >= _WHOLE else None

    def ready_at(self, now: float) -> float:
        """Return the time from which there is a token: ``now`` or later."""
        return now + max(0.0, 1 - self._tokens_at(now)) / self.rate

    def _tokens_at(self, now: float) -> float:
        return min(float(self.burst), self.tokens + max(0.0, now - self.filled_at) * self.rate)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after failures in a row."""

    failures: int = 0
    delay: float = 0.0
    """Seconds that the last failure imposed."""
    due: float = 0.0
    """Monotonic time from which the next attempt may be made."""
    is_spared: bool = False
    """One SA that did not last was forgiven."""

    def failed(self, now: float, policy: Policy, random: float) -> "Backoff":
        """After one more failure. ``random`` in [0, 1) spreads the next attempts of many peers."""
        grown = self.delay_without_jitter(policy)
        delay = grown * (1 + policy.backoff_jitter * random)
        return replace(self, failures=self.failures + 1, delay=delay, due=now + delay)

    def lost(self, now: float, policy: Policy, random: float) -> "Backoff":
        """After an SA that did not last. The first is forgiven: a restarted IKE daemon takes its newest SA along."""
        if self.is_spared:
            return self.failed(now, policy, random)
        return replace(self, delay=0.0, due=now, is_spared=True)

    def contested(self, now: float) -> "Backoff":
        """Return the delay after an attempt that a forger has spoilt: a short one, which does not grow.

        What a stranger says must cost the pair nothing (RFC 7296, section 2.21.1). The pause leaves room in the rate of
        all initiations for other peers.
        """
        return replace(self, delay=0.0, due=now + _CONTESTED_PAUSE)

    def delay_without_jitter(self, policy: Policy) -> float:
        """Return what the next failure will impose, before jitter: grows by the factor up to the maximum."""
        # The exponent is bounded because a float overflows at large ones; the maximum is long reached.
        return min(policy.backoff_max, policy.backoff_first * policy.backoff_factor ** min(self.failures, 64))
