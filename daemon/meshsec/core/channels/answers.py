"""What the ends of actions do to the channels."""

from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    Keep,
    Kind,
    LoadConnection,
    LoadKey,
    Permit,
    RouteOverlay,
    Subject,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import ActionDone
from meshsec.core.channels.ike_events import take_sas
from meshsec.core.channels.lifecycle import WITH_SA, State, Trigger
from meshsec.core.channels.progress import attempt_failed, measure_level, note_failure, refresh, revoke
from meshsec.core.channels.situation import Situation
from meshsec.core.values.failures import Cause
from meshsec.core.values.sa_states import IkeSaState


def action_done(known: Situation, event: ActionDone) -> None:
    """Take the answer to an action in flight; others, from before a restart of the IKE daemon, count for nothing."""
    if not known.in_flight.answer(event.action):
        return
    subject = event.action.subject
    channel = known.by_name.get(subject.peer)
    if isinstance(event.action, Initiate):
        known.queue.finish(subject.peer)
        _attempt_done(known, known.by_name[subject.peer], event.cause)
    elif event.cause is not None:
        _failed(known, subject, channel, event.cause)
    else:
        known.in_flight.settled(subject)
        _took_effect(known, event.action, channel)
    if channel is not None:
        refresh(known, channel)
    if isinstance(event.action, Keep | RouteOverlay):
        known.mark_addresses(one for one, name in known.names.items() if known.by_name[name].handover.switching)


def _took_effect(known: Situation, action: Action, channel: Channel | None) -> None:
    match action:
        case ApplyRules(rules):
            known.rules.applied(rules)
            if known.key_loaded:
                known.unblock()
        case LoadKey():
            known.key_loaded = True
            known.unblock()
        case LoadConnection(spec) if channel is not None:
            channel.loaded, channel.loaded_connection = True, spec
            revoke(known, channel)
        case UnloadConnection() if channel is not None:
            channel.loaded, channel.loaded_connection = False, None
        case Permit() | Keep() | RouteOverlay():
            known.overlay.took_effect(action)
        case Terminate(unique_id, _, reason) if channel is not None:
            listed = channel.sas.listed
            left = tuple(sa for sa in listed if sa.unique_id != unique_id or sa.state is IkeSaState.DELETING)
            take_sas(known, channel, left, reason)


def _failed(known: Situation, subject: Subject, channel: Channel | None, cause: Cause) -> None:
    due = known.in_flight.failed(known.now, subject, known.random())
    known.timers.set(subject, due)
    if channel is not None and subject.kind is Kind.CONNECTION:
        note_failure(known, channel, cause)
        channel.attempt.due = max(channel.attempt.due, due)
        channel.fire(known.now, Trigger.ATTEMPT_FAILED, cause.words)


def _attempt_done(known: Situation, channel: Channel, cause: Cause | None) -> None:
    channel.attempt.patience_until = None
    if channel.sas.disowned:
        revoke(known, channel)
    elif cause is not None:
        attempt_failed(known, channel, cause)
    else:
        if channel.state in WITH_SA:
            measure_level(known, channel)
        channel.attempt.unconfirmed = channel.state is State.NEGOTIATING or channel.sas.connecting()
    if channel.attempt.unconfirmed and channel.state is State.NEGOTIATING:
        channel.attempt.patience_until = known.now + known.policy.backoff_first
