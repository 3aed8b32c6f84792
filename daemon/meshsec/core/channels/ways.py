"""How peers are reached, and what their SAs have counted: what ``core/paths`` watches."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.channels.network_events import of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.paths.watch import Counted, Way
from meshsec.core.values.failures import FailureKind
from meshsec.core.values.model import IkeSa


def ways(known: Situation) -> dict[IPv6Address, Way]:
    """Return the ways to the peers that have an SA, or would have if their first hop passed IKE.

    A neighbour is its own first hop: somebody who passes its routing messages on from far away may drop the rest.
    """
    found = ((card.address, _way(channel)) for channel, card in of_present_key(known))
    return {peer: way for peer, way in found if way is not None}


def _way(channel: Channel) -> Way | None:
    """Return the way of one peer. The overlay finds its own ways."""
    route = channel.route
    if route is None or route.first_hop is None:
        return None
    if channel.handover.carried_since is not None:
        return None
    if channel.state is State.PROTECTED:
        return Way(route.first_hop)
    failure = channel.attempt.last_failure
    failed_at = failure.at if failure is not None and failure.cause.kind is FailureKind.NO_ANSWER else None
    return Way(route.first_hop, protected=False, failed_at=failed_at)


def counted(known: Situation, ike_sas: Iterable[tuple[str, Iterable[IkeSa]]]) -> Iterator[tuple[IPv6Address, Counted]]:
    """Yield what the SAs of each peer have counted, from the SAs by the names of channels."""
    for name, sas in ike_sas:
        channel = known.channel(name)
        if channel is not None and channel.card is not None:
            children = [child for sa in sas if sa.is_live for child in sa.children]
            yield (
                channel.card.address,
                Counted(
                    sum(child.packets_in for child in children),
                    sum(child.packets_out for child in children),
                    sum(child.bytes_out for child in children),
                ),
            )
