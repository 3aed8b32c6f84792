"""The networks that a node asks to speak for by its card (ADR 0062), from its configuration."""

from dataclasses import replace

from meshsec.core.config.networks import configured_networks
from meshsec.core.config.settings import Settings
from meshsec.core.networks.networks import DEFAULTS
from meshsec.core.trust.identity import checked_networks
from meshsec.core.values.model import Card


def offering(card: Card, settings: Settings, chosen: str | None) -> Card:
    """Return the card with the networks that the node announces: at most four, with the way out of a gateway.

    ``chosen`` is the uplink of `meshsec gateway on`, empty after `off`; None: the configuration's counts. Raises
    IdentityError if there are more, or a node may not ask for one of them.
    """
    configured = configured_networks(settings.routing, settings.policy, settings.access)
    own = [*(one.prefix for one in configured.own), *configured.shared]
    if uplink := settings.gateway.uplink if chosen is None else chosen:
        own += [DEFAULTS[version] for version in settings.gateway.by(uplink).versions]
    return replace(card, networks=checked_networks(own))
