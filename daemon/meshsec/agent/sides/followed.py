"""The negotiations of the channels, as the governor knows them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.scheduling.governor_events import NegotiationBegan, NegotiationEnded


@dataclass(slots=True)
class _Followed:
    """A negotiation that was reported to the governor."""

    state: State
    waited: float | None
    """Seconds that charon's threads had waited for a CPU when it began."""
    began: float


@dataclass(frozen=True, slots=True)
class Changes:
    """How the channels differ from what the governor knows."""

    at: float
    begun: list[Channel]
    ended: list[tuple[str, Channel | None]]
    """The names of those that no longer negotiate; None for a channel that is gone."""


class Followed:
    """The negotiations that were reported and have not ended, by their peers' names."""

    def __init__(self) -> None:
        self._known: dict[str, _Followed] = {}

    def clear(self) -> None:
        """Forget them, because another process of charon knows nothing of them."""
        self._known.clear()

    def compare(self, channels: Iterable[Channel], now: float) -> Changes | None:
        """Return what is to be reported; None if nothing is."""
        known = {one.name: one for one in channels}
        demand = {name: one for name, one in known.items() if _wants_charon(one, now)}
        begun = [one for name, one in demand.items() if not self._is_known(name, one.state)]
        ended = [(name, known.get(name)) for name in self._known if name not in demand]
        return Changes(now, begun, ended) if begun or ended else None

    def report(
        self, changes: Changes, waited: float | None, now: float
    ) -> Iterator[NegotiationBegan | NegotiationEnded]:
        """Yield the reports. ``waited``: how long charon's threads have waited for a CPU in all."""
        for name, channel in changes.ended:
            yield self._ended(name, channel, waited, now)
        for one in changes.begun:
            self._known[one.name] = _Followed(one.state, waited, changes.at)
            yield NegotiationBegan(one.name)

    def _is_known(self, name: str, state: State) -> bool:
        """Return whether the governor knows a negotiation. An expected one is reported again when it runs."""
        known = self._known.get(name)
        return known is not None and (known.state is state or state is State.WAITING)

    def _ended(self, name: str, channel: Channel | None, waited: float | None, now: float) -> NegotiationEnded:
        followed = self._known.pop(name)
        if channel is None or channel.state is not State.PROTECTED:
            return NegotiationEnded(name, protected=False)
        lost = None
        if followed.waited is not None and waited is not None:
            lost = min(waited - followed.waited, now - followed.began)
        return NegotiationEnded(name, True, _own_time(channel), lost)


def _wants_charon(channel: Channel, now: float) -> bool:
    """Return whether a negotiation runs or can begin any moment: there is a route, and no failure delays an attempt."""
    if channel.state is State.NEGOTIATING:
        return True
    return channel.state is State.WAITING and channel.route is not None and channel.attempt.backoff.due <= now


def _own_time(channel: Channel) -> float | None:
    """Return how long our own set-up took; for one of the peer's, its beginning is not known here."""
    sa = channel.ike_sa()
    if sa is None or not sa.initiator or channel.attempt.began_at is None or channel.protected_at is None:
        return None
    return channel.protected_at - channel.attempt.began_at
