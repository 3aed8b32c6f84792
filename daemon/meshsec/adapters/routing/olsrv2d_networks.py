"""Networks in olsrv2d's change stream: those of other routers, and those that this router announces."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec

from meshsec.adapters.routing.mapped import LocalNetwork, as_ipv6, as_meant
from meshsec.core.channels.events import AnnouncementRemoved, AnnouncementSet
from meshsec.core.values.networks import Announcement

PORTION = 256
"""Networks in one line to olsrv2d, which accepts lines of at most 64 KiB."""


class RawAttached(msgspec.Struct):
    """A network of another router as olsrv2d reports it."""

    prefix: str
    originator: str
    distance: int = 0
    metric: int = 1


class RawLocal(msgspec.Struct):
    """A network that olsrv2d announces."""

    prefix: str
    distance: int
    metric: int
    configured: bool = True


_attached = msgspec.json.Decoder(RawAttached)
_local = msgspec.json.Decoder(RawLocal)


class LocalNetworks:
    """What this router is to announce beside its configuration file, and what it announces."""

    def __init__(self) -> None:
        self._wanted: dict[str, LocalNetwork] | None = None
        """By prefix as olsrv2d writes it; None until it is known. What a predecessor attached stays in force."""
        self._by_command: dict[str, RawLocal] = {}

    def want(self, networks: Iterable[LocalNetwork]) -> None:
        """Set what is to be announced."""
        self._wanted = {as_ipv6(one.network): one for one in networks}

    def reset(self, announced: Iterable[RawLocal]) -> None:
        """Take what olsrv2d announces, at a new connection."""
        self._by_command = {one.prefix: one for one in announced if not one.configured}

    def change(self, text: bytes, is_set: bool) -> None:
        """Take a change of what olsrv2d announces."""
        one = _local.decode(text)
        if is_set and not one.configured:
            self._by_command[one.prefix] = one
        else:
            self._by_command.pop(one.prefix, None)

    def lacking(self) -> dict[str, LocalNetwork]:
        """Return what is to be announced and is not, or not so; by prefix as olsrv2d writes it."""
        found = {prefix: (one.distance, one.metric) for prefix, one in self._by_command.items()}
        wanted = (self._wanted or {}).items()
        return {prefix: one for prefix, one in wanted if found.get(prefix) != (one.distance, one.metric)}

    def commands(self) -> Iterator[dict[str, Any]]:
        """Return the commands that make up the difference: new networks first."""
        if self._wanted is None:
            return
        lacking = list(self.lacking().items())
        for start in range(0, len(lacking), PORTION):
            portion = lacking[start : start + PORTION]
            networks = [{"prefix": name, "distance": one.distance, "metric": one.metric} for name, one in portion]
            yield {"command": "attach", "networks": networks}
        superfluous = sorted(self._by_command.keys() - self._wanted.keys())
        for start in range(0, len(superfluous), PORTION):
            yield {"command": "withdraw", "prefixes": superfluous[start : start + PORTION]}


def announcement(raw: RawAttached) -> Announcement:
    """Return another router's network, an IPv4 one as such."""
    return Announcement(as_meant(ip_network(raw.prefix)), ip_address(raw.originator), raw.distance, raw.metric)


def event(text: bytes, is_set: bool) -> AnnouncementSet | AnnouncementRemoved:
    """Translate a change of another router's network."""
    found = announcement(_attached.decode(text))
    return AnnouncementSet(found) if is_set else AnnouncementRemoved(found.network, found.originator)
