"""Drive libreswan's pluto with its programs ``whack`` and ``addconn`` (ipsec_whack(8), ipsec_addconn(8); 4.10 and 5.2).

Theory of operation. pluto sends no events: meshsecd polls its SAs every second, and more often during a negotiation.
``whack`` runs the programs, ``pluto_configuration`` has what pluto is to load, and ``pluto_states`` has its SAs.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from meshsec.adapters.ike import pluto_sas, pluto_status
from meshsec.adapters.ike.causes import no_answer
from meshsec.adapters.ike.pluto_configuration import PlutoConfiguration, peer_of
from meshsec.adapters.ike.pluto_states import LOOK_AT_REST, LOOK_QUICK, PlutoStates, changes
from meshsec.adapters.ike.pluto_status import State, conn_name, is_given_up
from meshsec.adapters.ike.whack import EXECUTABLES, Whack, last, understood
from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.ike.libreswan_suites import ALGORITHMS
from meshsec.core.ike.port import CommandError, DaemonFacts, DaemonIdentity, IkeError, IkeEvent
from meshsec.core.policy.capability import Algorithms
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import ConnectionSpec, IkeSa

RECONNECT = 0.5
"""Seconds between attempts to reach pluto."""


class _OverError(Exception):
    """pluto was restarted or did not answer, so the client must reconnect."""


class Pluto:
    """A client of one pluto. ``run`` follows it; commands work while pluto answers."""

    name = "pluto"

    def __init__(
        self,
        control: Path,
        clock: Callable[[], float],
        packets: Callable[[], Awaitable[Mapping[str, int]]],
        executables: Path = EXECUTABLES,
    ) -> None:
        """Prepare the client of the pluto at socket ``control``, in a directory that meshsecd uses too.

        ``clock`` returns monotonic seconds. ``packets`` reads the kernel's counters by SPI; it may raise OSError.
        """
        self._clock = clock
        self._packets = packets
        self._whack = Whack(control, executables)
        self._states = PlutoStates(self._whack, clock)
        self._configuration = PlutoConfiguration(control.parent, self._whack)
        self._negotiating = 0
        self._anew = asyncio.Event()
        self._version: tuple[DaemonIdentity, str] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nobody listened at the last attempt: then pluto does not run, rather than hang."""
        return self._whack.is_gone

    async def run(
        self,
        on_up: Callable[[DaemonFacts], None],
        on_event: Callable[[IkeEvent], None],
        on_down: Callable[[str], None],
    ) -> None:
        """Follow pluto until cancelled: ``on_up`` at each connection, ``on_down`` with the reason at each loss."""
        while True:
            self._anew.clear()
            try:
                identity, states = self._whack.identity(), await self._states.all()
                on_up(await self.facts())
                await self._follow(identity, states, on_event)
            except (IkeError, _OverError) as error:
                on_down(str(error))
            self._configuration.forget()
            self._states.initiated.clear()
            await asyncio.sleep(RECONNECT)

    async def _follow(
        self, identity: DaemonIdentity, before: tuple[State, ...], on_event: Callable[[IkeEvent], None]
    ) -> None:
        while True:
            is_busy = self._negotiating or any(state.is_half_open for state in before)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._anew.wait(), LOOK_QUICK if is_busy else LOOK_AT_REST)
            if self._anew.is_set():
                raise _OverError("pluto did not answer a command")
            if self._whack.identity() != identity:
                raise _OverError("pluto was started again")
            now = await self._states.all()
            self._states.initiated |= {state.serial for state in now if state.is_initiated}
            for event in changes(before, now):
                on_event(event)
            before = now

    def reconnect(self) -> None:
        """Reconnect, because pluto did not answer a command."""
        self._anew.set()

    def close(self) -> None:
        """Do nothing: no connection stays open between commands."""

    async def facts(self) -> DaemonFacts:
        """Return pluto's version and identity and the number of our IKE_SAs, by a real round trip."""
        identity, states = self._whack.identity(), await self._states.all()
        if self._version is None or self._version[0] != identity:
            self._version = identity, understood(pluto_status.version, await self._whack.command("--status"))
        half_open = sum(state.is_half_open for state in states)
        established = sum(state.is_ike_sa for state in states)
        return DaemonFacts(identity, self._version[1], (), established + half_open, half_open)

    async def algorithms(self) -> Algorithms | None:
        """Return what libreswan can do in IKE; its programs do not report it."""
        return ALGORITHMS

    async def load_keys(self, private_keys: Iterable[bytes]) -> None:
        """Do nothing: pluto has no Ed25519, and secrets come with each connection."""

    async def load_connection(self, spec: ConnectionSpec, secret: bytes | None = None) -> None:
        """Configure one peer. Its SAs survive only if pluto has exactly this configuration already."""
        if secret is None:
            raise CommandError(f"{spec.name}: pluto authenticates by the pair's secret alone (ADR 0042)")
        await self._states.settle(spec.name)
        await self._configuration.load(spec, secret)

    async def unload_connection(self, name: str) -> None:
        """Remove a peer's configuration, secret and SAs. An unknown name is no error."""
        await self._states.settle(name)
        await self._configuration.unload(name)

    async def connections(self) -> tuple[str, ...]:
        """Return the names of the peers that pluto knows. Leftover files of others are removed."""
        return await self._configuration.peers()

    async def configured(self) -> tuple[Configured, ...]:
        """Return pluto's configuration of our peers; connections with other names are not ours."""
        return understood(pluto_status.configured, await self._whack.command("--status"))

    async def credentials(self) -> Credentials:
        """Return the peers whose secrets pluto has, or both identities if there is no such peer. It has no keys."""
        status, psks = await self._whack.command("--status"), await self._whack.command("--listpsks")
        peers = {frozenset((one.local_id, one.remote_id)): one.name for one in pluto_status.configured(status)}
        names = (peers.get(who) or " and ".join(sorted(who)) for who in pluto_status.secrets(psks))
        return Credentials(private_keys=None, secrets=frozenset(names))

    async def ike_sas(self, peer: str = "") -> dict[str, tuple[IkeSa, ...]]:
        """Return the SAs by peer, of all peers or of one. A peer without an SA is left out."""
        outputs = await self._whack.command("--status"), await self._whack.command("--trafficstatus")
        sas = understood(pluto_sas.ike_sas, *outputs, self._clock(), time.time(), self._states.initiated)
        packets = await self._counted()
        return {name: pluto_sas.counted(own, packets) for name, own in sas.items() if peer in ("", name)}

    async def _counted(self) -> Mapping[str, int]:
        try:
            return await self._packets()
        except OSError as error:
            raise IkeError(f"packets of pluto's SAs: {error}") from error

    async def initiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA, with its IKE_SA if there is none, and wait until it is established.

        Raises ``CommandError`` if that failed or took longer than ``seconds``; pluto then does not continue.
        """
        conn, said = conn_name(peer, child), list[str]()
        if await self._states.comes(peer, conn):
            return
        self._negotiating += 1
        try:
            await self._whack.run("whack", "--initiate", "--name", conn, within=seconds, said=said, until=is_given_up)
            cause = pluto_status.failure(said) or Cause(last(said))
        except TimeoutError:
            cause = pluto_status.failure(said) or no_answer(seconds)
        finally:
            self._negotiating -= 1
        if (begun := pluto_status.initiated(said)) is not None:
            self._states.initiated.add(begun)
        if not await self._states.has_child(conn):
            await self._states.settle(peer)
            await self._states.let_go(conn)
            if pluto_status.lacks_address(said):
                await self._whack.listen()
            raise CommandError(cause.words, cause.kind)

    async def terminate(self, unique_id: str, *, patient: bool = False) -> None:  # noqa: ARG002  (the port has it)
        """Close one IKE_SA with its CHILD_SAs and notify the peer. An unknown one is no error.

        Returns at once, unless another SA must go first (``PlutoStates.settle``). ``patient`` has no effect: pluto's
        version decides.

        If two IKE_SAs crossed, each pluto makes its own again as soon as it is closed, without end, and the peer may
        have closed the other. So both are closed, and pluto stops keeping them up.
        """
        states = await self._states.all()
        own = next((state for state in states if str(state.serial) == unique_id), None)
        if own is None:
            return
        peer = peer_of(own.conn)
        kept = [one for one in states if one.is_ike_sa and one is not own and peer_of(one.conn) == peer]
        goes_for_all = not kept or await self._states.would_return(own, kept, states)
        if goes_for_all:
            await self._states.settle(peer)
            for conn in sorted(await self._configuration.ours(), reverse=True):
                if peer_of(conn) == peer:
                    await self._states.let_go(conn)
        for one in (own, *(kept if goes_for_all else ())):
            await self._whack.command("--deletestate", str(one.serial), "--asynchronous")

    async def rekey_child(self, unique_id: str, child: str) -> None:
        """Let pluto replace a CHILD_SA of one IKE_SA (RFC 7296, section 1.3.3). An unknown one is no error."""
        own = next((state for state in await self._states.all() if str(state.serial) == unique_id), None)
        if own is not None:
            option = "--rekey-ipsec" if (await self.facts()).version.startswith("4.") else "--rekey-child"
            await self._whack.command(option, "--asynchronous", "--name", conn_name(peer_of(own.conn), child))
