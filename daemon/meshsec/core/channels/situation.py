"""All that the engine knows. Events change it, ``plan`` reads it, and people are shown it."""

from collections.abc import Callable, Iterable
from ipaddress import IPv6Address

from meshsec.core.channels.actions import Kind, Subject
from meshsec.core.channels.attempt_queue import AttemptQueue
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import connection_spec
from meshsec.core.channels.fail_closed import FailClosed
from meshsec.core.channels.in_flight import ActionsInFlight
from meshsec.core.channels.level import Surroundings, circumstances, is_below_floor, leveled
from meshsec.core.channels.overlay import Overlay
from meshsec.core.networks.networks import selectors
from meshsec.core.policy.levels import LevelTimes
from meshsec.core.policy.policy import Policy
from meshsec.core.policy.suite_choice import SuiteChoice
from meshsec.core.values.model import Card, ConnectionSpec, EspBackend, Peer, peer_name
from meshsec.core.values.routes import RouteTable
from meshsec.core.values.timers import Timers


class Situation:
    """The functions of this room that take events write it; all others read it.

    Times are monotonic seconds.
    """

    def __init__(
        self, node: Card, backend: EspBackend, policy: Policy, random: Callable[[], float], overlay_device: str
    ) -> None:
        """``random`` gives floats in [0, 1) for the jitters. ``overlay_device``: empty where there is no overlay."""
        self.node, self.backend, self.policy, self.random = node, backend, policy, random
        self.now = 0.0
        self.suites = SuiteChoice(policy)
        """Which suite is proposed first, and why."""
        self.around = Surroundings()
        """What the levels of authentication are chosen by."""
        self.level_times = LevelTimes()
        """How long this node's set-ups took at each level, with whomever."""
        self.routes = RouteTable()
        self.overlay = Overlay(overlay_device, policy.data_plane, fallback=policy.overlay_fallback)
        self.ike_down: str | None = "not contacted yet"
        """Why the IKE daemon does not answer; None when it does."""
        self.router_down: str | None = "not contacted yet"
        """Why the routing daemon does not answer; None when it does."""
        self.key_loaded = False
        """The IKE daemon has the node's private key."""
        self.by_name: dict[str, Channel] = {}
        """The channels of trusted peers, and of others as long as the IKE daemon has something of them."""
        self.rules = FailClosed(node, backend, policy, overlay_device, self.by_name)
        self.networks = self.rules.networks
        self.names: dict[IPv6Address, str] = {}
        """The channel of each trusted peer by its address."""
        self.dirty: dict[str, None] = {}
        """The channels to settle, in order."""
        self.blocked: set[str] = set()
        """The channels that wait for the rules, the key or a configuration."""
        self.in_flight = ActionsInFlight(policy)
        self.timers: Timers[Subject] = Timers()
        self.queue = AttemptQueue(policy)

    def channels(self) -> Iterable[Channel]:
        """Return the channels of all trusted peers, to be read only."""
        return (channel for channel in self.by_name.values() if channel.card is not None)

    def channel(self, name: str) -> Channel | None:
        """Return the channel of one trusted peer, to be read only."""
        channel = self.by_name.get(name)
        return channel if channel is not None and channel.card is not None else None

    def peer_at(self, address: str) -> str:
        """Return the name of the channel to the peer whose end point an address is; empty when it is nobody's."""
        found = (one for one in self.channels() if one.connection and str(one.connection.remote_address) == address)
        return next((one.name for one in found), "")

    def shown_as(self, title: str) -> Channel | None:
        """Return the channel that people see under this name, to be read only."""
        return next((channel for channel in self.channels() if channel.title == title), None)

    def title(self, name: str | None) -> str | None:
        """Return the name under which people see a channel; an SA that belongs to nobody keeps its own."""
        channel = self.by_name.get(name) if name is not None else None
        return channel.title or name if channel is not None else name

    def opened(self, name: str) -> Channel:
        """Return the channel of this name. A new one is made where there is none."""
        if name not in self.by_name:
            self.by_name[name] = Channel(name, self.now)
        return self.by_name[name]

    def is_over(self, channel: Channel) -> bool:
        """Return whether the peer is not trusted, and the IKE daemon has nothing of it and is not just given it."""
        asked = self.queue.is_active(channel.name) or self.in_flight.has(Subject(Kind.CONNECTION, channel.name))
        return channel.gone() and not asked

    def specified(self, channel: Channel, card: Card) -> ConnectionSpec | None:
        """Return the configuration of the IKE daemon for the peer with this card, at the level that is chosen now.

        If the pair lacks what the level asks for, there is no configuration. An SA that carries and is not below the
        floor keeps its own meanwhile, until level_events.py closes it.
        """
        node, policy = channel.own or self.node, self.suites.policy()
        pairs = selectors(self.networks, channel.title, card)
        spec = connection_spec(node, Peer(channel.name, card), self.backend, policy, pairs)
        asked = circumstances(self.around, channel.level, peer_name(channel.title), channel.fleet, self.now)
        found = leveled(policy, channel.level, asked, self.around.mark, spec)
        if channel.level.refused and (sa := channel.carrying_sa()) and not is_below_floor(policy, sa, channel.fleet):
            return channel.connection
        return found

    def mark(self, name: str) -> None:
        """Have the channel settled with the next ``poll_*``."""
        self.dirty[name] = None
        self.networks.changed()

    def mark_addresses(self, addresses: Iterable[IPv6Address]) -> None:
        """Have the channels of the peers with these addresses settled; others' addresses count for nothing."""
        for address in addresses:
            if address in self.names:
                self.mark(self.names[address])

    def unblock(self) -> None:
        """Have the channels settled that waited for the rules or the key."""
        self.dirty.update(dict.fromkeys(name for name in sorted(self.blocked) if name in self.by_name))
        self.blocked.clear()
