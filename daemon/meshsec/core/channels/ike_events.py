"""What the IKE daemon does to the channels: it comes, goes, and shows its SAs."""

from collections.abc import Iterable

from meshsec.core.channels.actions import Kind, Subject
from meshsec.core.channels.attempt import Phases
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import (
    IkeDaemonDown,
    IkeDaemonUp,
    NegotiationTimed,
    QuietSeen,
    RenegotiationAsked,
    SasObserved,
)
from meshsec.core.channels.lifecycle import WITH_SA, State, Trigger
from meshsec.core.channels.progress import await_turn, delay, refresh, revoke
from meshsec.core.channels.reconcile import is_moved
from meshsec.core.channels.situation import Situation
from meshsec.core.policy.limits import Backoff
from meshsec.core.values.model import Address, IkeSa


def ike_daemon_up(known: Situation, event: IkeDaemonUp) -> None:
    """Take what the IKE daemon has. One that restarted has nothing of what it was asked."""
    known.ike_down = None
    known.key_loaded = event.observed.key_loaded
    if event.daemon_restarted:
        _forget_attempts(known)
    observed = event.observed
    for name in sorted(known.by_name.keys() | observed.connections.keys() | observed.ike_sas.keys()):
        channel = known.opened(name)
        channel.loaded = name in observed.connections
        channel.loaded_connection = observed.connections.get(name)
        if event.daemon_restarted:
            channel.sas.first_seen = {}
        channel.sas.see(known.now, observed.ike_sas.get(name, ()))
        take_sas(known, channel, observed.ike_sas.get(name, ()), "the IKE daemon restarted")
        if event.daemon_restarted:
            channel.attempt.daemon_restarted, channel.attempt.backoff = True, Backoff()
        if channel.state in {State.WAITING, State.FAILED}:
            channel.attempt.wait(known.now, delay(known, channel))


def ike_daemon_down(known: Situation, event: IkeDaemonDown) -> None:
    """Forget what the IKE daemon had: it does not answer."""
    known.ike_down = event.reason
    known.key_loaded = False
    _forget_attempts(known)
    for channel in known.by_name.values():
        channel.loaded, channel.loaded_connection, channel.sas.listed = False, None, ()
        channel.attempt.patience_until, channel.attempt.unconfirmed = None, False
        if channel.fire(known.now, Trigger.IKE_DAEMON_LOST, event.reason) and channel.state is State.WAITING:
            await_turn(known, channel, known.now)
        refresh(known, channel)


def sas_observed(known: Situation, event: SasObserved) -> None:
    """Take the SAs with one peer."""
    if event.peer in known.by_name or event.ike_sas:
        channel = known.opened(event.peer)
        channel.sas.see(known.now, event.ike_sas)
        take_sas(known, channel, event.ike_sas, event.reason or _moved_away(channel, event.ike_sas))


def quiet_seen(known: Situation, event: QuietSeen) -> None:
    """Take which SAs carry user data out and bring nothing back."""
    for channel in known.by_name.values():
        channel.quiet = event.peers.get(channel.name)


def negotiation_timed(known: Situation, event: NegotiationTimed) -> None:
    """Take how long the phases of a set-up took."""
    channel = known.by_name.get(event.peer)
    if channel is not None:
        channel.attempt.phases = Phases(event.ike_sa_init, event.ike_auth, event.child)


def renegotiation_asked(known: Situation, event: RenegotiationAsked) -> None:
    """Give up the peer's established SAs so that they are negotiated again. The rules hold user data back meanwhile."""
    channel = known.channel(event.peer)
    if channel is not None and channel.state is State.PROTECTED:
        channel.sas.revoke()
        channel.attempt.asked_again = True
        refresh(known, channel, "it is negotiated again, as the operator asked")


def take_sas(known: Situation, channel: Channel, ike_sas: tuple[IkeSa, ...], reason: str) -> None:
    """Replace what is known of a peer's SAs."""
    present = {sa.unique_id for sa in ike_sas}
    for gone in {sa.unique_id for sa in channel.sas.listed} - present:
        known.in_flight.settled(Subject(Kind.TERMINATE, channel.name, gone))
    channel.sas.listed = ike_sas
    channel.attempt.unconfirmed = channel.attempt.unconfirmed and channel.state not in WITH_SA
    channel.sas.revoked = (channel.sas.revoked | _moved(channel, ike_sas).keys()) & present
    channel.handover.superseded &= present
    revoke(known, channel)
    refresh(known, channel, reason)


def _forget_attempts(known: Situation) -> None:
    """Give up what the IKE daemon was asked: nobody will answer."""
    known.queue.clear()
    known.in_flight.forget_ike()


def _moved_away(channel: Channel, ike_sas: Iterable[IkeSa]) -> str:
    """Say that somebody on the way moved an SA to another address than the card's; empty when nobody has."""
    moved = _moved(channel, ike_sas)
    return f"somebody on the way rewrote its remote address to {next(iter(moved.values()))}" if moved else ""


def _moved(channel: Channel, ike_sas: Iterable[IkeSa]) -> dict[str, Address | None]:
    """Return where the SAs go that do not go to the card's address, by unique id."""
    connection = channel.connection
    return {sa.unique_id: sa.remote_host for sa in ike_sas if connection is not None and is_moved(sa, connection)}
