"""The networks that other routers announce."""

from collections.abc import Container, Iterable, Iterator, Mapping

from meshsec.core.values.model import Address, Network
from meshsec.core.values.networks import Announcement

MAX_STRANGERS = 4096
"""Announcements of networks for which nobody may speak: they are kept to be shown, up to this number."""


class Announcements:
    """Those of networks for which somebody may speak, and some of the others."""

    def __init__(self) -> None:
        self._granted: dict[Network, dict[Address, Announcement]] = {}
        self._strangers: dict[tuple[Network, Address], Announcement] = {}

    def __iter__(self) -> Iterator[Announcement]:
        for announcers in self._granted.values():
            yield from announcers.values()
        yield from self._strangers.values()

    def of(self, network: Network) -> Mapping[Address, Announcement]:
        """Return who announces a network for which somebody may speak, by originator."""
        return self._granted.get(network, {})

    def replace(self, announcements: Iterable[Announcement], grants: Container[Network]) -> None:
        """Take these in the place of all. ``grants`` has the networks for which somebody may speak."""
        found = [*announcements]
        self._granted, self._strangers = {}, {}
        for one in found:
            self.put(one, grants)

    def put(self, one: Announcement, grants: Container[Network]) -> None:
        """Add or replace an announcement."""
        if one.network in grants:
            self._granted.setdefault(one.network, {})[one.originator] = one
        elif len(self._strangers) < MAX_STRANGERS:
            self._strangers[one.network, one.originator] = one

    def remove(self, network: Network, originator: Address) -> None:
        """Forget an announcement that was withdrawn."""
        self._granted.get(network, {}).pop(originator, None)
        self._strangers.pop((network, originator), None)
