"""The side of the agent that says by which names nodes and their clients are known here (ADR 0071, ADR 0078).

It writes them into a file of its own. `meshsec hosts` puts them into /etc/hosts, and the dnsmasq of an access node
reads the same file, so that meshsecd needs no further privilege. What peers have said of their clients is kept in that
file while meshsecd is away, and while a peer is not in reach.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address
from pathlib import Path

from meshsec import files
from meshsec.agent.sides.written_file import WrittenFile
from meshsec.core.channels.client_names import admitted, elsewhere, of_nodes
from meshsec.core.channels.situation import Situation
from meshsec.core.formats import hosts
from meshsec.core.names.names import Told, named, of_clients
from meshsec.core.values.host_names import ClientName
from meshsec.core.values.model import Address, Card, Peer, peer_name

AGAIN = 5.0
"""Seconds until the next attempt after a failure."""
PACE = 2.0
"""Seconds between two writings for clients alone: peers that say much wear out no disk. Trust takes effect at once."""
LIMIT = 4 << 20
"""Bytes of the file: thousands of nodes fit."""

_log = logging.getLogger(__name__)


class NamesSide:
    """The file with the names."""

    def __init__(self, path: Path, own: Sequence[Card], known: Situation) -> None:
        """``own`` are the cards of this node's keys, the present one's first."""
        self._file = WrittenFile(path, "names")
        self._own, self._known = own, known
        self._peers: tuple[Peer, ...] = ()
        self._heard: dict[IPv6Address, tuple[ClientName, ...]] = {}
        """What peers have said since meshsecd's start, the newest last."""
        self._before: Mapping[str, tuple[ClientName, ...]] = {}
        """What they had said before, by the names of the nodes, for as long as these are trusted."""
        self._clients: tuple[ClientName, ...] = ()
        self._seen: tuple[object, object] = (None, None)
        """The situation by which clients were judged last."""
        self._nodes = ""
        """The lines of nodes. Those of clients are made when they are written, which peers cannot hasten."""
        self._by_address: Mapping[Address, str] = {}
        """The names of clients as they were written last."""
        self._changed = asyncio.Event()

    @property
    def problem(self) -> str:
        """Why the file is not what it ought to be; empty: it is."""
        return self._file.problem

    async def load(self) -> None:
        """Take over what peers and clients had said before meshsecd's start."""
        try:
            if files.exists(self._file.path):
                self._before = hosts.clients(hosts.parse(await asyncio.to_thread(files.read, self._file.path, LIMIT)))
        except (files.FileError, hosts.HostsError) as error:
            _log.warning("names: %s: the names of clients are learnt again: %s", self._file.path, error)

    def follow(self, peers: Iterable[Peer]) -> None:
        """Take over the peers in force."""
        self._peers = tuple(peers)
        trusted = {peer.card.address for peer in self._peers}
        self._heard = {address: names for address, names in self._heard.items() if address in trusted}
        nodes = {self._own[0].name, *(peer_name(peer.name) for peer in self._peers)}
        self._before = {node: names for node, names in self._before.items() if node in nodes}
        self._nodes = hosts.render(named(self._own, self._peers))
        self._changed.set()

    def settle(self) -> None:
        """Judge the clients again where they may have moved, after each of the engine's turns."""
        networks = self._known.networks
        seen = networks.installed, networks.clients
        if any(one is not other for one, other in zip(seen, self._seen, strict=True)):
            self._seen = seen
            self._changed.set()

    def of_peer(self, peer: IPv6Address, names: tuple[ClientName, ...]) -> None:
        """Take what the clients of a peer are called. What was said last counts where two name one address."""
        if self._heard.get(peer) != names:
            self._heard.pop(peer, None)
            self._heard[peer] = names
            self._changed.set()

    def of_this_node(self, names: tuple[ClientName, ...]) -> None:
        """Take what the clients of this node are called."""
        if names != self._clients:
            self._clients = names
            self._changed.set()

    def remembered(self, address: Address) -> str:
        """Return what the client of this node with this address was called before meshsecd's start."""
        names = self._before.get(self._own[0].name, ())
        return next((one.label for one in names if address in one.addresses), "")

    def name_of(self, address: Address) -> str:
        """Return the name of the client with this address, with the domain; empty: it has none."""
        return self._by_address.get(address, "")

    def _told(self) -> Iterator[Told]:
        """Yield what nodes say of their clients: this one first, then the peer that said something last."""
        nodes, places = of_nodes(self._own, self._peers), elsewhere(self._known)
        own = self._own[0].name
        yield Told(own, self._clients, lambda address: address not in nodes)
        peers = {peer.card.address: peer for peer in self._peers if peer_name(peer.name) != own}
        for address in (*reversed(self._heard), *(one for one in peers if one not in self._heard)):
            if (peer := peers.get(address)) is not None:
                name = peer_name(peer.name)
                said = self._heard.get(address, self._before.get(name, ()))
                yield Told(name, said, admitted(self._known, peer, nodes, places))

    async def run(self) -> None:
        """Write the file after each change, until cancelled."""
        loop = asyncio.get_running_loop()
        written, nodes, not_before = "", "", 0.0
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._nodes == nodes and (seconds := not_before - loop.time()) > 0:
                await self._pause(seconds)
            nodes = self._nodes
            clients = of_clients(self._told())
            self._by_address = {address: one.full for one in clients for address in one.addresses}
            wanted = nodes + hosts.render(clients)
            if wanted == written:
                continue
            if await self._file.write(wanted):
                written, not_before = wanted, loop.time() + PACE
            else:
                await asyncio.sleep(AGAIN)
                self._changed.set()

    async def _pause(self, seconds: float) -> None:
        """Wait for a while, or until something changes."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
                self._changed.clear()
        except TimeoutError:
            return
