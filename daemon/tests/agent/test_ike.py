"""The IKE side of the agent against a scripted charon, for what a real one cannot be made to do."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

import pytest
from vici import protocol

from meshsec.adapters.files import key_store
from meshsec.adapters.ike import vici, vici_transport
from meshsec.agent.sides import ike, ike_actions, ike_proofs
from meshsec.agent.sides.ike import IkeSide
from meshsec.agent.sides.ike_daemon import Outside
from meshsec.agent.sides.keys import Keys
from meshsec.core.channels import one_way_watch
from meshsec.core.channels.actions import Initiate, LoadConnection, LoadKey
from meshsec.core.channels.desired import connection_spec
from meshsec.core.channels.events import Event, IkeDaemonDown, IkeDaemonUp, NegotiationTimed, QuietSeen, SasObserved
from meshsec.core.ike.guard import Contest
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.trust.identity import make_card
from meshsec.core.trust.pair_secret import pair_secret
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import EspBackend, Peer

Packet: Any = protocol.Packet
Message: Any = protocol.Message


def ike_sa(unique_id: str, state: str = "ESTABLISHED", initiator: str = "yes") -> dict[str, Any]:
    return {
        "uniqueid": unique_id,
        "state": state,
        "initiator": initiator,
        "initiator-spi": "1" * 16,
        "responder-spi": "2" * 16,
        "established": "3",
        "child-sas": {},
    }


class Charon:
    """A server of VICI that answers as its script says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.since = "Nov 20 14:47:09 2026"
        self.connections: list[str] = []
        self.sas: list[dict[str, Any]] = []
        self.secrets: list[dict[str, Any]] = []
        self.loaded: list[dict[str, Any]] = []
        self.groups = {"CURVE_25519": "curve25519"}
        self.refusal = ""
        self.hung = False
        self.ignored = ""
        self.asked: list[str] = []
        self.listeners: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()

    def started_again(self) -> None:
        """Have the socket be that of a later process."""
        made = self.path.stat().st_mtime_ns + 1
        os.utime(self.path, ns=(made, made))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack("!I", await reader.readexactly(4))
                await self._handle(await reader.readexactly(length), writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _handle(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        kind, name = frame[0], frame[2 : 2 + frame[1]].decode()
        if self.hung:
            return
        if kind in (Packet.EVENT_REGISTER, Packet.EVENT_UNREGISTER):
            if name == "log":
                self.listeners.append(writer)
            self._send(writer, bytes([Packet.EVENT_CONFIRM]))
            return
        self.asked.append(name)
        if name == self.ignored:
            return
        if name == "load-shared":
            self.secrets.append(Message.deserialize(Packet.parse(frame).payload))
        if name == "load-conn":
            self.loaded.append(Message.deserialize(Packet.parse(frame).payload))
        for event, message in self._stream(name):
            self._send_event(writer, event, message)
        self._send(writer, bytes([Packet.CMD_RESPONSE]) + Message.serialize(self._answer(name)))

    def _stream(self, command: str) -> list[tuple[str, dict[str, Any]]]:
        if command == "list-sas":
            return [("list-sa", entry) for entry in self.sas]
        if command == "list-conns":
            return [("list-conn", {name: {}}) for name in self.connections]
        return []

    def _answer(self, command: str) -> dict[str, Any]:
        if command == "version":
            return {"version": "5.9.8"}
        if command == "stats":
            total = str(len(self.sas))
            return {"uptime": {"since": self.since}, "plugins": ["vici"], "ikesas": {"total": total, "half-open": "0"}}
        if command == "get-algorithms":
            return {"aead": {"AES_GCM_16": "openssl"}, "prf": {"PRF_HMAC_SHA2_256": "openssl"}, "dh": self.groups}
        if self.refusal and command == "initiate":
            return {"success": "no", "errmsg": self.refusal}
        return {"success": "yes"}

    def tell(self, event: str, message: dict[str, Any]) -> None:
        for writer in self.listeners:
            if not writer.is_closing():
                self._send_event(writer, event, message)

    def log(self, name: str, unique_id: str, text: str) -> None:
        self.tell("log", {"group": "IKE", "ikesa-name": name, "ikesa-uniqueid": unique_id, "msg": text})

    def _send_event(self, writer: asyncio.StreamWriter, event: str, message: dict[str, Any]) -> None:
        self._send(writer, bytes([Packet.EVENT, len(event)]) + event.encode() + Message.serialize(message))

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        writer.write(struct.pack("!I", len(frame)) + frame)


class Side:
    """The IKE side with the events that it posts."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.tasks: list[asyncio.Task[None]] = []
        self.ended: list[str] = []
        keys = Keys(path.with_name("node.key"))
        self.key = key_store.create(keys.path)
        outside = Outside(
            self._post,
            self._spawn,
            self.ended.append,
            self._contest,
            lambda peer: peer not in self.out_of_reach,
            lambda address: {"fd00::b": "boat"}.get(address, ""),
        )
        self.side = IkeSide(vici.Vici(path, loop.time), keys, outside)
        self.contested: dict[str, Contest] = {}
        self.out_of_reach: set[str] = set()
        self.proofs = 0
        self.tasks.append(loop.create_task(self.side.run()))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def watch_health(self) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(self.side.watch_health(self._prove)))

    def _prove(self) -> None:
        self.proofs += 1

    async def _contest(self, peer: str) -> Contest | None:
        return self.contested.get(peer)

    def _post(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def next(self, kind: type[Event]) -> Any:
        """Return the next event of a kind and drop those before it."""
        async with asyncio.timeout(120):
            while True:
                while self.events:
                    event = self.events.pop(0)
                    if isinstance(event, kind):
                        return event
                self._news.clear()
                await self._news.wait()


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that no event announces."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


Scenario = Callable[[Charon, Side], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    monkeypatch.setattr(vici, "RECONNECT_MAX", 0.05)
    monkeypatch.setattr(ike, "HEALTH_INTERVAL", 0.05)
    monkeypatch.setattr(ike_actions, "LOG_GRACE", 0.02)

    def played(scenario: Scenario) -> None:
        async def run() -> None:
            async with Charon(tmp_path / "vici") as charon:
                side = Side(charon.path)
                try:
                    await scenario(charon, side)
                finally:
                    rest = asyncio.all_tasks() - {asyncio.current_task()}
                    for task in rest:
                        task.cancel()
                    await asyncio.gather(*rest, return_exceptions=True)
                    await asyncio.sleep(0.01)

        asyncio.run(run())

    return played


def test_the_end_of_an_ike_sa_is_reported_at_once_and_no_other_change(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        charon.tell("ike-updown", {"up": "yes", "boat": {}})
        charon.tell("child-updown", {"boat": {}})
        assert (await side.next(SasObserved)).peer == "boat"
        charon.hung = True
        charon.tell("ike-updown", {"boat": {}})
        await until(lambda: side.ended)
        assert side.ended == ["boat"]

    play(scenario)


def test_a_charon_without_connections_counts_as_restarted(play: Callable[[Scenario], None]) -> None:
    async def scenario(_: Charon, side: Side) -> None:
        up: IkeDaemonUp = await side.next(IkeDaemonUp)
        assert up.daemon_restarted
        assert not up.observed.key_loaded

    play(scenario)


def test_a_charon_with_connections_was_there_before_us_and_keeps_its_sas(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        charon.connections, charon.sas = ["boat"], [{"boat": ike_sa("1")}]
        up: IkeDaemonUp = await side.next(IkeDaemonUp)
        assert not up.daemon_restarted
        assert up.observed.connections == {"boat": None}
        assert [sa.unique_id for sa in up.observed.ike_sas["boat"]] == ["1"]

    play(scenario)


def test_the_key_counts_as_loaded_only_in_the_charon_that_got_it(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        assert await side.side.actions.carry_out(LoadKey()) is None
        charon.connections = ["boat"]
        for is_loaded in (True, False):
            charon.since = "Nov 20 14:47:10 2026"  # Its rounding, or a clock that was set, makes another start of it.
            if not is_loaded:
                charon.started_again()
            charon.listeners[-1].close()
            up: IkeDaemonUp = await side.next(IkeDaemonUp)
            assert (up.observed.key_loaded, up.daemon_restarted) == (is_loaded, not is_loaded)

    play(scenario)


def test_a_pair_s_secret_is_charon_s_before_the_connection_that_needs_it(
    play: Callable[[Scenario], None], tmp_path: Path
) -> None:
    other = key_store.create(tmp_path / "boat.key")
    boat = Peer("boat", make_card("boat", other.public_key, by_secret=True))

    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        node = make_card("node", side.key.public_key)
        load = LoadConnection(connection_spec(node, boat, EspBackend.LIBIPSEC, DEFAULT))
        assert await side.side.actions.carry_out(load) is None
        assert charon.asked[-2:] == ["load-shared", "load-conn"]
        secret = pair_secret(other.seed(), node.public_key)
        owners = [str(node.address).encode(), str(boat.card.address).encode()]
        assert charon.secrets == [{"id": b"boat", "type": b"IKE", "data": secret, "owners": owners}]

    play(scenario)


def test_proposals_beyond_charon_are_left_out_and_without_any_the_peer_has_no_connection(
    play: Callable[[Scenario], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    boat = Peer("boat", make_card("boat", key_store.create(tmp_path / "boat.key").public_key))
    caplog.set_level(logging.INFO)

    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        load = LoadConnection(
            connection_spec(make_card("node", side.key.public_key), boat, EspBackend.LIBIPSEC, DEFAULT)
        )
        assert await side.side.actions.carry_out(load) is None
        (told,) = charon.loaded
        assert told["boat"]["proposals"] == [b"aes256gcm16-prfsha256-x25519", b"aes128gcm16-prfsha256-x25519"]
        assert "aes256gcm16-prfsha256-x25519-ke1_mlkem768 for IKE: ML_KEM_768 is not there" in caplog.text
        charon.groups = {"ECP_256": "openssl"}
        charon.started_again()
        charon.listeners[-1].close()
        await side.next(IkeDaemonUp)
        cause = await side.side.actions.carry_out(load)
        assert cause is not None
        assert cause.kind is FailureKind.OWN_DAEMON
        assert "the IKE daemon can do none of the policy's proposals" in cause.words
        assert "aes128gcm16-x25519 for ESP: CURVE_25519 is not there" in cause.words
        assert len(charon.loaded) == 1

    play(scenario)


def test_a_pair_whose_key_was_changed_is_not_configured_by_another(
    play: Callable[[Scenario], None], tmp_path: Path
) -> None:
    before, other = (key_store.create(tmp_path / f"{name}.key").public_key for name in ("before", "boat"))
    boat = Peer("boat", make_card("boat", other, by_secret=True))
    load = LoadConnection(connection_spec(make_card("node", before), boat, EspBackend.LIBIPSEC, DEFAULT))

    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        cause = await side.side.actions.carry_out(load)
        assert cause is not None
        assert "the key was changed; restart meshsecd" in cause.words
        assert not {"load-shared", "load-conn"} & set(charon.asked)

    play(scenario)


def test_sas_without_a_peer_are_ignored(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        charon.sas = [{"(unnamed)": ike_sa("7", "CONNECTING", "no")}, {"boat": ike_sa("1")}]
        up: IkeDaemonUp = await side.next(IkeDaemonUp)
        assert set(up.observed.ike_sas) == {"boat"}
        charon.tell("ike-update", {"(unnamed)": ike_sa("7", "CONNECTING", "no")})
        charon.tell("child-updown", {"up": "yes", "boat": ike_sa("1")})
        observed: SasObserved = await side.next(SasObserved)
        assert observed.peer == "boat"
        await side.side.readback.read_all()
        assert {event.peer for event in side.events if isinstance(event, SasObserved)} == {"boat"}

    play(scenario)


def test_a_burst_of_events_about_one_peer_is_read_back_once(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        charon.sas = [{"boat": ike_sa("1")}]
        before = charon.asked.count("list-sas")
        for _ in range(20):
            charon.tell("child-updown", {"up": "yes", "boat": ike_sa("1")})
        observed: SasObserved = await side.next(SasObserved)
        assert observed.ike_sas[0].unique_id == "1"
        await asyncio.sleep(0.05)
        assert charon.asked.count("list-sas") - before <= 2

    play(scenario)


def test_phases_and_refusals_come_from_the_log(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        for text in ("generating IKE_SA_INIT request 0 [ ]", "parsed IKE_SA_INIT response 0 [ ]"):
            charon.log("boat", "1", text)
            await asyncio.sleep(0.1)
        charon.log("boat", "1", "CHILD_SA mesh{1} established with SPIs 1_i 2_o and TS a === b")
        timed: NegotiationTimed = await side.next(NegotiationTimed)
        assert timed.peer == "boat"
        assert timed.ike_sa_init is not None
        assert timed.ike_sa_init >= 0.005
        for number in range(3):
            charon.log(
                "(unnamed)", f"{number}9", "no IKE config found for fd00::a...fd00::5, sending NO_PROPOSAL_CHOSEN"
            )
        charon.log("boat", "2", "generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]")
        observed: SasObserved = await side.next(SasObserved)
        assert (observed.peer, observed.reason) == ("boat", "the peer's key is not the one on its card")
        (stranger,) = side.side.strangers
        assert (stranger.address, stranger.times) == ("fd00::5", 3)

    play(scenario)


def test_a_failed_attempt_has_the_cause_from_the_log_even_when_it_comes_late(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        monkeypatch.setattr(ike_actions, "LOG_GRACE", 1.0)  # longer than a busy machine stalls us
        charon.refusal = "establishing CHILD_SA 'mesh' failed"
        attempt = asyncio.create_task(side.side.actions.carry_out(Initiate("boat", ("mesh",), 1.0)))
        await until(lambda: "initiate" in charon.asked)
        charon.log("boat", "1", "received AUTHENTICATION_FAILED notify error")
        assert await attempt == Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)
        monkeypatch.setattr(ike_actions, "LOG_GRACE", 0.02)
        assert await side.side.actions.carry_out(Initiate("boat", ("mesh",), 1.0)) == Cause(charon.refusal)

    play(scenario)


def test_an_attempt_with_forged_answers_is_given_up_early_with_that_reason(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """charon follows the first answer, which was forged, and would wait for the forger."""

    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        monkeypatch.setattr(ike_actions, "CONTEST_LOOK", 0.05)
        charon.ignored = "initiate"
        charon.sas = [{"boat": ike_sa("1", "CONNECTING")}]
        waiting = asyncio.create_task(side.side.actions.carry_out(Initiate("ship", ("mesh",), 3600.0)))
        side.contested = {"boat": Contest.ANSWERED}
        for _ in range(ike_actions.HASTY):
            charon.asked.clear()
            cause = await side.side.actions.carry_out(Initiate("boat", ("mesh",), 3600.0))
            assert cause is not None
            assert cause.kind is FailureKind.FORGED
            assert "terminate" in charon.asked
        assert not waiting.done(), "nobody forges in the other peer's name: its answer may still come"
        waiting.cancel()
        patient = asyncio.create_task(side.side.actions.carry_out(Initiate("boat", ("mesh",), 3600.0)))
        await asyncio.sleep(20 * ike_actions.CONTEST_LOOK)
        assert not patient.done(), "a forger must not keep apart a pair that needs longer"
        patient.cancel()

    play(scenario)


def test_a_refusal_that_came_beside_an_acceptance_says_nothing_about_the_peer(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer may have been told of this node in between, so the attempt that was accepted goes on."""

    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        charon.refusal = "establishing CHILD_SA 'mesh' failed"
        side.contested = {"boat": Contest.REFUSED}
        cause = await side.side.actions.carry_out(Initiate("boat", ("mesh",), 1.0))
        assert cause is not None
        assert cause.kind is FailureKind.DENIED
        monkeypatch.setattr(ike_actions, "CONTEST_LOOK", 0.05)
        charon.ignored = "initiate"
        accepted = asyncio.create_task(side.side.actions.carry_out(Initiate("boat", ("mesh",), 3600.0)))
        await asyncio.sleep(20 * ike_actions.CONTEST_LOOK)
        assert not accepted.done()
        accepted.cancel()
        charon.ignored = ""
        side.contested = {}
        assert await side.side.actions.carry_out(Initiate("boat", ("mesh",), 1.0)) == Cause(charon.refusal)

    play(scenario)


def test_an_attempt_without_answer_is_given_up_in_charon_too(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        charon.refusal = "CHILD_SA 'mesh' not established after 1000ms"
        charon.sas = [{"boat": ike_sa("1", "CONNECTING")}]
        cause = await side.side.actions.carry_out(Initiate("boat", ("mesh",), 1.0))
        assert cause == Cause("timeout: no answer within 1 s", FailureKind.NO_ANSWER)
        assert "terminate" in charon.asked

    play(scenario)


def test_a_hung_charon_is_down_until_it_answers_again(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        side.watch_health()
        await until(lambda: side.proofs > 0)
        monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 0.2)
        charon.hung = True
        down: IkeDaemonDown = await side.next(IkeDaemonDown)
        assert "does not answer in time" in down.reason
        await asyncio.sleep(0.3)
        proofs = side.proofs
        await asyncio.sleep(0.2)
        assert side.proofs == proofs, "a charon that takes connections and says nothing proves nothing"
        charon.hung = False
        up: IkeDaemonUp = await side.next(IkeDaemonUp)
        assert not up.daemon_restarted or not charon.connections

    play(scenario)


@pytest.mark.parametrize("command", ["list-conns", "list-sas"])
def test_a_charon_that_fails_during_the_first_questions_is_found_again(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A charon that answers only the first questions is down, and found again when it answers."""
    monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 0.2)

    async def scenario(charon: Charon, side: Side) -> None:
        charon.ignored = command
        await until(lambda: charon.asked.count(command) > 1)
        charon.ignored = ""
        await side.next(IkeDaemonUp)
        assert side.side.daemon.facts is not None

    play(scenario)


def test_a_change_that_could_not_be_read_back_is_read_at_the_next_sign_of_life(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One SA replaces another, so that their number shows no change."""

    async def scenario(charon: Charon, side: Side) -> None:
        charon.sas = [{"boat": ike_sa("1")}]
        await side.next(IkeDaemonUp)
        monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 0.2)
        charon.ignored = "list-sas"
        asked = charon.asked.count("list-sas")
        charon.sas = [{"boat": ike_sa("2")}]
        charon.tell("child-updown", {"boat": {}})
        await until(lambda: charon.asked.count("list-sas") > asked)
        await asyncio.sleep(0.3)
        # A busy machine that stalls us is no second failure.
        monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 60.0)
        charon.ignored = ""
        side.watch_health()
        observed: SasObserved = await side.next(SasObserved)
        assert [sa.unique_id for sa in observed.ike_sas] == ["2"]

    play(scenario)


@pytest.mark.parametrize(("holds_its_socket", "proves"), [(True, False), (False, True)])
def test_the_ike_side_is_healthy_without_charon_and_not_with_a_stopped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds_its_socket: bool, proves: bool
) -> None:
    """A stopped charon accepts nothing: connections fail once the kernel's queue is full."""
    monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 0.05)
    monkeypatch.setattr(vici, "RECONNECT_MAX", 0.05)
    monkeypatch.setattr(ike, "HEALTH_INTERVAL", 0.02)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "vici"))
    listener.listen(0)
    if not holds_its_socket:
        listener.close()

    async def scenario() -> None:
        side = Side(tmp_path / "vici")
        await side.next(IkeDaemonDown)
        side.watch_health()
        if proves:
            await until(lambda: side.proofs > 0)
        else:
            await asyncio.sleep(0.5)
            assert side.proofs == 0
        for task in side.tasks:
            task.cancel()
        await asyncio.gather(*side.tasks, return_exceptions=True)

    asyncio.run(scenario())
    listener.close()


def test_sas_that_came_without_an_event_are_found_by_their_number(play: Callable[[Scenario], None]) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        charon.sas = [{"boat": ike_sa("1")}]
        side.watch_health()
        observed: SasObserved = await side.next(SasObserved)
        assert observed.peer == "boat"
        charon.sas = []
        observed = await side.next(SasObserved)
        assert observed == SasObserved("boat", ())

    play(scenario)


def _with_child(sa: dict[str, Any], spi: str, packets_in: int = 0, packets_out: int = 0) -> dict[str, Any]:
    child = {
        "name": "mesh",
        "state": "INSTALLED",
        "mode": "TUNNEL",
        "spi-in": spi,
        "spi-out": "c2",
        "install-time": "1",
    }
    counters = {"packets-in": str(packets_in), "packets-out": str(packets_out)}
    return {**sa, "child-sas": {"mesh-1": {**child, **counters}}}


def _asks(charon: Charon) -> None:
    charon.log("(unnamed)", "9", "fd00::b is initiating an IKE_SA")


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SIGN_GRACE", 0.05), ("SIGN_ANSWER", 0.1), ("SIGN_PAUSE", 3600.0)):
        monkeypatch.setattr(ike_proofs, name, seconds)


@pytest.mark.usefixtures("in_haste")
def test_a_peer_that_asks_for_an_sa_and_is_silent_on_the_old_one_loses_it(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1")}]
        await side.next(IkeDaemonUp)
        _asks(charon)
        await until(lambda: "terminate" in charon.asked)
        assert charon.asked.index("rekey") < charon.asked.index("terminate")
        observed: SasObserved = await side.next(SasObserved)
        assert "did not answer" in observed.reason
        _asks(charon)
        await asyncio.sleep(0.3)
        assert charon.asked.count("rekey") == 1, "a first message can be forged: it asks once in a while"

    play(scenario)


@pytest.mark.usefixtures("in_haste")
@pytest.mark.parametrize(("spi", "packets_in"), [("c9", 0), ("c1", 1)])
def test_a_peer_that_asks_and_answers_or_sends_keeps_its_sa(
    play: Callable[[Scenario], None], spi: str, packets_in: int
) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1")}]
        await side.next(IkeDaemonUp)
        _asks(charon)
        await until(lambda: "rekey" in charon.asked)
        charon.sas = [{"boat": _with_child(ike_sa("1"), spi, packets_in)}]
        await asyncio.sleep(0.4)
        assert "terminate" not in charon.asked

    play(scenario)


@pytest.mark.usefixtures("in_haste")
def test_only_peers_with_an_sa_are_probed_and_none_out_of_reach_loses_it(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(charon: Charon, side: Side) -> None:
        await side.next(IkeDaemonUp)
        _asks(charon)
        charon.log("(unnamed)", "9", "fd00::5 is initiating an IKE_SA")
        await asyncio.sleep(0.3)
        assert "rekey" not in charon.asked
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1")}]
        await side.side.readback.read_all()
        side.out_of_reach = {"boat"}
        _asks(charon)
        await until(lambda: "rekey" in charon.asked)
        await asyncio.sleep(0.4)
        assert "terminate" not in charon.asked

    play(scenario)


def test_the_set_of_silent_peers_is_reported_when_it_changes(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ike, "HEALTH_INTERVAL", 0.02)
    monkeypatch.setattr(one_way_watch, "NOTICE", 0.2)

    async def scenario(charon: Charon, side: Side) -> None:
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1")}]
        await side.next(IkeDaemonUp)
        side.watch_health()
        await until(lambda: side.proofs > 2)
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1", packets_out=9)}]
        told: QuietSeen = await side.next(QuietSeen)
        assert told.peers.keys() == {"boat"}
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1", packets_in=1, packets_out=9)}]
        assert (await side.next(QuietSeen)).peers == {}
        side.out_of_reach = {"boat"}
        charon.sas = [{"boat": _with_child(ike_sa("1"), "c1", packets_in=1, packets_out=90)}]
        await asyncio.sleep(0.5)
        assert not [one for one in side.events if isinstance(one, QuietSeen)], "a partition is no black hole"

    play(scenario)
