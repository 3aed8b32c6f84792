"""The SAs that pluto has for our connections, which it calls states."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from meshsec.adapters.ike import pluto_sas, pluto_status
from meshsec.adapters.ike.pluto_configuration import peer_of
from meshsec.adapters.ike.pluto_status import ESTABLISHED, State, peer_and_child
from meshsec.adapters.ike.whack import Whack, understood
from meshsec.core.ike.port import SaChanged

LOOK_AT_REST = 1.0
LOOK_QUICK = 0.1
"""Polling intervals of pluto's SAs in seconds: normally, and during a negotiation."""

PEERS_TURN = 2.0
"""Seconds that a peer gets to make the CHILD_SAs of an IKE_SA that it has begun."""

LEAVE_TIMEOUT = 15.0
"""Seconds to wait for the end of a superseded IKE_SA: pluto repeats an unanswered DELETE for 12 s."""


class PlutoStates:
    """Reads them, knows which IKE_SAs this node initiated, and ends those that must go before others."""

    def __init__(self, whack: Whack, clock: Callable[[], float]) -> None:
        self._whack = whack
        self._clock = clock
        self.initiated: set[int] = set()
        """Numbers of the IKE_SAs that this node initiated."""

    async def all(self) -> tuple[State, ...]:
        """Return the states of our connections."""
        states = understood(pluto_status.states, await self._whack.command("--showstates"))
        return tuple(state for state in states if peer_and_child(state.conn))

    async def has_child(self, conn: str) -> bool:
        """Return whether the CHILD_SA of a connection is established."""
        return any(state.is_child_sa and state.conn == conn for state in await self.all())

    async def comes(self, peer: str, conn: str) -> bool:
        """Return whether it is established or the peer makes it; 4.10 fails if both ends do so at once (ADR 0044)."""
        ends = self._clock() + PEERS_TURN
        while not await self.has_child(conn):
            if self._clock() >= ends or not await self._is_peers(peer):
                return False
            await asyncio.sleep(LOOK_QUICK)
        return True

    async def _is_peers(self, peer: str) -> bool:
        """Return whether the peer has initiated an established IKE_SA."""
        ike_sas = {state.serial for state in await self.all() if state.is_ike_sa and peer_of(state.conn) == peer}
        return bool(ike_sas - self.initiated)

    async def let_go(self, conn: str) -> None:
        """Stop pluto from keeping a connection up, which it does after each ``--initiate``."""
        await self._whack.command("--terminate", "--asynchronous", "--name", conn)

    async def settle(self, peer: str) -> None:
        """Wait until no SA of a peer can crash 5.2 when its connection is removed or ended (ADR 0044)."""
        ends = self._clock() + LEAVE_TIMEOUT
        asked: set[int] = set()
        while (fatal := pluto_sas.fatal(await self.all(), peer)) and self._clock() < ends:
            for serial in fatal - asked:
                await self._whack.command("--deletestate", str(serial), "--asynchronous")
            asked |= fatal
            await asyncio.sleep(LOOK_AT_REST)

    async def would_return(self, own: State, kept: Sequence[State], states: Iterable[State]) -> bool:
        """Return whether pluto, here or at the peer, would make an IKE_SA again after it is closed.

        It would not if the IKE_SA was rekeyed and has no CHILD_SAs, or if its connection has a newer one.
        """
        carries = any(one.is_child_sa and one.ike == own.serial for one in states)
        is_newest = all(one.serial < own.serial for one in kept if one.conn == own.conn)
        return carries and is_newest and await self._keeps_up(peer_of(own.conn))

    async def _keeps_up(self, peer: str) -> bool:
        """Return whether pluto by itself makes this peer's SAs again when they end."""
        known = await self._whack.connections()
        return any(conn.is_kept_up for name, conn in known.items() if peer_of(name) == peer)


def changes(before: Iterable[State], now: Iterable[State]) -> Iterator[SaChanged]:
    """Return what changed in each peer's SAs between two polls."""
    old, new = _by_peer(before), _by_peer(now)
    for peer in old.keys() | new.keys():
        was, remains = old.get(peer, frozenset()), new.get(peer, frozenset())
        if any(name == ESTABLISHED for _, name, _ in was) and not any(name == ESTABLISHED for _, name, _ in remains):
            yield SaChanged(peer, "ike-updown", up=False)
        elif was != remains:
            yield SaChanged(peer, "child-updown", up=bool(remains))


def _by_peer(states: Iterable[State]) -> dict[str, frozenset[tuple[int, str, str]]]:
    """Return the values of the SAs that are compared, by peer."""
    found: dict[str, frozenset[tuple[int, str, str]]] = {}
    for state in states:
        peer = peer_of(state.conn)
        found[peer] = found.get(peer, frozenset()) | {(state.serial, state.name, state.spi_in)}
    return found
