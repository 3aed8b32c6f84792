"""How long an SA is kept while there is no route to the peer."""

from dataclasses import dataclass


@dataclass(slots=True)
class Hold:
    """Runs while an SA is live and there is no route."""

    until: float | None = None
    """When the SA is closed (monotonic seconds); None while nothing is held."""
    over: bool = False
    """The time is over: the SA is being closed."""

    def follow(self, now: float, seconds: float, *, is_needed: bool) -> None:
        """Start the hold of so many seconds when it becomes needed, and end it when it is not needed any more."""
        if not is_needed:
            self.until, self.over = None, False
        elif self.until is None:
            self.until = now + seconds

    def is_running(self) -> bool:
        """Return whether an SA is kept although there is no route."""
        return self.until is not None and not self.over
