"""Drive charon through VICI, strongSwan's Versatile IKE Control Interface (src/libcharon/plugins/vici/README.md).

The ``vici`` package encodes and decodes messages; the transport is ours, because that package blocks. charon serves the
requests of one connection one after the other and answers ``initiate`` only at its end. So each command in progress has
a connection from a pool, and events have one more. Everything is decoded here, once.
"""

import asyncio
import contextlib
import socket as sockets
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

from vici import protocol
from vici.exception import DeserializationException

from meshsec.adapters.ike.charon_states import child_sa_state, ike_sa_state
from meshsec.core.ike.drift import Configured, ConfiguredChild, Credentials
from meshsec.core.ike.port import (
    Alert,
    CommandError,
    DaemonFacts,
    DaemonIdentity,
    IkeError,
    IkeEvent,
    LogLine,
    SaChanged,
)
from meshsec.core.policy.capability import Algorithms
from meshsec.core.values.model import Authentication, ChildSa, ChildSpec, ConnectionSpec, IkeSa

Packet: Any = protocol.Packet
Message: Any = protocol.Message

MAX_FRAME = 512 * 1024
"""charon's own limit of one frame in bytes."""

COMMAND_TIMEOUT = 5.0
"""Deadline in seconds of a command that charon answers from memory."""

MAX_COMMANDS = 8
"""Commands in progress at once: each occupies one of charon's threads."""

RECONNECT_FIRST = 0.05
RECONNECT_MAX = 0.5
"""Longest interval in seconds between attempts to reach charon; it doubles from the first to this."""

EVENTS = ("ike-updown", "child-updown", "ike-rekey", "child-rekey", "ike-update", "log", "alert")
"""The events that we subscribe to; a charon before 6.0.3 has no ``alert``."""

_PRIORITIES = ("critical", "high", "medium", "low")
"""Priorities of charon's jobs; each has its own queue."""

_BUFFERED = 0.00005
"""A frame that took less time in seconds to receive was waiting already, so it arrived together with the one before."""

_SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")
"""SubjectPublicKeyInfo before the 32 bytes of an Ed25519 key (RFC 8410, section 4)."""

_UNNAMED = "(unnamed)"
"""charon's name of an IKE_SA whose peer it does not know yet; such SAs are ignored."""

_FAILURES = (OSError, EOFError, TimeoutError, DeserializationException, UnicodeDecodeError, struct.error, ValueError)


class _Connection:
    """One VICI connection: one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, path: Path) -> "_Connection":
        return cls(*await asyncio.open_unix_connection(path, limit=MAX_FRAME))

    @property
    def peer_pid(self) -> int:
        connection = self._writer.get_extra_info("socket")
        return int(struct.unpack("3i", connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, 12))[0])

    def send(self, packet: bytes) -> None:
        self._writer.write(struct.pack("!I", len(packet)) + packet)

    async def receive(self) -> Any:
        (length,) = struct.unpack("!I", await self._reader.readexactly(4))
        if not 0 < length <= MAX_FRAME:
            raise ValueError(f"a frame of {length} octets; 1 to {MAX_FRAME} are allowed")
        return Packet.parse(await self._reader.readexactly(length))

    async def request(self, command: str, message: Mapping[str, Any], stream: str) -> tuple[dict[str, Any], list[Any]]:
        """Send a command and collect its answer and the events of ``stream`` (empty: none) that come before it."""
        if stream:
            await self.register(stream)
        self.send(Packet.request(command, Message.serialize(message)))
        events: list[Any] = []
        while (packet := await self.receive()).response_type == Packet.EVENT:
            events.append(Message.deserialize(packet.payload))
        if packet.response_type != Packet.CMD_RESPONSE:
            raise CommandError(f"charon does not know the command {command!r}")
        if stream:
            await self._confirm(Packet.unregister_event(stream), stream)
        return Message.deserialize(packet.payload), events

    async def register(self, event: str) -> None:
        await self._confirm(Packet.register_event(event), event)

    async def _confirm(self, packet: bytes, event: str) -> None:
        self.send(packet)
        while (answer := await self.receive()).response_type == Packet.EVENT:
            pass
        if answer.response_type != Packet.EVENT_CONFIRM:
            raise CommandError(f"charon does not know the event {event!r}")

    def close(self) -> None:
        self._writer.close()

    async def end(self) -> None:
        """Close the connection at once and fetch its error, which asyncio would log otherwise."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Vici:
    """A client of one charon. ``run`` keeps the event connection; commands work while charon answers."""

    name = "charon"

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        """Prepare the client of VICI's socket ``path``; ``clock`` returns monotonic seconds and dates SAs."""
        self._path = path
        self._clock = clock
        self._idle: list[_Connection] = []
        self._slots = asyncio.Semaphore(MAX_COMMANDS)
        self._events: _Connection | None = None
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
                async with self._event_connection() as connection:
                    on_up(await self.facts())
                    pause = RECONNECT_FIRST
                    await self._pump(connection, on_event)
            except (IkeError, *_FAILURES) as error:
                self.is_gone = isinstance(error, FileNotFoundError | ConnectionRefusedError)
                on_down(f"{self._path}: {_describe(error)}")
            self._drop_idle()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_MAX)

    @contextlib.asynccontextmanager
    async def _event_connection(self) -> AsyncIterator[_Connection]:
        async with asyncio.timeout(COMMAND_TIMEOUT):
            connection = await _Connection.open(self._path)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                for event in EVENTS:
                    with contextlib.suppress(CommandError):
                        await connection.register(event)
            self._events = connection
            yield connection
        finally:
            self._events = None
            await connection.end()

    async def _pump(self, connection: _Connection, on_event: Callable[[IkeEvent], None]) -> None:
        arrived = self._clock()
        while True:
            asked = self._clock()
            packet = await connection.receive()
            if self._clock() - asked > _BUFFERED:
                arrived = self._clock()
            if packet.response_type == Packet.EVENT:
                for event in _events(packet.event_type.decode(), Message.deserialize(packet.payload), arrived):
                    on_event(event)

    def reconnect(self) -> None:
        """Reconnect: charon did not answer a command, so its events are not reliable either."""
        if self._events:
            self._events.close()

    def close(self) -> None:
        """Close the pooled connections."""
        self._drop_idle()

    async def facts(self) -> DaemonFacts:
        """Return charon's version, identity and load, by a real round trip through its worker threads."""
        version, _, pid = await self._command("version", {})
        stats, _, _ = await self._command("stats", {})
        sas = _section(stats, "ikesas")
        return DaemonFacts(
            identity=DaemonIdentity(pid=pid, since=_text(_section(stats, "uptime"), "since")),
            version=_text(version, "version"),
            plugins=_texts(stats, "plugins"),
            ike_sas=_number(sas, "total"),
            half_open=_number(sas, "half-open"),
            queued=sum(_number(_section(stats, "queues"), level) for level in _PRIORITIES),
        )

    async def algorithms(self) -> Algorithms | None:
        """Return what charon's plugins can do in IKE; None before strongSwan 5.1, which cannot report it."""
        try:
            answer, _, _ = await self._command("get-algorithms", {})
        except CommandError:
            return None
        return frozenset(name for kind in answer.values() if isinstance(kind, Mapping) for name in kind)

    async def load_keys(self, private_keys: Iterable[bytes]) -> None:
        """Give charon the node's private keys (PKCS#8, PEM or DER) and remove all others. The keys go nowhere else."""
        loaded = [await self._command("load-key", {"type": "any", "data": key}) for key in private_keys]
        ours = {_text(answer, "id", "") for answer, _, _ in loaded}
        held, _, _ = await self._command("get-keys", {})
        for other in set(_texts(held, "keys")) - ours if all(ours) else ():
            await self._command("unload-key", {"id": other})

    async def load_connection(self, spec: ConnectionSpec, secret: bytes | None = None) -> None:
        """Configure one peer; established SAs are kept and an earlier secret is removed.

        ``secret`` is the pair's, for ``Authentication.SECRET``, and goes nowhere else.
        """
        if secret is None:
            await self._forget_secret(spec.name)
        else:
            owners = [str(spec.local_id), str(spec.remote_id)]
            message = {"id": spec.name, "type": "IKE", "data": secret, "owners": owners}
            await self._command("load-shared", message)
        await self._command("load-conn", {spec.name: _connection_message(spec)})

    async def unload_connection(self, name: str) -> None:
        """Remove a peer's configuration and close its SAs. An unknown name is no error.

        The SAs are closed by the connection's name, because charon does not list an IKE_SA with very many CHILD_SAs.
        """
        try:
            await self._command("unload-conn", {"name": name})
        except CommandError as error:
            if name in await self.connections():
                raise CommandError(f"unload {name}: {error}") from error
        await self._terminate({"ike": name}, patient=not await self._hides_some())
        await self._forget_secret(name)

    async def _hides_some(self) -> bool:
        """Say whether charon has IKE_SAs that it does not list. The end of a patient DELETE could then not be seen."""
        _, events, _ = await self._command("list-sas", {}, stream="list-sa")
        return (await self.facts()).ike_sas > sum(map(len, events))

    async def _forget_secret(self, name: str) -> None:
        """Remove a connection's secret. If there is none, that is no error."""
        await self._command("unload-shared", {"id": name})

    async def connections(self) -> tuple[str, ...]:
        """Return the names of the connections that charon knows."""
        _, events, _ = await self._command("list-conns", {}, stream="list-conn")
        return tuple(name for event in events for name in event)

    async def configured(self) -> tuple[Configured, ...]:
        """Return the connections as far as charon reports them; it does not report proposals."""
        _, events, _ = await self._command("list-conns", {}, stream="list-conn")
        return tuple(_configured(name, section) for event in events for name, section in event.items())

    async def credentials(self) -> Credentials:
        """Return the keys and secrets that charon has, without any private bytes."""
        keys, _, _ = await self._command("get-keys", {})
        secrets, _, _ = await self._command("get-shared", {})
        _, certificates, _ = await self._command("list-certs", {}, stream="list-cert")
        _, authorities, _ = await self._command("list-authorities", {}, stream="list-authority")
        public = [one for one in certificates if _text(one, "type", "") == "PUBKEY"]
        others = [_text(one, "subject", "without a subject") for one in certificates if one not in public]
        return Credentials(
            private_keys=frozenset(_texts(keys, "keys")),
            public_keys=frozenset((_text(one, "subject", ""), _raw_key(one)) for one in public),
            secrets=frozenset(_texts(secrets, "keys")),
            authorities=frozenset([*others, *(name for event in authorities for name in event)]),
        )

    async def ike_sas(self, peer: str = "") -> dict[str, tuple[IkeSa, ...]]:
        """Return the SAs by peer, of all peers or of one. A peer without an SA is left out."""
        _, events, _ = await self._command("list-sas", {"ike": peer} if peer else {}, stream="list-sa")
        found: dict[str, list[IkeSa]] = {}
        for event in events:
            for name, section in _named(event):
                found.setdefault(name, []).append(_ike_sa(name, section, self._clock()))
        return {name: tuple(sas) for name, sas in found.items()}

    async def initiate(self, peer: str, child: str, seconds: float) -> None:
        """Negotiate a CHILD_SA, with its IKE_SA if there is none, and wait until it is established.

        Raises ``CommandError`` if the negotiation failed or took longer than ``seconds``.
        """
        message = {"ike": peer, "child": child, "timeout": round(seconds * 1000), "loglevel": -1}
        await self._command("initiate", message, more=seconds)

    async def terminate(self, unique_id: str, *, patient: bool = False) -> None:
        """Close one IKE_SA with its CHILD_SAs and notify the peer; returns at once. If it is gone already, that is no
        error.

        With ``patient``, charon repeats the DELETE like any request, and the SAs remain until the peer confirms or
        charon gives up (strongswan_conf). Otherwise they go at once and the DELETE is sent once.
        """
        await self._terminate({"ike-id": unique_id}, patient=patient)

    async def _terminate(self, which: Mapping[str, str], *, patient: bool) -> None:
        message = {**which, "force": _yes(not patient), "timeout": -1 if patient else 0, "loglevel": -1}
        try:
            await self._command("terminate", message)
        except CommandError as error:
            if "no matching SAs" not in str(error):
                raise

    async def rekey_child(self, unique_id: str, child: str) -> None:
        """Replace a CHILD_SA of one IKE_SA (RFC 7296, section 1.3.3); returns at once. An unknown one is no error.

        A peer that has lost the IKE_SA does not answer; charon then gives up the IKE_SA and reports that.
        """
        try:
            await self._command("rekey", {"ike-id": unique_id, "child": child})
        except CommandError as error:
            if "no matching" not in str(error):
                raise

    async def _command(
        self, command: str, message: Mapping[str, Any], stream: str = "", more: float = 0.0
    ) -> tuple[dict[str, Any], list[Any], int]:
        """Run a command with ``more`` seconds beside ``COMMAND_TIMEOUT``."""
        async with self._slots:
            answer, events, pid = await self._exchange(command, message, stream, COMMAND_TIMEOUT + more)
        if _text(answer, "success", "yes") != "yes":
            raise CommandError(_text(answer, "errmsg", "no reason given"))
        return answer, events, pid

    async def _exchange(
        self, command: str, message: Mapping[str, Any], stream: str, within: float
    ) -> tuple[dict[str, Any], list[Any], int]:
        """Do one request on its own connection, which returns to the pool only after a complete answer."""
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(within):
                connection = self._idle.pop() if self._idle else await _Connection.open(self._path)
                answer, events = await connection.request(command, message, stream)
        except BaseException as error:
            if connection:
                await connection.end()
            if isinstance(error, _FAILURES):
                raise IkeError(f"{command}: {_describe(error)}") from error
            raise
        self._idle.append(connection)
        return answer, events, connection.peer_pid

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _events(kind: str, message: Mapping[str, Any], arrived: float) -> list[IkeEvent]:
    if kind == "log":
        line = LogLine(
            at=arrived,
            group=_text(message, "group", ""),
            ike_name=_text(message, "ikesa-name", ""),
            unique_id=_text(message, "ikesa-uniqueid", ""),
            text=_text(message, "msg", ""),
        )
        return [line]
    peers = [name for name, _ in _named(message)]
    if kind == "alert":
        return [Alert(_text(message, "alert", "unknown"), peer) for peer in peers or [""]]
    up = _text(message, "up", "no") == "yes"
    return [SaChanged(peer, kind, up) for peer in peers]


def _named(message: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the SAs of a message by the name of their connection."""
    return [(name, value) for name, value in message.items() if isinstance(value, Mapping) and name != _UNNAMED]


def _connection_message(spec: ConnectionSpec) -> dict[str, Any]:
    return {
        "version": "2",
        "local_addrs": [str(spec.local_address)],
        "remote_addrs": [str(spec.remote_address)],
        "proposals": list(spec.ike_proposals),
        "encap": _yes(spec.encapsulate),
        # No MOBIKE: an SA is bound to stable addresses.
        "mobike": "no",
        # No dead peer detection: a partition must not end the SA.
        "dpd_delay": "0",
        "keyingtries": "1",
        # The INITIAL_CONTACT of a restarted peer removes its old SAs. With "replace", two ends that start at once would
        # delete each other's SA. Both ends choose the same one instead (core/channels/reconcile.py).
        "unique": "no",
        "rekey_time": str(spec.ike_rekey_time),
        "local": _end_message(spec.local_id, spec.local_public_key, spec.authentication),
        "remote": _end_message(spec.remote_id, spec.remote_public_key, spec.authentication),
        "children": {child.name: _child_message(child, spec) for child in spec.children},
    }


def _end_message(identity: IPv6Address, public_key: bytes, authentication: Authentication) -> dict[str, Any]:
    if authentication is Authentication.SECRET:
        return {"auth": "psk", "id": str(identity)}
    return {"auth": "pubkey", "id": str(identity), "pubkeys": [_public_key(public_key)]}


def _child_message(child: ChildSpec, spec: ConnectionSpec) -> dict[str, Any]:
    return {
        "mode": child.mode,
        "local_ts": [str(network) for network in child.local_ts],
        "remote_ts": [str(network) for network in child.remote_ts],
        "esp_proposals": list(child.esp_proposals),
        "rekey_time": str(spec.child_rekey_time),
        "replay_window": str(spec.replay_window),
        "copy_dscp": str(spec.copy_dscp),
        # Only meshsecd decides when an SA is made.
        "start_action": "none",
        "close_action": "none",
        "dpd_action": "none",
    }


def _public_key(raw: bytes) -> bytes:
    body = b64encode(_SPKI_ED25519 + raw)
    return b"-----BEGIN PUBLIC KEY-----\n" + body + b"\n-----END PUBLIC KEY-----\n"


_AUTHENTICATION = {
    "public key": str(Authentication.SIGNATURE),
    "pre-shared key": str(Authentication.SECRET),
}


def _configured(name: str, section: Mapping[str, Any]) -> Configured:
    return Configured(
        name=name,
        local_addresses=_texts(section, "local_addrs"),
        remote_addresses=_texts(section, "remote_addrs"),
        local_id=_of_rounds(section, "local", "id"),
        remote_id=_of_rounds(section, "remote", "id"),
        local_authentication=_of_rounds(section, "local", "class"),
        remote_authentication=_of_rounds(section, "remote", "class"),
        ike_version=_text(section, "version", ""),
        ike_rekey_time=_number(section, "rekey_time"),
        ike_reauth_time=_number(section, "reauth_time"),
        dpd_delay=_number(section, "dpd_delay"),
        duplicates=_text(section, "unique", "").removeprefix("UNIQUE_").lower(),
        children=tuple(_configured_child(child, one) for child, one in _section(section, "children").items()),
    )


def _of_rounds(section: Mapping[str, Any], end: str, key: str) -> str:
    """Return a value from all authentication rounds of one end (RFC 4739); there should be one round."""
    rounds = [one for name, one in section.items() if name.startswith(f"{end}-") and isinstance(one, Mapping)]
    told = [_text(one, key, "any") for one in rounds]
    return ", then ".join(_AUTHENTICATION.get(one, one) for one in told)


def _configured_child(name: str, section: Mapping[str, Any]) -> ConfiguredChild:
    return ConfiguredChild(
        name=name,
        mode=_text(section, "mode", "").lower(),
        local_ts=tuple(sorted(_texts(section, "local-ts"))),
        remote_ts=tuple(sorted(_texts(section, "remote-ts"))),
        rekey_time=_number(section, "rekey_time"),
        close_action=_text(section, "close_action", ""),
        dpd_action=_text(section, "dpd_action", ""),
    )


def _raw_key(certificate: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes of an Ed25519 key; empty for any other certificate."""
    octets = certificate.get("data", b"")
    is_ours = isinstance(octets, bytes) and octets.startswith(_SPKI_ED25519)
    return octets.removeprefix(_SPKI_ED25519) if is_ours else b""


def _ike_sa(name: str, section: Mapping[str, Any], now: float) -> IkeSa:
    established = _text(section, "established", "")
    children = section.get("child-sas", {})
    return IkeSa(
        unique_id=_text(section, "uniqueid"),
        peer=name,
        state=ike_sa_state(_text(section, "state")),
        initiator=_text(section, "initiator", "no") == "yes",
        spi_initiator=_text(section, "initiator-spi"),
        spi_responder=_text(section, "responder-spi"),
        established_at=now - int(established) if established else None,
        children=tuple(_child_sa(child, now) for child in children.values()),
        remote_id=_identity(_text(section, "remote-id", "")),
        encryption=_encryption(section),
        key_exchange=_text(section, "dh-group", ""),
        integrity=_text(section, "integ-alg", ""),
        prf=_text(section, "prf-alg", ""),
        local_id=_identity(_text(section, "local-id", "")),
        rekey_at=_coming(section, "rekey-time", now),
        remote_host=_identity(_text(section, "remote-host", "")),
    )


def _coming(section: Mapping[str, Any], key: str, now: float) -> float | None:
    """Return a point in time from charon's number of seconds from now; None without it."""
    return now + _number(section, key) if key in section else None


def _encryption(section: Mapping[str, Any]) -> str:
    return "-".join(filter(None, (_text(section, key, "") for key in ("encr-alg", "encr-keysize"))))


def _identity(text: str) -> IPv6Address | None:
    """Return the identity as an address; None if it cannot be a node's. ``%any`` means not known yet."""
    try:
        return IPv6Address(text)
    except ValueError:
        return None


def _child_sa(section: Mapping[str, Any], now: float) -> ChildSa:
    return ChildSa(
        name=_text(section, "name"),
        state=child_sa_state(_text(section, "state")),
        mode=_text(section, "mode").lower(),
        spi_in=_text(section, "spi-in", ""),
        spi_out=_text(section, "spi-out", ""),
        encryption=_encryption(section),
        installed_at=now - _number(section, "install-time"),
        bytes_in=_number(section, "bytes-in"),
        bytes_out=_number(section, "bytes-out"),
        packets_in=_number(section, "packets-in"),
        packets_out=_number(section, "packets-out"),
        integrity=_text(section, "integ-alg", ""),
        key_exchange=_text(section, "dh-group", ""),
        local_ts=_texts(section, "local-ts"),
        remote_ts=_texts(section, "remote-ts"),
        rekey_at=_coming(section, "rekey-time", now),
    )


def _section(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = message.get(key, {})
    if not isinstance(value, Mapping):
        raise IkeError(f"charon's {key!r} is no section")
    return value


def _text(message: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = message.get(key, default)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    raise IkeError(f"charon's answer lacks {key!r}")


def _texts(message: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = message.get(key, [])
    return tuple(value.decode("utf-8", "replace") for value in values if isinstance(value, bytes))


def _number(message: Mapping[str, Any], key: str) -> int:
    return int(_text(message, key, "0"))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "charon does not answer in time"
    if isinstance(error, asyncio.IncompleteReadError):
        return "charon closed the connection"
    return str(error) or type(error).__name__
