"""What circumstances do to the channels' levels of authentication (level.py)."""

from meshsec.core.channels import level
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import SurroundingsSet
from meshsec.core.channels.progress import delay, refresh
from meshsec.core.channels.situation import Situation
from meshsec.core.policy.limits import Backoff


def surroundings_set(known: Situation, event: SurroundingsSet) -> None:
    """Take threat, place and second secret, and choose the level of every peer again."""
    known.around = event.around
    for channel in known.by_name.values():
        choose_again(known, channel)


def choose_again(known: Situation, channel: Channel) -> None:
    """Choose a peer's level again, and have its connection configured again if that changes it."""
    if channel.card is None:
        return
    connection = known.specified(channel, channel.card)
    if connection != channel.connection:
        channel.connection = connection
        refresh(known, channel, "what its level of authentication asks for has changed")
    known.mark(channel.name)


def follow_level(known: Situation, channel: Channel) -> None:
    """Close an SA below the floor at once, and prepare the successor of one below the chosen level.

    If the pair cannot have the chosen level, there is no successor: the SA is closed after ``GRACE`` seconds, and no
    other is set up.
    """
    if channel.level.choice is None:
        return
    if channel.card is not None and (due := channel.level.due) is not None and due <= known.now:
        choose_again(known, channel)
    channel.level.due = channel.level.times.next_time(known.now)
    sa = channel.carrying_sa()
    if sa is None or not (channel.level.refused or level.is_below(known.policy, channel.level, sa, channel.fleet)):
        channel.level.rise_by = None
        _end_grace(known, channel)
        return
    if channel.level.rise_by is None:
        first_seen = channel.sas.first_seen.get(sa.unique_id, known.now)
        channel.level.rise_by = known.now + level.GRACE
        channel.attempt.backoff = Backoff()
        channel.attempt.due = max(known.now, first_seen + level.SETTLED) + delay(known, channel)
    is_late = channel.level.rise_by <= known.now
    if is_late or level.is_below_floor(known.policy, sa, channel.fleet):
        channel.level.rise_by = None
        channel.sas.revoke()
        refresh(known, channel, "it is below the level of authentication that is asked for now")
        _end_grace(known, channel)


def _end_grace(known: Situation, channel: Channel) -> None:
    """Remove the connection that an SA had while its pair cannot have the chosen level: the SA is gone."""
    if channel.level.refused and channel.connection is not None:
        choose_again(known, channel)
