"""The networks that other routers announce."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto

from meshsec.core.values.model import Address, Network
from meshsec.core.values.networks import Announcement

MAX_STRANGERS = 4096
"""Announcements of networks for which nobody may speak: they are kept to be shown, up to this number."""


MAX_CLIENTS = 16384
"""Announcements of single addresses in networks for which somebody may speak. The routing daemon keeps fewer, and those
of peers before others (ADR 0052)."""


class Standing(Enum):
    """What an announced network is here."""

    GRANTED = auto()
    """Somebody may speak for it."""
    CLIENT = auto()
    """It is one address of such a network."""
    STRANGE = auto()


class Announcements:
    """Those of networks for which somebody may speak, of single addresses in these, and some of the others."""

    def __init__(self) -> None:
        self._granted: dict[Network, dict[Address, Announcement]] = {}
        self._clients: dict[Network, dict[Address, Announcement]] = {}
        self._strangers: dict[tuple[Network, Address], Announcement] = {}

    def __iter__(self) -> Iterator[Announcement]:
        for announcers in (*self._granted.values(), *self._clients.values()):
            yield from announcers.values()
        yield from self._strangers.values()

    def of(self, network: Network) -> Mapping[Address, Announcement]:
        """Return who announces a network for which somebody may speak, by originator."""
        return self._granted.get(network, {})

    @property
    def clients(self) -> Mapping[Network, Mapping[Address, Announcement]]:
        """Return who announces each single address in a network for which somebody may speak, by originator."""
        return self._clients

    def replace(self, announcements: Iterable[Announcement], standing: Callable[[Network], Standing]) -> None:
        """Take these in the place of all."""
        found = [*announcements]
        self._granted, self._clients, self._strangers = {}, {}, {}
        for one in found:
            self.put(one, standing(one.network))

    def put(self, one: Announcement, standing: Standing) -> None:
        """Add or replace an announcement."""
        if standing is Standing.GRANTED:
            self._granted.setdefault(one.network, {})[one.originator] = one
        elif standing is Standing.CLIENT:
            if one.network in self._clients or len(self._clients) < MAX_CLIENTS:
                self._clients.setdefault(one.network, {})[one.originator] = one
        elif len(self._strangers) < MAX_STRANGERS:
            self._strangers[one.network, one.originator] = one

    def remove(self, network: Network, originator: Address) -> None:
        """Forget an announcement that was withdrawn."""
        self._granted.get(network, {}).pop(originator, None)
        announcers = self._clients.get(network, {})
        announcers.pop(originator, None)
        if not announcers:
            self._clients.pop(network, None)
        self._strangers.pop((network, originator), None)
