"""The levels of privilege: how many there are here, and which one a negotiation begins with."""

from meshsec.core.scheduling.governor_settings import GovernorSettings
from meshsec.core.scheduling.load import Load


class Ladder:
    """The levels from 0 to ``ceiling``, and the floor: the level that was needed lately, which falls with time."""

    def __init__(self, settings: GovernorSettings, load: Load, top: int, start: int) -> None:
        self._settings = settings
        self._load = load
        self.top = top
        self.start = start
        self.ceiling = top
        """The strongest level that the host lets us have."""
        self.refusal = ""
        self.floor_reason = ""
        self._floor = 0
        self._floor_until = 0.0

    @property
    def floor(self) -> int:
        """The level that a negotiation begins with, as was needed lately."""
        return min(self._floor, self.ceiling)

    def forget_refusals(self) -> None:
        """Try all levels again."""
        self.ceiling, self.refusal = self.top, ""

    def refuse(self, level: int, reason: str) -> None:
        """Leave only the levels below one that the host refuses."""
        self.ceiling = max(0, min(self.ceiling, level - 1))
        self.refusal = reason

    def needed(self, level: int, now: float, reason: str) -> None:
        """Make a level the floor."""
        self._floor, self._floor_until = min(level, self.ceiling), now + self._settings.relax
        self.floor_reason = reason

    def relax(self, now: float) -> None:
        """Forget with time which level was needed, but not while the load lasts that it was needed for."""
        if self._load.crowded:
            self._floor_until = max(self._floor_until, now + self._settings.relax)
        while self._floor and now >= self._floor_until:
            self._floor -= 1
            self._floor_until += self._settings.relax

    @property
    def relaxes_at(self) -> float:
        """When the floor falls next."""
        return self._floor_until

    def first(self) -> tuple[int, str]:
        """Return the level that a negotiation begins with, and why.

        Threads of which the host does not say whether they wait are taken to wait.
        """
        start, first = min(self.start, self.ceiling), 0 if self._load.contended is False else min(1, self.ceiling)
        if self.floor and self.floor >= max(start, first):
            return self.floor, f"it was needed lately: {self.floor_reason}"
        if start > first:
            return start, "its threads shall not wait for one another either"
        return first, self._load.text

    def guarding(self, level: int) -> int:
        """Return the level that guards. Where the host does not say how busy it is, the floor is kept."""
        return min(level, self.floor) if self._load.crowded is None else min(max(self.floor, 1), self.ceiling)

    def must_guard(self, level: int) -> bool:
        """Return whether a level must be in force for what a peer may begin."""
        if self._load.crowded is None:
            return self.floor > 0 and level > 0 and self._load.contended is not False
        return self._load.crowded and self.ceiling > 0
