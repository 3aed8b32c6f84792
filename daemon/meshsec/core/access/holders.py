"""Which client of a node has which name there: a name belongs to who had it first, as an address does."""

from collections.abc import Iterable

from meshsec.core.access.clients import Client
from meshsec.core.values.host_names import ClientName


class Holders:
    """The names of a node's clients."""

    def __init__(self) -> None:
        self._macs: dict[str, str] = {}
        """Whose each name is, by MAC address."""

    def settle(self, served: Iterable[Client]) -> tuple[ClientName, ...]:
        """Return the names of the clients that this node serves now. A second one of the same name has none."""
        calling = {client.mac: client for client in served if client.name}
        kept = {name: mac for name, mac in self._macs.items() if mac in calling and calling[mac].name == name}
        for client in calling.values():
            kept.setdefault(client.name, client.mac)
        self._macs = kept
        return tuple(sorted(ClientName(name, calling[mac].addresses) for name, mac in kept.items()))
