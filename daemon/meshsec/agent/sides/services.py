"""The side of the agent that tells peers what this node offers, and keeps what they offer (ADR 0072).

What a peer offers is forgotten when its channel no longer carries. A changed configuration takes effect with a restart,
which begins again. By the same port nodes say what their clients are called (client_names.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from meshsec.agent.sides.client_names import ClientNamesTalk
from meshsec.agent.sides.peer_talk import Peers, PeerTalk
from meshsec.core.channels.situation import Situation
from meshsec.core.formats.dns_sd import Offered
from meshsec.core.names.names import DOMAIN
from meshsec.core.services import services
from meshsec.core.services.protocols import url
from meshsec.core.services.services import Message, MessageError, Offer, Service
from meshsec.core.values.host_names import ClientName
from meshsec.core.values.model import peer_name


class Takers(NamedTuple):
    """Who takes what peers say."""

    names: Callable[[IPv6Address, tuple[ClientName, ...]], None]
    """Takes what the clients of a peer are called."""
    offered: Callable[[Callable[[], Iterable[Offered]]], None] | None
    """Is told of each change, and how to get all that this node and its peers offer; None where nobody reads it."""


class ServicesSide:
    """What this node and its peers offer."""

    def __init__(
        self,
        offered: Sequence[Service],
        known: Situation,
        talk: PeerTalk,
        takers: Takers,
        *,
        serves: bool,
    ) -> None:
        """``serves``: this node is an access node."""
        self.client_names = ClientNamesTalk(self._send, takers.names, serves=serves)
        self._takers, self._serves = takers, serves
        self._offered, self._known, self._talk = tuple(sorted(offered)), known, talk
        self._reached: Peers = frozenset()
        self._heard: dict[IPv6Address, tuple[Service, ...]] = {}
        self._changed()
        talk.add(self)

    def message(self, *, asks: bool) -> bytes:
        """Return what this node offers."""
        return services.encode(services.offer(self._offered, asks=asks, clients=self._serves))

    def is_heard(self, peer: IPv6Address) -> bool:
        """Return whether a peer has said what it offers."""
        return peer in self._heard

    def take(self, peer: IPv6Address, octets: bytes) -> bool:
        """Take a message, unless it is of another topic. Return whether the peer asks what this node offers."""
        try:
            message = services.decode(octets)
        except MessageError:
            return False
        if not isinstance(message, Offer):
            self.client_names.heard(peer, message)
            return False
        self._heard[peer] = message.services()
        self._changed()
        if not message.clients:
            self.client_names.serves_none(peer)
        if message.asks:
            self.client_names.asked(peer)
        return message.asks

    def keep(self, reached: Peers) -> None:
        """Forget what those offer who are not reached."""
        if reached != self._reached:
            self._reached = reached
            self._heard = {peer: found for peer, found in self._heard.items() if peer in reached}
            self.client_names.follow(reached)
            self._changed()

    def returned(self, peers: Peers) -> None:
        """Repeat to those who have not answered what clients are called here."""
        self.client_names.repeat(peers)

    def _send(self, peer: IPv6Address, message: Message) -> None:
        self._talk.send(peer, services.encode(message))

    def _changed(self) -> None:
        if self._takers.offered is not None:
            self._takers.offered(self._all)

    def _all(self) -> Iterator[Offered]:
        return (Offered(node, one) for node, _, found in self._by_node() for one in found)

    def _by_node(self) -> list[tuple[str, IPv6Address, tuple[Service, ...]]]:
        """Return what each node offers, this one first, by their names on this node."""
        names = {channel.card.address: peer_name(channel.title) for channel in self._known.channels() if channel.card}
        theirs = [(names.get(peer, str(peer)), peer, found) for peer, found in self._heard.items()]
        return [(self._known.node.name, self._known.node.address, self._offered), *sorted(theirs)]

    def view(self) -> dict[str, Any]:
        """Return the answer of the method ``services``."""
        return {
            "schema": "meshsec-services-1",
            "services": [_shown(name, address, one) for name, address, found in self._by_node() for one in found],
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
        "url": url(one, f"{node}.{DOMAIN}"),
    }
