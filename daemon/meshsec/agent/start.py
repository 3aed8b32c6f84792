"""What meshsecd is started with, and the engine that follows from it."""

import logging
import random
from dataclasses import dataclass
from pathlib import Path

from meshsec.adapters.files import gateway_store
from meshsec.adapters.files.gateway_store import GatewayStoreError
from meshsec.adapters.kernel.esp_probe import EspProbe
from meshsec.agent.sides.trust import Side
from meshsec.core.channels.engine import Engine
from meshsec.core.config.networks import ConfiguredNetworks
from meshsec.core.config.offered_networks import offering
from meshsec.core.config.settings import Settings
from meshsec.core.policy import esp_rank
from meshsec.core.trust.identity import IdentityError
from meshsec.core.values.model import Card

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """The start parameters, all of them checked."""

    config: Path
    settings: Settings
    card: Card
    esp: EspProbe
    sides: tuple[Side, ...] = (Side(),)
    """The node's key and, during a change of the key, the next one (ADR 0041)."""
    ended: Card | None = None
    """Card of the key that the present one replaced: its addresses are removed."""
    aes: bool | None = None
    """Whether this processor has AES-GCM instructions; None if that is not known."""

    @property
    def cards(self) -> tuple[Card, ...]:
        """All cards of this node."""
        return (self.card, *(side.card for side in self.sides[1:] if side.card))


def configured_engine(start: Start, networks: ConfiguredNetworks, overlay_device: str) -> Engine:
    """Return the engine with what the configuration says of networks, links and keys."""
    policy = esp_rank.applied(start.settings.policy, start.aes)
    engine = Engine(start.card, start.esp.backend, policy, random.random, overlay_device)
    rules = engine.known.rules
    rules.perimeter = networks.perimeter
    rules.next_node = start.cards[1] if start.cards[1:] else None
    rules.linked = frozenset(link.peer for link in start.settings.links)
    engine.known.networks.configure(
        (one.prefix for one in networks.own),
        networks.grants,
        networks.mesh,
        selected=networks.selected,
        shared=networks.shared,
    )
    return engine


def offered(start: Start) -> Card:
    """Return this node's card with the networks that it asks to speak for, or without if a card cannot have them."""
    try:
        chosen = gateway_store.load(Path(start.settings.paths.gateway))
        return offering(start.card, start.settings, chosen)
    except (IdentityError, GatewayStoreError) as error:
        _log.debug("requests to join ask for no network: %s", error)
        return start.card
