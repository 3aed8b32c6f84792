"""Drive libreswan's pluto with its programs ``whack`` and ``addconn`` (ipsec_whack(8), ipsec_addconn(8); 4.10 and 5.2).

Theory of operation. Each CHILD_SA of a peer is one pluto connection, ``meshsec-PEER.CHILD``, loaded by ``addconn`` from
a file of its own. The pair's secret is in another file, which pluto's ``secretsfile`` includes.

Loading a connection again deletes its SAs. So meshsecd loads only what has changed, and SAs outlive meshsecd. pluto
sends no events: meshsecd polls its SAs every second, and more often during a negotiation. ``whack`` waits for pluto's
answer, so each command is a round trip with a deadline.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from meshsec import files
from meshsec.adapters.ike import pluto_sas, pluto_status
from meshsec.adapters.ike.causes import no_answer
from meshsec.adapters.ike.pluto_status import ESTABLISHED, State, StatusError, conn_name, is_given_up, peer_and_child
from meshsec.core.formats import libreswan
from meshsec.core.ike.drift import Configured, Credentials
from meshsec.core.ike.libreswan_suites import ALGORITHMS
from meshsec.core.ike.port import CommandError, DaemonFacts, DaemonIdentity, IkeError, IkeEvent, SaChanged
from meshsec.core.policy.capability import Algorithms
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import ChildSpec, ConnectionSpec, IkeSa

T = TypeVar("T")

_log = logging.getLogger(__name__)

EXECUTABLES = Path("/usr/libexec/ipsec")
"""Directory of pluto's programs in the packages."""

COMMAND_TIMEOUT = 10.0
"""Deadline in seconds of a command that pluto answers from memory. It includes the start of a program."""

ADD_TIMEOUT = 60.0
"""Deadline of ``addconn`` in seconds. It also sets up NSS, which takes 10 s on a busy emulated machine."""

MAX_COMMANDS = 8
"""Programs that run at once."""

MAX_OUTPUT = 8 * 1024 * 1024
"""Limit of one program's output in bytes: ``--status`` prints about 2500 for each connection."""

LOOK_AT_REST = 1.0
LOOK_QUICK = 0.1
"""Polling intervals of pluto's SAs in seconds: normally, and during a negotiation."""

PEERS_TURN = 2.0
"""Seconds that a peer gets to make the CHILD_SAs of an IKE_SA that it has begun."""

LEAVE_TIMEOUT = 15.0
"""Seconds to wait for the end of a superseded IKE_SA: pluto repeats an unanswered DELETE for 12 s."""

RECONNECT = 0.5
"""Seconds between attempts to reach pluto."""

_PROBLEM = 33
"""whack's exit code if it could not talk to pluto. All other codes are pluto's answers."""
_GONE = ("is not running", "Connection refused")
_NOTHING = asyncio.subprocess.DEVNULL
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


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
        self._control = control
        self._directory = control.parent
        self._clock = clock
        self._packets = packets
        self._executables = executables
        self._slots = asyncio.Semaphore(MAX_COMMANDS)
        self._configuring = asyncio.Lock()
        self._loaded: set[str] | None = None
        """Our connections in pluto; None while that is not known."""
        self._initiated: set[int] = set()
        """Numbers of the IKE_SAs that this node initiated."""
        self._negotiating = 0
        self._anew = asyncio.Event()
        self._version: tuple[DaemonIdentity, str] | None = None
        self.is_gone = False
        """Whether nobody listened at the last attempt: then pluto does not run, rather than hang."""

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
                identity, states = self._identity(), await self._states()
                on_up(await self.facts())
                await self._follow(identity, states, on_event)
            except (IkeError, _OverError) as error:
                on_down(str(error))
            self._loaded = None
            self._initiated.clear()
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
            if self._identity() != identity:
                raise _OverError("pluto was started again")
            now = await self._states()
            self._initiated |= {state.serial for state in now if state.is_initiated}
            for event in _changes(before, now):
                on_event(event)
            before = now

    def reconnect(self) -> None:
        """Reconnect, because pluto did not answer a command."""
        self._anew.set()

    def close(self) -> None:
        """Do nothing: no connection stays open between commands."""

    async def facts(self) -> DaemonFacts:
        """Return pluto's version and identity and the number of our IKE_SAs, by a real round trip."""
        identity, states = self._identity(), await self._states()
        if self._version is None or self._version[0] != identity:
            self._version = identity, _understood(pluto_status.version, await self._whack("--status"))
        half_open = sum(state.is_half_open for state in states)
        standing = sum(state.is_ike_sa for state in states)
        return DaemonFacts(identity, self._version[1], (), standing + half_open, half_open)

    def _identity(self) -> DaemonIdentity:
        """Identify the pluto process by its socket, which it makes at its start."""
        try:
            made = str(self._control.stat().st_mtime_ns)
            pid = (self._directory / "pluto.pid").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            self.is_gone = not self._control.exists()
            raise IkeError(f"pluto: {error}") from error
        return DaemonIdentity(int(pid) if pid.isdecimal() else 0, made)

    async def algorithms(self) -> Algorithms | None:
        """Return None: libreswan's programs do not report what pluto can do in IKE."""
        return ALGORITHMS

    async def load_keys(self, private_keys: Iterable[bytes]) -> None:
        """Do nothing: pluto has no Ed25519, and secrets come with each connection."""

    async def load_connection(self, spec: ConnectionSpec, secret: bytes | None = None) -> None:
        """Configure one peer. Its SAs survive only if pluto has exactly this configuration already."""
        if secret is None:
            raise CommandError(f"{spec.name}: pluto authenticates by the pair's secret alone (ADR 0042)")
        await self._settle(spec.name)
        async with self._configuring:
            loaded = {conn for conn in await self._ours() if _peer(conn) == spec.name}
            await self._share(spec, secret)
            wanted = {conn_name(spec.name, child.name): child for child in spec.children}
            for conn in loaded - wanted.keys():
                await self._delete(conn)
            for conn, child in wanted.items():
                await self._add(conn, _driven(conn, spec, child), is_loaded=conn in loaded)

    async def _share(self, spec: ConnectionSpec, secret: bytes) -> None:
        path = self._directory / _secrets(spec.name)
        text = libreswan.secrets(spec.local_id, [(spec.remote_id, secret)], "Written by meshsecd.")
        if _read(path) != text:
            _write(path, text)
        if str(path) not in await self._listen():
            raise CommandError(f"pluto does not read {path}: its secretsfile= must include {path.parent}/*.secrets")

    async def _listen(self) -> str:
        """Let pluto look for new addresses and read its secrets again; return its output."""
        return await self._whack("--listen")

    async def _add(self, conn: str, text: str, *, is_loaded: bool) -> None:
        """Load one connection. Its file exists only while pluto has its content."""
        path = self._directory / f"{conn}.conf"
        if is_loaded and _read(path) == text:
            return
        path.unlink(missing_ok=True)
        new = path.with_suffix(".new")
        _write(new, text)
        try:
            self._loaded = None
            await self._addconn(conn, new)
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)

    async def _addconn(self, conn: str, path: Path) -> None:
        said: list[str] = []
        try:
            code = await self._run("addconn", "--config", str(path), conn, within=ADD_TIMEOUT, said=said)
        except TimeoutError as error:
            raise IkeError(f"addconn {conn}: pluto does not answer in time") from error
        if code:
            raise CommandError(f"addconn {conn}: {_last(said)}")

    async def unload_connection(self, name: str) -> None:
        """Remove a peer's configuration, secret and SAs. An unknown name is no error."""
        await self._settle(name)
        async with self._configuring:
            for conn in await self._ours():
                if _peer(conn) == name:
                    await self._delete(conn)
            path = self._directory / _secrets(name)
            if path.exists():
                path.unlink()
                await self._listen()

    async def _delete(self, conn: str) -> None:
        (self._directory / f"{conn}.conf").unlink(missing_ok=True)
        self._loaded = None
        await self._whack("--delete", "--name", conn)

    async def connections(self) -> tuple[str, ...]:
        """Return the names of the peers that pluto knows. Leftover files of others are removed."""
        async with self._configuring:
            self._loaded = None
            conns = await self._ours()
            known = {_peer(conn) for conn in conns}
            kept = {f"{conn}.conf" for conn in conns} | {_secrets(peer) for peer in known}
            for path in self._directory.glob(f"{pluto_status.PREFIX}*"):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
            return tuple(sorted(known))

    async def configured(self) -> tuple[Configured, ...]:
        """Return pluto's configuration of our peers; connections with other names are not ours."""
        return _understood(pluto_status.configured, await self._whack("--status"))

    async def credentials(self) -> Credentials:
        """Return the peers whose secrets pluto has, or both identities if there is no such peer. It has no keys."""
        status, told = await self._whack("--status"), await self._whack("--listpsks")
        peers = {frozenset((one.local_id, one.remote_id)): one.name for one in pluto_status.configured(status)}
        names = (peers.get(who) or " and ".join(sorted(who)) for who in pluto_status.secrets(told))
        return Credentials(private_keys=None, secrets=frozenset(names))

    async def _ours(self) -> set[str]:
        if self._loaded is None:
            status = _understood(pluto_status.connections, await self._whack("--status"))
            self._loaded = {conn for conn in status if peer_and_child(conn)}
        return self._loaded

    async def ike_sas(self, peer: str = "") -> dict[str, tuple[IkeSa, ...]]:
        """Return the SAs by peer, of all peers or of one. A peer without an SA is left out."""
        told = await self._whack("--status"), await self._whack("--trafficstatus")
        sas = _understood(pluto_sas.ike_sas, *told, self._clock(), time.time(), self._initiated)
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
        if await self._comes(peer, conn):
            return
        self._negotiating += 1
        try:
            await self._run("whack", "--initiate", "--name", conn, within=seconds, said=said, until=is_given_up)
            cause = pluto_status.failure(said) or Cause(_last(said))
        except TimeoutError:
            cause = pluto_status.failure(said) or no_answer(seconds)
        finally:
            self._negotiating -= 1
        if (begun := pluto_status.initiated(said)) is not None:
            self._initiated.add(begun)
        if not await self._stands(conn):
            await self._settle(peer)
            await self._down(conn)
            if pluto_status.lacks_address(said):
                await self._listen()
            raise CommandError(cause.words, cause.kind)

    async def _stands(self, conn: str) -> bool:
        return any(state.is_child_sa and state.conn == conn for state in await self._states())

    async def _comes(self, peer: str, conn: str) -> bool:
        """Return whether it is established or the peer makes it; 4.10 fails if both ends do so at once (ADR 0044)."""
        ends = self._clock() + PEERS_TURN
        while not await self._stands(conn):
            if self._clock() >= ends or not await self._is_peers(peer):
                return False
            await asyncio.sleep(LOOK_QUICK)
        return True

    async def _is_peers(self, peer: str) -> bool:
        """Return whether the peer has initiated an established IKE_SA."""
        ike_sas = {state.serial for state in await self._states() if state.is_ike_sa and _peer(state.conn) == peer}
        return bool(ike_sas - self._initiated)

    async def _down(self, conn: str) -> None:
        """Stop pluto from keeping a connection up, which it does after each ``--initiate``."""
        await self._whack("--terminate", "--asynchronous", "--name", conn)

    async def _settle(self, peer: str) -> None:
        """Wait until no SA of a peer can crash 5.2 when its connection is removed or ended (ADR 0044)."""
        ends = self._clock() + LEAVE_TIMEOUT
        asked: set[int] = set()
        while (fatal := pluto_sas.fatal(await self._states(), peer)) and self._clock() < ends:
            for serial in fatal - asked:
                await self._whack("--deletestate", str(serial), "--asynchronous")
            asked |= fatal
            await asyncio.sleep(LOOK_AT_REST)

    async def terminate(self, unique_id: str, *, patient: bool = False) -> None:  # noqa: ARG002  (the port has it)
        """Close one IKE_SA with its CHILD_SAs and notify the peer. An unknown one is no error.

        Returns at once, unless another SA must go first (``_settle``). ``patient`` has no effect: pluto's version
        decides.

        If two IKE_SAs crossed, each pluto makes its own again as soon as it is closed, without end, and the peer may
        have closed the other. So both are closed, and pluto stops keeping them up.
        """
        states = await self._states()
        own = next((state for state in states if str(state.serial) == unique_id), None)
        if own is None:
            return
        peer = _peer(own.conn)
        kept = [one for one in states if one.is_ike_sa and one is not own and _peer(one.conn) == peer]
        goes_for_all = not kept or await self._would_return(own, kept, states)
        if goes_for_all:
            await self._settle(peer)
            for conn in sorted(await self._ours(), reverse=True):
                if _peer(conn) == peer:
                    await self._down(conn)
        for one in (own, *(kept if goes_for_all else ())):
            await self._whack("--deletestate", str(one.serial), "--asynchronous")

    async def _would_return(self, own: State, kept: Sequence[State], states: Iterable[State]) -> bool:
        """Return whether pluto, here or at the peer, would make an IKE_SA again after it is closed.

        It would not if the IKE_SA was rekeyed and has no CHILD_SAs, or if its connection has a newer one.
        """
        carries = any(one.is_child_sa and one.ike == own.serial for one in states)
        is_newest = all(one.serial < own.serial for one in kept if one.conn == own.conn)
        return carries and is_newest and await self._keeps_up(_peer(own.conn))

    async def _keeps_up(self, peer: str) -> bool:
        """Return whether pluto by itself makes this peer's SAs again when they end."""
        known = _understood(pluto_status.connections, await self._whack("--status"))
        return any(conn.is_kept_up for name, conn in known.items() if _peer(name) == peer)

    async def rekey_child(self, unique_id: str, child: str) -> None:
        """Let pluto replace a CHILD_SA of one IKE_SA (RFC 7296, section 1.3.3). An unknown one is no error."""
        own = next((state for state in await self._states() if str(state.serial) == unique_id), None)
        if own is not None:
            option = "--rekey-ipsec" if (await self.facts()).version.startswith("4.") else "--rekey-child"
            await self._whack(option, "--asynchronous", "--name", conn_name(_peer(own.conn), child))

    async def _states(self) -> tuple[State, ...]:
        """Return the states of our connections."""
        states = _understood(pluto_status.states, await self._whack("--showstates"))
        return tuple(state for state in states if peer_and_child(state.conn))

    async def _whack(self, *arguments: str) -> str:
        """Return pluto's answer to a command. Raises IkeError if there is none."""
        said: list[str] = []
        try:
            await self._run("whack", *arguments, within=COMMAND_TIMEOUT, said=said)
        except TimeoutError as error:
            raise IkeError(f"whack {arguments[0]}: pluto does not answer in time") from error
        return "\n".join(said)

    async def _run(
        self, program: str, *arguments: str, within: float, said: list[str], until: Callable[[str], bool] | None = None
    ) -> int:
        """Run one of pluto's programs, return its exit code and add its output to ``said``.

        The program is ended after ``within`` seconds or at a line that matches ``until``. Raises TimeoutError, and
        IkeError if pluto cannot be reached.
        """
        command = (str(self._executables / program), "--ctlsocket", str(self._control), *arguments)
        async with self._slots:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=_NOTHING, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=_ENV
                )
            except OSError as error:
                self.is_gone = True
                raise IkeError(f"{command[0]}: {error.strerror}") from error
            try:
                async with asyncio.timeout(within):
                    await _lines(process, said, until)
                    if until is None or not said or not until(said[-1]):
                        await process.wait()
            finally:
                await _end(process)
        self.is_gone = process.returncode == _PROBLEM and any(sign in line for sign in _GONE for line in said)
        if process.returncode == _PROBLEM:
            raise IkeError(_last(said))
        return process.returncode or 0


async def _lines(process: asyncio.subprocess.Process, said: list[str], until: Callable[[str], bool] | None) -> None:
    left, output = MAX_OUTPUT, process.stdout
    try:
        while output and (line := await output.readline()):
            left -= len(line)
            if left < 0:
                raise IkeError(f"pluto's program says more than {MAX_OUTPUT} octets")
            said.append(line.decode("utf-8", "replace").rstrip())
            if until and until(said[-1]):
                return
    except ValueError as error:  # a line beyond the reader's limit
        raise IkeError(f"pluto's program says too long a line: {error}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program that may wait for a hanging pluto or for a reader of its output."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def _secrets(peer: str) -> str:
    """Return the name of the file with a pair's secret. No connection has such a name."""
    return f"{pluto_status.PREFIX}{peer}.secrets"


def _peer(conn: str) -> str:
    ours = peer_and_child(conn)
    return ours[0] if ours else ""


def _driven(conn: str, spec: ConnectionSpec, child: ChildSpec) -> str:
    try:
        found = libreswan.driven(conn, spec, child)
    except libreswan.NothingLeftError as error:
        raise CommandError(str(error)) from error
    for one in found.refused:
        _log.info("left out of %s, since libreswan cannot do it: %s", conn, one)
    return found.conf


def _changes(before: Iterable[State], now: Iterable[State]) -> Iterator[SaChanged]:
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
        peer = _peer(state.conn)
        found[peer] = found.get(peer, frozenset()) | {(state.serial, state.name, state.spi_in)}
    return found


def _understood(read: Callable[..., T], *told: object) -> T:
    try:
        return read(*told)
    except StatusError as error:
        raise IkeError(str(error)) from error


def _last(said: Sequence[str]) -> str:
    return next((line for line in reversed(said) if line), "no reason given")


def _write(path: Path, text: str) -> None:
    try:
        files.write(path, text.encode(), 0o600)
    except files.FileError as error:
        raise IkeError(str(error)) from error


def _read(path: Path) -> str:
    """Read a file; return an empty text if it cannot be read, so that it is written."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
