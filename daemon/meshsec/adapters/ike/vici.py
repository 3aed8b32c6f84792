"""Drive charon through VICI, strongSwan's Versatile IKE Control Interface (src/libcharon/plugins/vici/README.md).

This module knows the commands and what they mean. ``vici_transport`` carries them, and ``vici_sas`` and
``vici_connections`` translate what they carry.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from meshsec.adapters.ike import vici_connections, vici_sas
from meshsec.adapters.ike.vici_fields import number, subsection, text, texts, yes
from meshsec.adapters.ike.vici_transport import FAILURES, Commands, Events, describe
from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.ike.port import CommandError, DaemonFacts, DaemonIdentity, IkeError, IkeEvent
from meshsec.core.policy.capability import Algorithms
from meshsec.core.values.model import ConnectionSpec, IkeSa

RECONNECT_FIRST = 0.05
RECONNECT_MAX = 0.5
"""Longest interval in seconds between attempts to reach charon; it doubles from the first to this."""

_PRIORITIES = ("critical", "high", "medium", "low")
"""Priorities of charon's jobs; each has its own queue."""


class Vici:
    """A client of one charon. ``run`` keeps the event connection; commands work while charon answers."""

    name = "charon"

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        """Prepare the client of VICI's socket ``path``; ``clock`` returns monotonic seconds and dates SAs."""
        self._path = path
        self._clock = clock
        self._commands = Commands(path)
        self._events = Events(path, clock)
        self.is_gone = False
        """Whether nobody listened at the last attempt: then charon does not run, rather than hang."""

    async def run(
        self,
        on_up: Callable[[DaemonFacts], None],
        on_event: Callable[[IkeEvent], None],
        on_down: Callable[[str], None],
    ) -> None:
        """Stay connected until cancelled: ``on_up`` at each connection, ``on_down`` with the reason at each loss."""
        pause = RECONNECT_FIRST
        while True:
            try:
                async with self._events.open() as received:
                    on_up(await self.facts())
                    pause = RECONNECT_FIRST
                    async for kind, message, arrived in received:
                        for event in vici_sas.events(kind, message, arrived):
                            on_event(event)
            except (IkeError, *FAILURES) as error:
                self.is_gone = isinstance(error, FileNotFoundError | ConnectionRefusedError)
                on_down(f"{self._path}: {describe(error)}")
            self._commands.close()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_MAX)

    def reconnect(self) -> None:
        """Reconnect: charon did not answer a command, so its events are not reliable either."""
        self._events.close()

    def close(self) -> None:
        """Close the pooled connections."""
        self._commands.close()

    async def facts(self) -> DaemonFacts:
        """Return charon's version, identity and load, by a real round trip through its worker threads."""
        made = self._made()
        version, _, pid = await self._commands.run("version", {})
        stats, _, _ = await self._commands.run("stats", {})
        sas = subsection(stats, "ikesas")
        return DaemonFacts(
            identity=DaemonIdentity(pid, made),
            version=text(version, "version"),
            plugins=texts(stats, "plugins"),
            ike_sas=number(sas, "total"),
            half_open=number(sas, "half-open"),
            queued=sum(number(subsection(stats, "queues"), level) for level in _PRIORITIES),
        )

    def _made(self) -> str:
        """Return when charon made its socket, which it does at its start. What it says itself follows the clock."""
        try:
            return str(self._path.stat().st_mtime_ns)
        except OSError as error:
            raise IkeError(f"{self._path}: {error.strerror}") from error

    async def algorithms(self) -> Algorithms | None:
        """Return what charon's plugins can do in IKE; None before strongSwan 5.1, which cannot report it."""
        try:
            answer, _, _ = await self._commands.run("get-algorithms", {})
        except CommandError:
            return None
        return frozenset(name for kind in answer.values() if isinstance(kind, Mapping) for name in kind)

    async def load_keys(self, private_keys: Iterable[bytes]) -> None:
        """Give charon the node's private keys (PKCS#8, PEM or DER) and remove all others. The keys go nowhere else."""
        loaded = [await self._commands.run("load-key", {"type": "any", "data": key}) for key in private_keys]
        ours = {text(answer, "id", "") for answer, _, _ in loaded}
        held, _, _ = await self._commands.run("get-keys", {})
        for other in set(texts(held, "keys")) - ours if all(ours) else ():
            await self._commands.run("unload-key", {"id": other})

    async def load_connection(self, spec: ConnectionSpec, secret: bytes | None = None) -> None:
        """Configure one peer; established SAs are kept and an earlier secret is removed.

        ``secret`` is the pair's, for ``Authentication.SECRET`` or its second one, and goes nowhere else.
        """
        if secret is None:
            await self._forget_secret(spec.name)
        else:
            second = spec.second_secret
            owners = [second.id] if second else [str(spec.local_id), str(spec.remote_id)]
            message = {"id": spec.name, "type": "PPK" if second else "IKE", "data": secret, "owners": owners}
            await self._commands.run("load-shared", message)
        await self._commands.run("load-conn", {spec.name: vici_connections.message(spec)})

    async def unload_connection(self, name: str) -> None:
        """Remove a peer's configuration and close its SAs. An unknown name is no error.

        The SAs are closed by the connection's name, because charon does not list an IKE_SA with very many CHILD_SAs.
        """
        try:
            await self._commands.run("unload-conn", {"name": name})
        except CommandError as error:
            if name in await self.connections():
                raise CommandError(f"unload {name}: {error}") from error
        await self._terminate({"ike": name}, patient=not await self._hides_some())
        await self._forget_secret(name)

    async def _hides_some(self) -> bool:
        """Say whether charon has IKE_SAs that it does not list. The end of a patient DELETE could then not be seen."""
        _, events, _ = await self._commands.run("list-sas", {}, stream="list-sa")
        return (await self.facts()).ike_sas > sum(map(len, events))

    async def _forget_secret(self, name: str) -> None:
        """Remove a connection's secret. If there is none, that is no error."""
        await self._commands.run("unload-shared", {"id": name})

    async def connections(self) -> tuple[str, ...]:
        """Return the names of the connections that charon knows."""
        _, events, _ = await self._commands.run("list-conns", {}, stream="list-conn")
        return tuple(name for event in events for name in event)

    async def configured(self) -> tuple[Configured, ...]:
        """Return the connections as far as charon reports them; it does not report proposals."""
        _, events, _ = await self._commands.run("list-conns", {}, stream="list-conn")
        return tuple(vici_connections.configured(name, section) for event in events for name, section in event.items())

    async def credentials(self) -> Credentials:
        """Return the keys and secrets that charon has, without any private bytes."""
        keys, _, _ = await self._commands.run("get-keys", {})
        secrets, _, _ = await self._commands.run("get-shared", {})
        _, certificates, _ = await self._commands.run("list-certs", {}, stream="list-cert")
        _, authorities, _ = await self._commands.run("list-authorities", {}, stream="list-authority")
        public = [one for one in certificates if text(one, "type", "") == "PUBKEY"]
        others = [text(one, "subject", "without a subject") for one in certificates if one not in public]
        return Credentials(
            private_keys=frozenset(texts(keys, "keys")),
            public_keys=frozenset((text(one, "subject", ""), vici_connections.raw_key(one)) for one in public),
            secrets=frozenset(texts(secrets, "keys")),
            authorities=frozenset([*others, *(name for event in authorities for name in event)]),
        )

    async def ike_sas(self, peer: str = "") -> dict[str, tuple[IkeSa, ...]]:
        """Return the SAs by peer, of all peers or of one. A peer without an SA is left out."""
        _, events, _ = await self._commands.run("list-sas", {"ike": peer} if peer else {}, stream="list-sa")
        found: dict[str, list[IkeSa]] = {}
        for event in events:
            for name, section in vici_sas.named(event):
                found.setdefault(name, []).append(vici_sas.ike_sa(name, section, self._clock()))
        return {name: tuple(sas) for name, sas in found.items()}

    async def initiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA, with its IKE_SA if there is none, and wait until it is established.

        Raises ``CommandError`` if the negotiation failed or took longer than ``seconds``.
        """
        message = {"ike": peer, "child": child, "timeout": round(seconds * 1000), "loglevel": -1}
        await self._commands.run("initiate", message, more=seconds)

    async def terminate(self, unique_id: str, *, patient: bool = False) -> None:
        """Close one IKE_SA with its CHILD_SAs and notify the peer; returns at once. If it is gone already, that is no
        error.

        With ``patient``, charon repeats the DELETE like any request, and the SAs remain until the peer confirms or
        charon gives up (strongswan_conf). Otherwise they go at once and the DELETE is sent once.
        """
        await self._terminate({"ike-id": unique_id}, patient=patient)

    async def _terminate(self, which: Mapping[str, str], *, patient: bool) -> None:
        message = {**which, "force": yes(not patient), "timeout": -1 if patient else 0, "loglevel": -1}
        try:
            await self._commands.run("terminate", message)
        except CommandError as error:
            if "no matching SAs" not in str(error):
                raise

    async def rekey_child(self, unique_id: str, child: str) -> None:
        """Replace a CHILD_SA of one IKE_SA (RFC 7296, section 1.3.3); returns at once. An unknown one is no error.

        A peer that has lost the IKE_SA does not answer; charon then gives up the IKE_SA and reports that.
        """
        try:
            await self._commands.run("rekey", {"ike-id": unique_id, "child": child})
        except CommandError as error:
            if "no matching" not in str(error):
                raise
