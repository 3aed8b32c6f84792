"""What is known of the networks behind nodes.

Theory of operation. A node announces its networks through OLSRv2, which anybody can do. Who may speak for a network is
a matter of trust: the operator names the peers (``[routing] accept``), or allows what is on a peer's card (claims.py).
Packets to a network travel inside packets to the chosen peer's own address, which an SA or the overlay protects. So
nothing is negotiated when a network moves or another gateway is chosen: one route of the kernel changes.

A peer without meshsec knows no such tunnel. Its networks are in traffic selectors (``selected``): each pair of a
network here and one there has its own CHILD_SA (``selector_pairs``), and a route that goes nowhere without that SA.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network

from meshsec.core.networks.announcements import Announcements, Standing
from meshsec.core.networks.claims import Claim, Granted, Grants, granted
from meshsec.core.networks.flow_marks import FlowMarks
from meshsec.core.values.model import Address, Card, Network, peer_name
from meshsec.core.values.networks import Announcement, BehindNodes, Speaker, TunnelRoute

DEVICE = "meshsec-nets"
"""The tunnel's device."""
DEFAULTS: Mapping[int, Network] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}
"""The way out by IP version."""


class Networks:
    """The engine writes it, the views read it."""

    def __init__(self) -> None:
        self.own: tuple[Network, ...] = ()
        """The protected networks behind this node."""
        self._device = ""
        self._counting: Granted | None = None
        """Which claims count; None when it must be derived again."""
        self._with_clients: frozenset[Network] = frozenset()
        """The networks in which single addresses may be clients."""
        self._lengths: Mapping[int, Sequence[int]] = {}
        """Their prefix lengths by IP version, the longest first."""
        self._configured: Grants = {}
        self.selected: frozenset[Network] = frozenset()
        """The networks of peers that are in traffic selectors: each has one peer, and never moves."""
        self._mesh: tuple[Network, ...] = ()
        self.shared: Grants = {}
        """The networks of this node's clients, and the peers that serve clients of them, too."""
        self.clients: Mapping[Network, IPv6Address] = {}
        """Which node serves each client's address, as the access nodes agreed. A node that is none knows none."""
        self._claims: dict[str, Claim] = {}
        self.silent: frozenset[Address] = frozenset()
        """The peers whose gateways do not answer, by their addresses."""
        self.installed: frozenset[TunnelRoute] = frozenset()
        """The routes in the kernel, as read back."""
        self.wanted: frozenset[TunnelRoute] | None = None
        """The routes that ought to be there; None when they must be derived again."""
        self.flows = FlowMarks()
        """The marks of flows to the outside."""
        self._kept: frozenset[Network] | None = None
        """The networks that stay where they were until something is said of them; None: all of them."""
        self.announcements = Announcements()
        """What other routers announce."""

    def configure(
        self,
        own: Iterable[Network],
        grants: Grants,
        mesh: Iterable[Network] = (),
        *,
        selected: Iterable[Network] = (),
        shared: Grants | None = None,
    ) -> None:
        """Take the operator's words; before the first event. ``mesh``: where the nodes have their IPv4 addresses.

        ``selected``: which of ``grants`` are in traffic selectors. ``shared``: the networks of this node's clients, and
        the peers that serve clients of them, too.
        """
        self._configured, self._mesh = grants, tuple(mesh)
        self.selected, self.shared = frozenset(selected), shared or {}
        self.take_own(own)

    def claim(self, channel: str, claim: Claim | None) -> bool:
        """Take what the card of a channel's peer asks to speak for; None: nothing. Return whether that changes who may.

        Most cards ask for nothing, and cost nothing here.
        """
        if self._claims.get(channel) == claim:
            return False
        self._claims.pop(channel, None)
        if claim is not None:
            self._claims[channel] = claim
        self._counting = None
        self.changed()
        return True

    def take_own(self, own: Iterable[Network]) -> None:
        """Take the protected networks behind this node, which change when it becomes a gateway."""
        self.own = (*own, *self.shared)
        self._counting = None
        self.changed()

    @property
    def grants(self) -> Grants:
        """Return who may speak for a network, by a peer's name or one of its addresses."""
        return self._counted().grants

    @property
    def tunnelled(self) -> tuple[Network, ...]:
        """Return the networks of peers that are reached through the tunnel."""
        return tuple(one for one in self.grants if one not in self.selected)

    @property
    def refused(self) -> Mapping[tuple[str, Network], str]:
        """Return the networks on peers' cards that do not count, by peer and network, with the reason."""
        return self._counted().refused

    @property
    def device(self) -> str:
        """Return the tunnel's device; empty: no networks were protected on this node since meshsecd's start."""
        if self.own or self.grants:
            self._device = DEVICE
        return self._device

    def _counted(self) -> Granted:
        """Derive which claims count, once for all that changed."""
        if self._counting is None:
            claims = (_without(one, self.shared) for one in self._claims.values())
            self._counting = granted(self._configured, claims, self.own, self._mesh, self.selected)
            self._with_clients = frozenset(one for one in (*self.tunnelled, *self.shared) if one.prefixlen)
            self._lengths = {version: _lengths(version, self._with_clients) for version in (4, 6)}
            self.announcements.replace(self.announcements, partial(_standing, self))
        return self._counting

    @property
    def in_use(self) -> dict[Network, IPv6Address]:
        """Through which peer each network is reached now."""
        return {route.destination: route.peer for route in self.installed if not (route.forwarded or route.mark)}

    @property
    def hosts_in_use(self) -> dict[Network, IPv6Address]:
        """Through which peer each own address of a peer is reached from the networks behind this node."""
        return {route.destination: route.peer for route in self.installed if route.forwarded}

    def changed(self) -> None:
        """Derive the wanted routes again when they are next asked for."""
        self.wanted = None

    def behind(self, cards: Mapping[str, Sequence[Card]]) -> BehindNodes:
        """Return what the fail-closed rules need. ``cards``: of all trusted peers, by name."""
        if not self.device:
            return BehindNodes()
        speakers = [_speaker(self, name, held) for name, held in cards.items()]
        return BehindNodes(
            self.device,
            self.own,
            tuple(sorted(speakers, key=lambda one: one.tunnels)),
            self.tunnelled,
            tuple(sorted(self.selected, key=str)),
            tuple(self.shared),
        )

    def may_speak(self, network: Network, name: str, card: Card) -> bool:
        """Return whether a peer may speak for a network. ``name`` is the peer's or the title of one of its channels."""
        named = self.grants.get(network) or self.shared.get(network, ())
        return any(one in named for one in (peer_name(name), *originators(card)))

    def around(self, host: Network) -> Network | None:
        """Return the network for which somebody may speak and to which one address belongs; None if there is none.

        Default routes are left out: who may speak for one is a gateway, and has no clients by that.
        """
        self._counted()
        lengths = (one for one in self._lengths[host.version] if one < host.prefixlen)
        found = (host.supernet(new_prefix=one) for one in lengths)
        return next((one for one in found if one in self._with_clients), None)

    def kept(self, network: Network) -> IPv6Address | None:
        """Return through which peer a network was reached before the routing daemon was connected (again).

        A daemon that has just started knows no announcement yet, and says so. Until it says something of the network,
        the network stays where it was: its packets are protected there, too. None: it has said something, or the
        network was not reached.
        """
        return self.in_use.get(network) if self._kept is None or network in self._kept else None

    def reset(self, announcements: Iterable[Announcement]) -> None:
        """Replace all announcements: the routing daemon was connected (again)."""
        self.changed()
        self._kept = frozenset(self.in_use)
        found = [*announcements]
        self.announcements.replace(found, partial(_standing, self))
        for one in found:
            self._heard_of(one.network)

    def put(self, one: Announcement) -> None:
        """Add or replace an announcement."""
        self.announcements.put(one, _standing(self, one.network))
        self._heard_of(one.network)

    def remove(self, network: Network, originator: Address) -> None:
        """Forget an announcement that was withdrawn."""
        self.announcements.remove(network, originator)
        self._heard_of(network)

    def _heard_of(self, network: Network) -> None:
        """Note that the routing daemon has said something of a network, if that counts here."""
        if _standing(self, network) is not Standing.STRANGE:
            self.changed()
            self._kept = (self._kept or frozenset()) - {network}


def selectors(networks: Networks, title: str, card: Card) -> tuple[tuple[Network, Network], ...]:
    """Return the pairs of networks in traffic selectors of the channel with this title: here, and there.

    Only the present keys of both ends have any, because two channels with the same selectors would replace each
    other's policies in the kernel.
    """
    if title != peer_name(title):
        return ()
    found = (one for one in networks.grants if one in networks.selected and networks.may_speak(one, title, card))
    return selector_pairs(networks.own, found)


def selector_pairs(own: Iterable[Network], others: Iterable[Network]) -> tuple[tuple[Network, Network], ...]:
    """Return each network of ours with each of others' of the same IP version. Default routes do not count."""
    here = [one for one in own if one.prefixlen]
    return tuple((one, other) for other in others for one in here if one.version == other.version)


def originators(card: Card, version: int | None = None) -> tuple[Address, ...]:
    """Return what a peer may announce itself as, in one IP version or all; where its ESP runs is not known here."""
    found = (card.address, card.locator, card.ipv4)
    return tuple(one for one in found if one is not None and version in {None, one.version})


def _lengths(version: int, networks: Iterable[Network]) -> list[int]:
    return sorted({one.prefixlen for one in networks if one.version == version}, reverse=True)


def _standing(networks: Networks, network: Network) -> Standing:
    if network in networks.grants:
        return Standing.GRANTED
    is_client = network.prefixlen == network.max_prefixlen and networks.around(network) is not None
    return Standing.CLIENT if is_client else Standing.STRANGE


def _speaker(networks: Networks, name: str, cards: Sequence[Card]) -> Speaker:
    tunnels = sorted({card.address for card in cards})
    ipv4 = sorted({card.ipv4 for card in cards if card.ipv4})
    spoken = (one for one in networks.tunnelled if any(networks.may_speak(one, name, card) for card in cards))
    serves = tuple(one for one in networks.shared if any(networks.may_speak(one, name, card) for card in cards))
    return Speaker(tuple(tunnels), (*tunnels, *ipv4), (*spoken, *serves), serves)


def _without(claim: Claim, shared: Grants) -> Claim:
    """Return a claim without the networks of clients: the operator names who serves those."""
    return replace(claim, networks=tuple(one for one in claim.networks if one not in shared))
