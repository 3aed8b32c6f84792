"""The fail-closed rules: which are wanted, and which are in force.

Theory of operation. The rules follow from trust alone: no route and no SA opens an address. They are derived from the
channels whenever trust changes, and are not kept in step with them. Besides the peers' addresses they close those of
removed peers, as long as the policy says so: for good (``RemovedPeers.DROP``), or until their SAs are closed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import addresses, endpoint, in_doubt, rules_spec, with_next, with_overlay, within
from meshsec.core.channels.ipv4_claims import mesh_networks, stays_closed
from meshsec.core.islands import paths
from meshsec.core.networks.networks import Networks
from meshsec.core.policy.policy import Policy, RemovedPeers
from meshsec.core.values.islands import Joint
from meshsec.core.values.model import Address, Card, EspBackend, Perimeter, RulesSpec, UnknownNodes, peer_name

if TYPE_CHECKING:
    from ipaddress import IPv6Address

    from meshsec.core.values.bench import Opening


class FailClosed:
    """The engine writes it, the views read it."""

    def __init__(
        self, node: Card, backend: EspBackend, policy: Policy, overlay_device: str, channels: Mapping[str, Channel]
    ) -> None:
        """``channels``: the engine's, by name. ``overlay_device``: empty where there is no overlay."""
        self.next_node: Card | None = None
        """The card of the key that will replace the node's (ADR 0041); set before the first event."""
        self.perimeter = Perimeter()
        """Where the mesh ends on this node; set before the first event."""
        self.linked: frozenset[str] = frozenset()
        """The peers to whom links over the internet are asked for; set before the first event."""
        self.networks = Networks()
        """The networks behind nodes."""
        self.in_force: RulesSpec | None = None
        """The rules in the kernel as last applied or read back; None when there are none or others."""
        self.trust_problems: tuple[str, ...] = ()
        """What is wrong with the trust store."""
        self.joins = False
        """This node has a fleet, whose members take requests to join it."""
        self.opening: Opening | None = None
        """What passes in the clear for a benchmark, as the operator says."""
        self._node, self._backend, self._policy, self._device = node, backend, policy, overlay_device
        self._channels = channels
        self._kept: set[Address] = set()
        """Addresses of removed peers that stay closed for good."""
        self._kept_locators: set[IPv6Address] = set()
        self._barred: dict[str, frozenset[Address]] = {}
        """Addresses of removed peers whose SAs are still being closed, by channel."""
        self._seen = False
        """The rules of an earlier run were read back, or others were applied."""
        self._wanted: RulesSpec | None = None
        self._met: bool | None = None

    def changed(self) -> None:
        """Derive the wanted rules again when they are next asked for: trust has changed."""
        self._wanted = self._met = None

    def wanted(self) -> RulesSpec:
        """Return the rules that ought to be in force."""
        if self._wanted is None:
            rules = within(with_next(self._of_peers(), self.next_node), self.perimeter)
            self._wanted = in_doubt(rules) if self.trust_problems else rules
        return self._wanted

    def met(self) -> bool:
        """Return whether the wanted rules are in force. The comparison, which takes time, is made once per change."""
        if self._met is None:
            self._met = self.in_force == self.wanted()
        return self._met

    def covers(self, card: Card | None) -> bool:
        """Return whether the rules in force keep the card's user data from leaving in the clear."""
        rules = self.in_force
        return (
            card is not None
            and rules is not None
            and card.locator in rules.locators
            and all(address in rules.protected for address in addresses(card))
        )

    @property
    def closed_by_doubt(self) -> bool:
        """Unknown nodes are closed although the policy opens them: one of them may be a peer whose card is refused."""
        opened = self._policy.unknown_nodes is UnknownNodes.ALLOW or bool(self._policy.bypass)
        return bool(self.trust_problems) and opened

    def keep_closed(self, card: Card) -> None:
        """Keep the addresses of a card that was withdrawn closed, where the policy says so."""
        if self._policy.removed_peers is RemovedPeers.DROP:
            self._kept.update(addresses(card))
            self._kept_locators.add(card.locator)
        self.changed()

    def bar(self, channel: Channel) -> None:
        """End user data with a removed peer at once, although its SAs end when the peer has confirmed it.

        Without any it may have one in a moment, until the IKE daemon has forgotten its configuration.
        """
        if channel.card is not None:
            self._barred[channel.name] = frozenset(addresses(channel.card))
            self.changed()

    def unbar(self, name: str) -> None:
        """Forget a removed peer: the IKE daemon has nothing of it any more, or it is trusted again."""
        if self._barred.pop(name, None) is not None:
            self.changed()

    def applied(self, rules: RulesSpec) -> None:
        """Take the rules that the kernel was given."""
        self.in_force, self._met, self._seen = rules, None, True

    def observed(self, rules: RulesSpec | None) -> None:
        """Take the rules as read back. Those of an earlier run hold the addresses of peers removed before."""
        self.in_force, self._met = rules, None
        if rules is not None and not self._seen and self._policy.removed_peers is RemovedPeers.DROP:
            mesh = mesh_networks(self._policy.mesh_prefixes, self._node.ipv4)
            self._kept |= {address for address in rules.protected if stays_closed(address, mesh)}
            self._kept_locators |= rules.locators
            self.changed()
        self._seen = True

    def doubts(self, problems: tuple[str, ...]) -> None:
        """Take what is wrong with the trust store: a card that cannot be read may be that of any address."""
        self.trust_problems = problems
        self.changed()

    def _of_peers(self) -> RulesSpec:
        """Return the rules for the cards in force and for removed peers.

        What a card in force speaks for is not barred: a removed peer may have come back under another name.
        """
        cards = [channel.card for channel in self._channels.values() if channel.card is not None]
        trusted = {address for card in cards for address in addresses(card)}
        locators = self._kept_locators | {card.locator for card in cards}
        rules = rules_spec(self._node, self._kept | trusted, locators, self._backend, self._policy)
        barred = frozenset[Address]().union(*self._barred.values()) - trusted
        behind = self.networks.behind(self._cards_by_peer())
        rules = replace(rules, barred=barred, behind=behind, joints=self.joints(), joins=self.joins)
        if self.opening is not None and self.opening.peer in {endpoint(card, self._backend) for card in cards}:
            rules = replace(rules, opening=self.opening)
        return with_overlay(rules, self._device, (card.address for card in cards))

    def joints(self) -> tuple[Joint, ...]:
        """Return the paths of the links to those who are trusted now. During a change of keys the present ones hold."""
        cards = {channel.title: channel.card for channel in self._channels.values() if channel.card is not None}
        return paths.all_joints(self._node, cards, self.linked)

    def _cards_by_peer(self) -> dict[str, list[Card]]:
        """Return the cards in force by the peers' names; several of a pair whose keys are being changed (ADR 0041)."""
        cards: dict[str, list[Card]] = {}
        for channel in self._channels.values():
            if channel.card is not None:
                cards.setdefault(peer_name(channel.title), []).append(channel.card)
        return cards
