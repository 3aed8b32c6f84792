"""Read the networks around the node, by which cards' IPv4 addresses are checked (core/channels/ipv4_claims.py)."""

import logging
from collections.abc import Collection, Sequence

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.netlink import NetlinkError
from meshsec.core.channels.ipv4_claims import Elsewhere, Surroundings, mesh_networks
from meshsec.core.channels.nft_rules import TUN_DEVICE
from meshsec.core.config.settings import Settings
from meshsec.core.values.model import Address, Card

_log = logging.getLogger(__name__)


class Around:
    """Read the kernel's IPv4 routes and addresses. If that fails, the last result counts."""

    def __init__(self, settings: Settings, cards: Sequence[Card]) -> None:
        """Prepare it; ``cards`` are this node's."""
        self._mesh = mesh_networks(settings.policy.mesh_prefixes, settings.node.ipv4)
        self._inside = mesh_devices(settings)
        self._own: Collection[Address] = {card.ipv4 for card in cards if card.ipv4}
        self._elsewhere: tuple[Elsewhere, ...] = ()

    async def poll(self) -> Surroundings:
        """Return what is around the node now."""
        try:
            self._elsewhere = await netlink.ipv4_elsewhere(self._inside, self._own)
        except NetlinkError as error:
            _log.warning("peers' IPv4 addresses are judged by the routes that were read last: %s", error)
        return Surroundings(self._mesh, self._elsewhere)


def mesh_devices(settings: Settings) -> frozenset[str]:
    """Return the interfaces that lead to the mesh itself."""
    overlay = [settings.overlay.device] if settings.overlay.enabled else []
    return frozenset({*settings.routing.interfaces, TUN_DEVICE, *overlay})
