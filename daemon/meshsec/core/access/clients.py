"""Which node serves each client, as the access nodes agree on it.

Theory of operation. A client is known by its MAC address. The node that sees it serves it, says so to the other access
nodes through their protected channels, and counts the move: of two claims the one with the higher number counts. So no
node has to be asked first, and a node that was away learns the newest claim with its next word to any other.

Addresses belong to who had them first (RFC 6620). A client has few of them and a node few clients, so that neither can
take what others need. A client that has left is forgotten after a while, by the node that served it and by the others.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.core.values.model import Address, Network

PER_CLIENT = {4: 1, 6: 6}
"""Addresses of a client by IP version. A phone uses a few IPv6 addresses at a time, a new one each day (RFC 8981)."""
FORGET = 3600.0
"""Seconds after which a client that is not seen any more is forgotten."""
LATE = 1.0
"""Seconds for which a node ignores frames of a client that another node took over: they were on their way before."""
RENAMED = 60.0
"""Seconds for which a client keeps a new name, whatever it says. Each change costs a message to every peer."""
NUMBER_MAX = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Client:
    """What is known of a client since its last move."""

    mac: str
    """Six octets in hexadecimal, with colons."""
    node: IPv6Address
    """Who serves it."""
    number: int
    """Moves and changes of its addresses until now."""
    addresses: tuple[Address, ...] = ()
    """The newest last; none: the client has left."""
    name: str = ""
    """The label by which it calls itself; empty: it has told none. It moves with the client."""

    @property
    def rank(self) -> tuple[int, IPv6Address]:
        """Return what decides which of two claims counts."""
        return self.number, self.node


class Sighting(NamedTuple):
    """A frame of a client at this node."""

    mac: str
    address: Address | None = None
    """The address that the client uses or asks for; None: the frame does not say."""
    arrives: bool = False
    """An access point says that the client has come."""
    name: str = ""
    """The label by which the client calls itself; empty: nobody knows."""


class Refused(NamedTuple):
    """A sighting that does not count."""

    mac: str
    reason: str


@dataclass(slots=True)
class _Kept:
    client: Client
    seen: float
    """Seconds, when this node last saw the client or last heard of it."""
    lost: float = float("-inf")
    """When another node took it over from this one."""
    absent: bool = False
    """Another node says that this one serves it, but this one has not seen it since its own start."""
    named: float = float("-inf")
    """When its name last changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a sighting or a word of another node changes."""

    client: Client
    before: Client | None = None


class Clients:
    """The clients of all access nodes."""

    def __init__(
        self, own: IPv6Address, networks: Collection[Network], reserved: Collection[Address], most: int
    ) -> None:
        """Prepare the record. ``own`` is this node, ``networks`` are the clients', ``reserved`` the addresses of the
        nodes in them, and ``most`` is the largest number of clients of one node.
        """
        self._own, self._networks, self._reserved, self._most = own, networks, reserved, most
        self.nodes: frozenset[IPv6Address] = frozenset()
        """The other access nodes: nobody else serves a client."""
        self._kept: dict[str, _Kept] = {}
        self._holders: dict[Address, str] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter([kept.client for kept in self._kept.values()])

    def of(self, mac: str) -> Client | None:
        """Return what is known of a client."""
        kept = self._kept.get(mac)
        return kept.client if kept else None

    @property
    def served(self) -> list[Client]:
        """Return the clients that this node serves."""
        return [kept.client for kept in self._kept.values() if self._is_served(kept) and kept.client.addresses]

    @property
    def elsewhere(self) -> dict[Address, IPv6Address]:
        """Return who serves each client's address that this node does not serve."""
        others = (kept.client for kept in self._kept.values() if kept.client.node != self._own)
        return {address: client.node for client in others for address in client.addresses}

    def sighted(self, sighting: Sighting, now: float) -> Change | Refused | None:
        """Take a frame of a client at this node; None: nothing changes."""
        kept = self._kept.get(sighting.mac)
        if kept is None:
            new = Client(sighting.mac, self._own, 0, name=sighting.name)
            return None if sighting.address is None else self._moved(new, sighting, now)
        client = _renamed(kept, sighting.name, now)
        if self._is_served(kept):
            kept.seen = now
            if sighting.address not in (None, *client.addresses):
                return self._with_address(client, sighting, now)
            return None if client is kept.client else self._keep(replace(client, number=client.number + 1), now)
        is_late = kept.client.node != self._own and now - kept.lost < LATE
        return None if is_late and not sighting.arrives else self._moved(client, sighting, now)

    def heard(self, client: Client, sender: IPv6Address, now: float) -> list[Change]:
        """Take the word of another access node. Return what changes; this node's own clients are to be told of."""
        kept = self._kept.get(client.mac)
        if client.node != self._own and client.node not in self.nodes:
            return []
        if kept is not None and client.rank <= kept.client.rank:
            if client == kept.client and client.node == sender:
                kept.seen = now
            return []
        if client.node == self._own and kept is not None and self._is_served(kept):
            # This node has restarted and counts from one. It goes on from the number that the others know.
            name = kept.client.name or client.name
            return [self._keep(replace(kept.client, number=client.number + 1, name=name), now)]
        if kept is None and self._number_of(client.node) >= self._most:
            return []
        allowed = tuple(one for one in client.addresses if self._is_ours(one))
        clashes = [one for one in allowed if self._holders.get(one, client.mac) != client.mac]
        taken = [one for one in clashes if client.mac < self._holders[one]]
        changes = [change for one in taken if (change := self._release(one, now))]
        kept_addresses = tuple(one for one in allowed if one not in clashes or one in taken)
        absent = client.node == self._own
        return [*changes, self._keep(replace(client, addresses=kept_addresses), now, absent=absent)]

    def forget(self, now: float) -> list[Change]:
        """Forget the clients that have left. Return those of this node, which the others are to be told of."""
        gone = [kept.client for kept in self._kept.values() if now - kept.seen >= FORGET]
        changes = []
        for client in gone:
            if client.node == self._own and client.addresses:
                changes.append(self._keep(replace(client, number=client.number + 1, addresses=()), now))
            else:
                del self._kept[client.mac]
                for address in client.addresses:
                    del self._holders[address]
        return changes

    # --- parts ---

    def _moved(self, client: Client, sighting: Sighting, now: float) -> Change | Refused:
        """Take a client that this node has not served until now."""
        if len(self.served) >= self._most:
            return Refused(sighting.mac, f"this node has {self._most} clients already")
        here = replace(client, node=self._own)
        if sighting.address in (None, *client.addresses):
            return self._keep(replace(here, number=here.number + 1), now)
        return self._with_address(here, sighting, now)

    def _with_address(self, client: Client, sighting: Sighting, now: float) -> Change | Refused:
        address = sighting.address
        if address is None or (reason := self._refusal(sighting.mac, address)):
            return Refused(sighting.mac, reason)
        addresses = _with(client.addresses, address)
        return self._keep(replace(client, number=client.number + 1, addresses=addresses), now)

    def _keep(self, client: Client, now: float, *, absent: bool = False) -> Change:
        kept = self._kept.get(client.mac)
        before = kept.client if kept else None
        for address in before.addresses if before else ():
            self._holders.pop(address, None)
        self._holders |= dict.fromkeys(client.addresses, client.mac)
        loses = before is not None and before.node == self._own and client.node != self._own
        lost = now if loses else kept.lost if kept else float("-inf")
        named = kept.named if kept and kept.client.name == client.name else now if client.name else float("-inf")
        self._kept[client.mac] = _Kept(client, now, lost, absent, named)
        return Change(client, before)

    def _release(self, address: Address, now: float) -> Change | None:
        """Take an address from its holder, for one whose MAC address is lower: all nodes decide the same."""
        kept = self._kept[self._holders[address]]
        rest = tuple(one for one in kept.client.addresses if one != address)
        is_own = kept.client.node == self._own
        number = kept.client.number + (1 if is_own else 0)
        change = self._keep(replace(kept.client, number=number, addresses=rest), now)
        return change if is_own else None

    def _refusal(self, mac: str, address: Address) -> str:
        if address in self._reserved:
            return f"{address} is the address of the nodes"
        if not self._is_ours(address):
            return f"{address} is in no network of clients"
        holder = self._holders.get(address, mac)
        return "" if holder == mac else f"{address} belongs to {holder}"

    def _is_ours(self, address: Address) -> bool:
        ends = {end for one in self._networks for end in (one.network_address, one.broadcast_address)}
        unusable = address in self._reserved or address in ends
        return not unusable and any(address in one for one in self._networks)

    def _is_served(self, kept: _Kept) -> bool:
        return kept.client.node == self._own and not kept.absent

    def _number_of(self, node: IPv6Address) -> int:
        return sum(kept.client.node == node for kept in self._kept.values())


def _renamed(kept: _Kept, name: str, now: float) -> Client:
    """Return a client with the name that it has told, or as it is: it may tell another one from time to time."""
    is_new = name not in ("", kept.client.name) and now - kept.named >= RENAMED
    return replace(kept.client, name=name) if is_new else kept.client


def _with(addresses: tuple[Address, ...], new: Address) -> tuple[Address, ...]:
    """Return the addresses with a new one, which takes the place of the oldest where there are too many."""
    same = [one for one in addresses if one.version == new.version]
    dropped = same[: max(0, len(same) + 1 - PER_CLIENT[new.version])]
    return (*(one for one in addresses if one not in dropped), new)
