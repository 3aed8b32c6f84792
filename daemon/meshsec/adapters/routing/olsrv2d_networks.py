"""Networks in olsrv2d's change stream: those of other routers, and those that this router announces.

A protected network is announced as IPv6 whatever it is: an IPv4 network as ``::ffff:10.1.0.0/112`` (IPv4-mapped, RFC
4291, section 2.5.5.2). So it is known in meshes whose nodes have no IPv4 address, and no router routes to it.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

import msgspec

from meshsec.core.channels.events import AnnouncementRemoved, AnnouncementSet
from meshsec.core.values.model import Network
from meshsec.core.values.networks import Announcement

PORTION = 256
"""Networks in one line to olsrv2d, which accepts lines of at most 64 KiB."""
_MAPPED = IPv6Network("::ffff:0:0/96")


class LocalNetwork(NamedTuple):
    """A network that this node announces."""

    network: Network
    distance: int
    metric: int


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
        self._wanted = {_as_ipv6(one.network): one for one in networks}

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
    network: Network = ip_network(raw.prefix)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        network = IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - _MAPPED.prefixlen))
    return Announcement(network, ip_address(raw.originator), raw.distance, raw.metric)


def event(text: bytes, is_set: bool) -> AnnouncementSet | AnnouncementRemoved:
    """Translate a change of another router's network."""
    found = announcement(_attached.decode(text))
    return AnnouncementSet(found) if is_set else AnnouncementRemoved(found.network, found.originator)


def _as_ipv6(network: Network) -> str:
    """Return a network as it is announced, in olsrv2d's notation."""
    if isinstance(network, IPv6Network):
        return str(network)
    return f"::ffff:{network.network_address}/{_MAPPED.prefixlen + network.prefixlen}"
