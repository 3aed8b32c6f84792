"""The side of the agent that tells peers what this node offers, and keeps what they offer (ADR 0072).

What a peer offers is forgotten when its channel no longer carries. A changed configuration takes effect with a restart,
which begins again.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Any

from meshsec.agent.sides.peer_talk import Peers, PeerTalk
from meshsec.core.channels.situation import Situation
from meshsec.core.services import services
from meshsec.core.services.services import MessageError, Service
from meshsec.core.values.model import peer_name


class ServicesSide:
    """What this node and its peers offer."""

    def __init__(self, own: IPv6Address, offered: Sequence[Service], known: Situation, talk: PeerTalk) -> None:
        self._own, self._offered, self._known, self._talk = own, tuple(sorted(offered)), known, talk
        self._heard: dict[IPv6Address, tuple[Service, ...]] = {}
        talk.add(self)

    def message(self, *, asks: bool) -> bytes:
        """Return what this node offers."""
        return services.encode(services.offer(self._offered, asks=asks))

    def is_heard(self, peer: IPv6Address) -> bool:
        """Return whether a peer has said what it offers."""
        return peer in self._heard

    def take(self, peer: IPv6Address, octets: bytes) -> bool:
        """Take a message, unless it is of another topic. Return whether the peer asks."""
        try:
            message = services.decode(octets)
        except MessageError:
            return False
        self._heard[peer] = message.services()
        return message.asks

    def keep(self, reached: Peers) -> None:
        """Forget what those offer who are not reached."""
        if not self._heard.keys() <= reached:
            self._heard = {peer: found for peer, found in self._heard.items() if peer in reached}

    def view(self) -> dict[str, Any]:
        """Return the answer of the method ``services``."""
        names = {channel.card.address: peer_name(channel.title) for channel in self._known.channels() if channel.card}
        theirs = [(names.get(peer, str(peer)), peer, found) for peer, found in self._heard.items()]
        shown = [(self._known.node.name, self._own, self._offered), *sorted(theirs)]
        return {
            "schema": "meshsec-services-1",
            "services": [_shown(name, address, one) for name, address, found in shown for one in found],
            "problem": self._talk.problem,
        }


def _shown(node: str, address: IPv6Address, one: Service) -> dict[str, Any]:
    return {
        "node": node,
        "address": str(address),
        "name": one.name,
        "protocol": str(one.protocol),
        "port": one.port,
        "description": one.description,
    }
