"""The negotiations that the governor follows."""

from collections.abc import Iterator
from dataclasses import dataclass

from meshsec.core.scheduling.governor_settings import GovernorSettings

NEGOTIATIONS_MAX = 1024
"""Negotiations that are followed at once; the policy's cap on our own is far below."""


@dataclass(slots=True)
class Negotiation:
    """One that runs or is expected."""

    began: float
    level: int
    """Level with which it began."""
    check_at: float
    """Time from which it counts as stalled."""
    lapses_at: float
    """Time from which it waits for something else than the CPU."""


class Negotiations:
    """Those that run or are expected, by their peers' names."""

    def __init__(self, settings: GovernorSettings) -> None:
        self._settings = settings
        self._known: dict[str, Negotiation] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def can_begin(self, peer: str) -> bool:
        """Return whether one with this peer is new and has room."""
        return peer not in self._known and len(self._known) < NEGOTIATIONS_MAX

    def begin(self, peer: str, now: float, level: int) -> None:
        """Follow one, which has this level."""
        self._known[peer] = Negotiation(now, level, now + self._settings.stall, now + self._settings.attention)

    def end(self, peer: str) -> Negotiation | None:
        """Follow one no more; None if it was not followed."""
        return self._known.pop(peer, None)

    def clear(self) -> None:
        """Follow none."""
        self._known.clear()

    def lapse(self, now: float) -> None:
        """Follow those no more that wait for something else than the CPU."""
        for peer in [name for name, one in self._known.items() if one.lapses_at <= now]:
            del self._known[peer]

    def stalled(self, now: float) -> Iterator[tuple[str, Negotiation]]:
        """Yield those that stall; each is checked again after a while."""
        for peer, one in self._known.items():
            if one.check_at <= now:
                one.check_at = now + self._settings.stall
                yield peer, one

    def due(self, *, is_watched: bool) -> list[float]:
        """Return the time of each at which it lapses or, where that is watched, counts as stalled."""
        return [min(one.lapses_at, one.check_at) if is_watched else one.lapses_at for one in self._known.values()]
