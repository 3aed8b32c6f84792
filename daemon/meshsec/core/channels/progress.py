"""How a channel goes on: what its observed SAs, time and the ends of attempts make of it."""

from meshsec.core.channels.attempt import Failure
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import endpoint
from meshsec.core.channels.diagnosis import Fault, diagnose
from meshsec.core.channels.lifecycle import WITH_SA, State, Trigger
from meshsec.core.channels.situation import Situation
from meshsec.core.policy.limits import Backoff
from meshsec.core.values.failures import OF_NOBODY_KNOWN, Cause, FailureKind
from meshsec.core.values.model import IkeSa

_UNANSWERED = frozenset({Fault.PATH, Fault.UNKNOWN})
"""Failures after which nobody knows what the peer made of the attempt: not its refusals, and not our own daemon's."""

_WHOLE_SECOND = 1.0
"""Seconds by which an SA may be younger than it seems, because IKE daemons count its age in whole seconds."""

_NO_SA = Cause("the IKE daemon reported success and shows no SA", FailureKind.OWN_DAEMON)


def refresh(known: Situation, channel: Channel, reason: str = "") -> None:
    """Bring the life cycle in line with what is known, and let the peer be settled."""
    known.mark(channel.name)
    if known.is_over(channel):
        known.rules.unbar(channel.name)
    live, complete = channel.established()
    channel.hold.follow(known.now, known.policy.hold_time, is_needed=live and channel.route is None)
    carries = complete and not channel.hold.over
    if carries and channel.state not in WITH_SA:
        _sa_up(known, channel)
    elif not carries and channel.state in WITH_SA:
        _sa_lost(known, channel, reason)
    if channel.card is not None:
        _follow_negotiation(known, channel, incomplete=live and not complete)


def peer_timeout(known: Situation, channel: Channel) -> None:
    """Act on the channel's time that has come: of the hold, of the patience, or of the next attempt."""
    known.mark(channel.name)
    if _hold_expired(known, channel):
        channel.hold.over = True
        channel.fire(known.now, Trigger.HOLD_OVER)
    if channel.attempt.patience_until is not None and channel.attempt.patience_until <= known.now:
        _patience_over(known, channel)
    if channel.attempt.due <= known.now:
        channel.fire(known.now, Trigger.RETRY_DUE)


def revoke(known: Situation, channel: Channel) -> None:
    """Give up the SAs of a card that was withdrawn, and those that are still being negotiated."""
    if channel.configured() and not known.queue.is_active(channel.name):
        channel.sas.disowned = False
    if channel.sas.disowned:
        channel.sas.revoke()


def attempt_failed(known: Situation, channel: Channel, cause: Cause) -> None:
    """Take the failure of an attempt of this node's, and set the time of the next one."""
    if channel.is_rising():
        channel.attempt.backoff = _after_failure(known, channel, cause)
        channel.attempt.due = channel.attempt.backoff.due
        note_failure(known, channel, cause)
        return
    if channel.established().complete:
        _doubt(known, channel, cause)
        return
    channel.attempt.unconfirmed = False
    channel.attempt.backoff = _after_failure(known, channel, cause)
    channel.attempt.due = channel.attempt.backoff.due
    note_failure(known, channel, cause)
    channel.fire(known.now, Trigger.ATTEMPT_FAILED, cause.words)


def note_failure(known: Situation, channel: Channel, cause: Cause) -> None:
    """Record a failure and what it means, for people."""
    address = endpoint(channel.card, known.backend) if channel.card is not None else channel.name
    channel.attempt.last_failure = Failure(cause, known.now, diagnose(cause, address))


def await_turn(known: Situation, channel: Channel, wanted_at: float) -> None:
    """Have the channel wait for its turn. It has been wanted since the monotonic time ``wanted_at``."""
    channel.attempt.wanted_at = wanted_at
    channel.attempt.wait(known.now, delay(known, channel))


def delay(known: Situation, channel: Channel) -> float:
    """Return the seconds before an attempt: a jitter, and at the end that does not initiate the time to take over."""
    jitter = known.random() * known.policy.initiator_jitter
    if channel.initiator:
        return jitter
    return jitter + (
        known.policy.takeover_delay_fresh if channel.attempt.daemon_restarted else known.policy.takeover_delay
    )


def _sa_up(known: Situation, channel: Channel) -> None:
    sa = channel.ike_sa()
    by = "this node" if sa is not None and sa.initiator else "the peer"
    channel.fire(known.now, Trigger.SA_UP, f"initiated by {by}")
    channel.protected_at = known.now
    if sa is not None and sa.initiator:
        _measure(known, channel, sa)
    channel.attempt.patience_until, channel.attempt.unconfirmed, channel.attempt.daemon_restarted = None, False, False
    if channel.attempt.wanted_at is not None:
        since = channel.attempt.wanted_at
        adopted = sa is not None and sa.established_at is not None and sa.established_at + _WHOLE_SECOND <= since
        channel.attempt.route_to_protected = None if adopted else known.now - since


def _measure(known: Situation, channel: Channel, sa: IkeSa) -> None:
    """Measure a set-up at its initiator, who alone sees all of it: the peer's time and the network's."""
    if channel.attempt.began_at is None or channel.attempt.measured == channel.attempt.count:
        return
    measure_level(known, channel)
    channel.attempt.measured = channel.attempt.count
    if known.suites.measured(known.now, sa, known.now - channel.attempt.began_at):
        for other in known.by_name.values():
            if other.card is not None:
                other.connection = known.specified(other, other.card)
                known.mark(other.name)


def measure_level(known: Situation, channel: Channel) -> None:
    """Measure once how long this node's set-up took at the level for which it was made."""
    attempt = channel.attempt
    if attempt.began_at is not None and channel.level.began_at and attempt.measured != attempt.count:
        attempt.measured = attempt.count
        seconds, deadline = known.now - attempt.began_at, known.policy.deadline_ms / 1000
        for times in (known.level_times, channel.level.times):
            times.measured(known.now, channel.level.began_at, seconds, deadline)
        channel.level.due = known.now


def _sa_lost(known: Situation, channel: Channel, reason: str) -> None:
    """Damping: an SA that was established for less than the delay before it did not last."""
    lasted = known.now - (channel.protected_at or 0.0)
    if lasted < max(channel.attempt.backoff.delay, known.policy.backoff_first):
        channel.attempt.backoff = channel.attempt.backoff.lost(known.now, known.policy, known.random())
    else:
        channel.attempt.backoff = Backoff()
    channel.attempt.patience_until = channel.quiet = None
    channel.fire(known.now, Trigger.SA_LOST, reason)
    if channel.state is State.WAITING:
        await_turn(known, channel, known.now)
    if channel.attempt.asked_again:
        channel.attempt.asked_again, channel.attempt.backoff, channel.attempt.due = False, Backoff(), known.now


def _follow_negotiation(known: Situation, channel: Channel, *, incomplete: bool) -> None:
    """Wait for the peer's negotiation, once and for a limited time, because half-open IKE_SAs can be forged.

    The initiator does not wait for an IKE_SA that is not authenticated yet.
    """
    if known.queue.is_active(channel.name):
        channel.fire(known.now, Trigger.NEGOTIATION_STARTED, "by this node")
        return
    connecting = channel.sas.connecting() and not channel.initiator
    busy = connecting or incomplete
    if busy and channel.attempt.patience_until is None:
        patience = known.policy.initiate_timeout if connecting else known.policy.takeover_delay
        if channel.fire(known.now, Trigger.NEGOTIATION_STARTED, "by the peer"):
            channel.attempt.patience_until = known.now + patience
    elif not busy and not channel.attempt.unconfirmed and channel.fire(known.now, Trigger.NEGOTIATION_ENDED):
        channel.attempt.wait(known.now, delay(known, channel))


def _hold_expired(known: Situation, channel: Channel) -> bool:
    """Never while the routing daemon is away: its routes may be back with it."""
    return channel.hold.until is not None and channel.hold.until <= known.now and known.router_down is None


def _patience_over(known: Situation, channel: Channel) -> None:
    if channel.attempt.unconfirmed:
        attempt_failed(known, channel, _NO_SA)
    elif not known.queue.is_active(channel.name) and channel.fire(known.now, Trigger.NEGOTIATION_ENDED):
        channel.attempt.wait(known.now, delay(known, channel))


def _after_failure(known: Situation, channel: Channel, cause: Cause) -> Backoff:
    if cause.kind in OF_NOBODY_KNOWN:
        return channel.attempt.backoff.contested(known.now)
    return channel.attempt.backoff.failed(known.now, known.policy, known.random())


def _doubt(known: Situation, channel: Channel, cause: Cause) -> None:
    """Give up an SA of the peer's that came while an attempt of ours stayed without answer.

    The attempt may have reached the peer: then its INITIAL_CONTACT made the peer drop that SA, and the two ends
    would hold different ones for ever, as neither can see the other's.
    """
    sa, is_doubtful = channel.ike_sa(), cause.kind not in OF_NOBODY_KNOWN and diagnose(cause, "").fault in _UNANSWERED
    if sa is not None and not sa.initiator and is_doubtful:
        channel.sas.revoked |= {sa.unique_id}
        note_failure(known, channel, cause)
