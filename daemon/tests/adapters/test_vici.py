"""The VICI client against a real charon in a network namespace, and against servers that misbehave."""

import asyncio
import contextlib
import gc
import os
import socket
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from vici.session import Session

from meshsec.adapters.ike import vici_transport as module
from meshsec.adapters.ike.ike_log import IkeLog
from meshsec.adapters.ike.vici import Vici
from meshsec.core.ike import drift
from meshsec.core.ike.drift import Configured, Wanted
from meshsec.core.ike.port import CommandError, DaemonFacts, IkeError, IkeEvent, LogLine, SaChanged
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import Authentication
from meshsec.core.values.sa_states import ChildSaState, IkeSaState
from namespaces import needs_root

from .conftest import IkeNode, new_key

T = TypeVar("T")
OTHER_KEY = Cause("the peer's key is not the one on its card", FailureKind.OTHER_KEY)
BY_SECRET = Cause("the peer authenticates by a secret, its card says: by its key", FailureKind.OTHER_METHOD)
SECRET, OTHER_SECRET = b"what this pair shares, 32 octets", b"what another pair has, 32 octets"
Pair = tuple[IkeNode, IkeNode]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands a minute, because a charon on a busy machine answers late."""
    monkeypatch.setattr(module, "COMMAND_TIMEOUT", 60.0)


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        try:
            async with asyncio.timeout(150):
                return await work()
        finally:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await asyncio.sleep(0.01)  # closed transports let go of their sockets

    return asyncio.run(bounded())


class Watcher:
    """A client whose events can be awaited."""

    def __init__(self, node: IkeNode) -> None:
        self.vici = Vici(node.vici, time.monotonic)
        self.ups: list[DaemonFacts] = []
        self.downs: list[str] = []
        self.events: list[IkeEvent] = []
        self.log = IkeLog()
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self.vici.run(self._up, self._event, self._down))

    def _up(self, facts: DaemonFacts) -> None:
        self.ups.append(facts)
        self._news.set()

    def _down(self, reason: str) -> None:
        self.downs.append(reason)
        self._news.set()

    def _event(self, event: IkeEvent) -> None:
        self.events.append(event)
        if isinstance(event, LogLine):
            self.log.feed(event.at, event.ike_name, event.unique_id, event.text)
        self._news.set()

    async def until(self, so: Callable[["Watcher"], Any]) -> None:
        while not so(self):
            self._news.clear()
            await self._news.wait()


@contextlib.asynccontextmanager
async def watching(*nodes: IkeNode) -> AsyncIterator[list[Watcher]]:
    watchers = [Watcher(node) for node in nodes]
    try:
        for watcher in watchers:
            await watcher.until(lambda own: own.ups)
        yield watchers
    finally:
        for watcher in watchers:
            watcher.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher.task
            watcher.vici.close()


async def until_no_sas(client: Vici) -> None:
    """Wait until charon lists no SA; it reports an end before it forgets the SA."""
    while await client.ike_sas():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def introduce(one: IkeNode, other: IkeNode, client: Vici, secret: bytes | None = None, **changes: object) -> None:
    await client.load_keys([one.key.pkcs8_pem()])
    by = Authentication.SIGNATURE if secret is None else Authentication.SECRET
    await client.load_connection(one.towards(other, authentication=by, **changes), secret)


def secrets_of(node: IkeNode) -> list[str]:
    """Return the names of the secrets that charon has."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(node.vici))
        session: Any = Session(connection)  # type: ignore[no-untyped-call]
        return [name.decode() for name in session.get_shared()["keys"]]


@needs_root
def test_charon_has_the_keys_that_it_was_given_last_and_no_others(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        other = new_key().pkcs8_pem()
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            await a.vici.load_keys([other])
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            await a.vici.load_keys([alpha.key.pkcs8_pem(), other])
            await a.vici.initiate("charlie", "mesh", 30)

    run(scenario)


@needs_root
@pytest.mark.parametrize("secret", [None, SECRET])
def test_charon_reports_its_configuration_whoever_gave_it(ike_pair: Pair, secret: bytes | None) -> None:
    by = Authentication.SIGNATURE if secret is None else Authentication.SECRET

    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a.vici, secret)
            spec = alpha.towards(charlie, authentication=by)
            assert await a.vici.configured() == (Configured.of(spec),)
            wanted = Wanted({"charlie": spec}, {}, (alpha.card.public_key,))
            assert not list(drift.credentials(wanted, await a.vici.credentials()))
            stranger, thief = new_key(), alpha.towards(charlie, name="thief", remote_public_key=alpha.card.public_key)
            await a.vici.load_keys([alpha.key.pkcs8_pem(), stranger.pkcs8_pem()])
            await a.vici.load_connection(replace(thief, authentication=Authentication.SECRET), b"known to many")
            await a.vici.load_connection(thief, None)
            await a.vici.load_connection(replace(thief, authentication=Authentication.SECRET), b"known to many")
            found = [one.what for one in drift.credentials(wanted, await a.vici.credentials())]
            assert [what.split()[0] for what in found] == ["private", "secret", "public"]
            assert found[-1] == f"public key of {charlie.card.address}"
            assert "secret thief" in found

    run(scenario)


@needs_root
def test_two_charons_set_up_an_sa_with_raw_keys_and_report_it(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            assert await a.vici.connections() == ("charlie",)
            await a.vici.initiate("charlie", "mesh", 30)
            ours = (await a.vici.ike_sas("charlie"))["charlie"]
            theirs = (await c.vici.ike_sas())["alpha"]
            assert [sa.initiator for sa in ours + theirs] == [True, False]
            assert (ours[0].remote_id, theirs[0].remote_id) == (charlie.card.address, alpha.card.address)
            assert ours[0].spi_initiator == theirs[0].spi_initiator
            assert (ours[0].children[0].spi_in, ours[0].children[0].spi_out) == (
                theirs[0].children[0].spi_out,
                theirs[0].children[0].spi_in,
            )
            assert (ours[0].children[0].mode, ours[0].children[0].state) == ("tunnel", ChildSaState.INSTALLED)
            await c.until(lambda own: SaChanged("alpha", "child-updown", up=True) in own.events)
            assert alpha.send(charlie), "user data passes the tunnel"
            counted = (await a.vici.ike_sas())["charlie"][0].children[0]
            assert counted.packets_out >= 1
            assert counted.bytes_out >= 8
            await a.vici.terminate(ours[0].unique_id)
            await a.vici.terminate(ours[0].unique_id)
            await c.until(lambda own: SaChanged("alpha", "ike-updown", up=False) in own.events)
            await until_no_sas(c.vici)

    run(scenario)


@needs_root
def test_a_peer_that_has_another_key_for_us_refuses_and_both_learn_why(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici, remote_public_key=new_key().public_key)
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            await a.until(lambda own: own.log.failure("charlie"))
            await c.until(lambda own: own.log.failure("alpha"))
            assert a.log.failure("charlie") == Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)
            assert c.log.failure("alpha") == OTHER_KEY
            await until_no_sas(a.vici)

    run(scenario)


@needs_root
def test_a_responder_with_another_key_than_its_card_is_refused(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici, remote_public_key=new_key().public_key)
            await introduce(charlie, alpha, c.vici)
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            await a.until(lambda own: own.log.failure("charlie"))
            assert a.log.failure("charlie") == OTHER_KEY

    run(scenario)


@needs_root
def test_a_pair_that_shares_a_secret_authenticates_by_it_until_it_is_forgotten(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici, SECRET)
            await introduce(charlie, alpha, c.vici, SECRET)
            await a.vici.initiate("charlie", "mesh", 30)
            (sa,) = (await a.vici.ike_sas())["charlie"]
            assert sa.remote_id == charlie.card.address
            for log in (alpha.log, charlie.log):
                assert "with pre-shared key successful" in log
                assert SECRET.decode() not in log
                assert SECRET.hex() not in log.replace(" ", "").lower()
            assert [secrets_of(node) for node in ike_pair] == [["charlie"], ["alpha"]]
            await a.vici.unload_connection("charlie")
            await introduce(charlie, alpha, c.vici)
            assert [secrets_of(node) for node in ike_pair] == [[], []]

    run(scenario)


@needs_root
@pytest.mark.parametrize(
    ("ours", "theirs", "cause"),
    [
        (SECRET, OTHER_SECRET, OTHER_KEY),
        (SECRET, None, BY_SECRET),
        (None, SECRET, OTHER_KEY),
    ],
    ids=["another secret", "the responder expects a signature", "the responder expects the secret"],
)
def test_a_peer_with_another_secret_or_none_is_refused(
    ike_pair: Pair, ours: bytes | None, theirs: bytes | None, cause: Cause
) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici, ours)
            await introduce(charlie, alpha, c.vici, theirs)
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            await a.until(lambda own: own.log.failure("charlie"))
            await c.until(lambda own: own.log.failure("alpha"))
            assert a.log.failure("charlie") == Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)
            assert c.log.failure("alpha") == cause
            await until_no_sas(a.vici)

    run(scenario)


@needs_root
def test_a_node_without_our_card_answers_at_once(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            await a.until(lambda own: own.log.failure("charlie"))
            assert a.log.failure("charlie") == Cause("NO_PROPOSAL_CHOSEN: sent by the peer", FailureKind.NO_PROPOSAL)
            await c.until(lambda own: any("no IKE config found" in getattr(e, "text", "") for e in own.events))

    run(scenario)


@needs_root
def test_two_simultaneous_attempts_end_with_an_sa_that_both_have(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            attempts = a.vici.initiate("charlie", "mesh", 30), c.vici.initiate("alpha", "mesh", 30)
            # INITIAL_CONTACT of the slower attempt may clear the other's IKE_SA before its CHILD_SA is established.
            failed = [e for e in await asyncio.gather(*attempts, return_exceptions=True) if e is not None]
            assert not failed or (len(failed) == 1 and isinstance(failed[0], CommandError))

            async def common() -> set[str]:
                """Return the IKE_SAs that both ends have."""
                sides = [(await a.vici.ike_sas()).get("charlie", ()), (await c.vici.ike_sas()).get("alpha", ())]
                ours, theirs = ({sa.spi_initiator for sa in side} for side in sides)
                return ours & theirs

            while not await common():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    run(scenario)


@needs_root
def test_an_initiate_in_progress_blocks_no_other_command(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a.vici)
            charlie.stop()
            initiating = asyncio.create_task(a.vici.initiate("charlie", "mesh", 60))
            await a.until(lambda own: any("generating IKE_SA_INIT" in getattr(e, "text", "") for e in own.events))
            waiting = (await a.vici.ike_sas())["charlie"]
            assert waiting[0].state is IkeSaState.CONNECTING
            assert not initiating.done()
            await a.vici.terminate(waiting[0].unique_id)
            with pytest.raises(CommandError):
                await initiating
            await until_no_sas(a.vici)
            with pytest.raises(CommandError, match="not established after 1000ms"):
                await a.vici.initiate("charlie", "mesh", 1)

    run(scenario)


@needs_root
def test_an_sa_is_closed_at_once_although_the_peer_is_silent(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            await a.vici.initiate("charlie", "mesh", 30)
            charlie.stop()
            (sa,) = (await a.vici.ike_sas())["charlie"]
            await a.vici.terminate(sa.unique_id)
            await until_no_sas(a.vici)
            assert "giving up after" not in alpha.log, "it waited for the peer"

    run(scenario)


LOSS = "table inet loss { chain in { type filter hook input priority 0; udp dport 4500 drop; }; }"


def nft(node: IkeNode, text: str) -> None:
    subprocess.run(["ip", "netns", "exec", node.namespace, "nft", "-f", "-"], input=text, text=True, check=True)


@needs_root
@pytest.mark.parametrize("patient", [True, False])
def test_a_delete_that_is_lost_is_repeated_when_the_sa_is_closed_with_patience(ike_pair: Pair, patient: bool) -> None:
    """A DELETE is repeated with patience; without it, it is sent once."""

    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            await a.vici.initiate("charlie", "mesh", 30)
            (sa,) = (await a.vici.ike_sas())["charlie"]
            nft(charlie, LOSS)
            await a.vici.terminate(sa.unique_id, patient=patient)
            left = (await a.vici.ike_sas()).get("charlie", ())
            assert [sa.state for sa in left] == ([IkeSaState.DELETING] if patient else [])
            nft(charlie, "delete table inet loss")
            if patient:
                await c.until(lambda own: SaChanged("alpha", "ike-updown", up=False) in own.events)
                await a.until(lambda own: SaChanged("charlie", "ike-updown", up=False) in own.events)
                await until_no_sas(c.vici)
            else:
                await asyncio.sleep(1.0)
                assert await c.vici.ike_sas(), "charlie was told"
            await until_no_sas(a.vici)

    run(scenario)


@needs_root
def test_a_killed_charon_is_noticed_and_its_successor_is_another(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a.vici)
            alpha.stop()
            await a.until(lambda own: own.downs)
            assert "charon closed the connection" in a.downs[0]
            with pytest.raises(IkeError):
                await a.vici.connections()
            alpha.start()
            await a.until(lambda own: len(own.ups) == 2)
            assert a.ups[0].identity != a.ups[1].identity
            assert await a.vici.connections() == ()

    run(scenario)


@needs_root
def test_a_removed_peer_loses_its_sas_without_their_numbers(ike_pair: Pair) -> None:
    """The SAs of a removed peer are closed by the connection's name, because charon may not list them."""

    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a.vici)
            await introduce(charlie, alpha, c.vici)
            await a.vici.initiate("charlie", "mesh", 30)
            assert "charlie" in await a.vici.ike_sas()
            await a.vici.unload_connection("charlie")
            await until_no_sas(a.vici)

    run(scenario)


@needs_root
def test_a_client_that_reconnects_recognises_the_same_charon(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a.vici)
        async with watching(alpha) as (again,):
            assert again.ups[0].identity == a.ups[0].identity
            assert again.ups[0].identity.pid == alpha.pid
            assert await again.vici.connections() == ("charlie",)
            await again.vici.unload_connection("charlie")
            await again.vici.unload_connection("charlie")
            assert await again.vici.connections() == ()

    run(scenario)


@needs_root
def test_no_byte_of_the_private_key_is_logged(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a.vici)
            lines = [event.text for event in a.events if isinstance(event, LogLine)]
            for text in (alpha.log, *lines):
                assert "PRIVATE KEY" not in text
                assert alpha.key.pkcs8_pem().splitlines()[1].decode()[20:40] not in text

    run(scenario)


@needs_root
def test_a_configuration_that_charon_refuses_is_an_error_with_its_reason(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            with pytest.raises(CommandError, match="proposals"):
                await a.vici.load_connection(alpha.towards(charlie, ike_proposals=("rot13-md4",)))

    run(scenario)


async def _hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and say nothing until the other side has gone."""
    try:
        await reader.read()
    finally:
        writer.close()


def _saying(octets: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(octets)
        writer.close()

    return say


def test_a_charon_that_accepts_connections_and_never_answers_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND_TIMEOUT", 0.1)

    async def scenario() -> None:
        async with await asyncio.start_unix_server(_hold, tmp_path / "vici"):
            client = Vici(tmp_path / "vici", time.monotonic)
            told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            following = asyncio.create_task(
                client.run(
                    lambda _: None, lambda _: None, lambda reason: None if told.done() else told.set_result(reason)
                )
            )
            assert (await told).endswith("charon does not answer in time")
            following.cancel()

    run(scenario)


@pytest.mark.parametrize("length", [0, module.MAX_FRAME + 1, 2**32 - 1])
def test_a_frame_of_a_length_that_vici_does_not_allow_is_refused_before_its_content_comes(
    tmp_path: Path, length: int
) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(struct.pack("!I", length))
        await _hold(reader, writer)

    async def scenario() -> None:
        async with await asyncio.start_unix_server(say, tmp_path / "vici"):
            client = Vici(tmp_path / "vici", time.monotonic)
            with pytest.raises(IkeError, match=f"a frame of {length} octets; 1 to {module.MAX_FRAME} are allowed"):
                await client.connections()
            client.close()

    run(scenario)


@pytest.mark.parametrize(
    "octets",
    [
        struct.pack("!IB", 1, 99),
        struct.pack("!IBB", 2, 7, 200),
        struct.pack("!IB", 4, 1) + b"\x03\xff\x00",
        struct.pack("!IB", 3, 1) + b"\x02\x01",
        b"\x00",
        b"",
    ],
    ids=["unknown type", "event cut", "key cut", "end too many", "length cut", "nothing"],
)
def test_a_malformed_frame_is_an_error_and_ends_nothing_else(tmp_path: Path, octets: bytes) -> None:
    async def scenario() -> None:
        async with await asyncio.start_unix_server(_saying(octets), tmp_path / "vici"):
            client = Vici(tmp_path / "vici", time.monotonic)
            with pytest.raises(IkeError):
                await client.connections()
            client.close()

    run(scenario)


def test_a_connection_that_broke_leaves_no_exception_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio reports no unread exception even when the stream is collected after its Future."""
    monkeypatch.delattr(asyncio.StreamReaderProtocol, "__del__")
    logged: list[dict[str, Any]] = []

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()  # what came is not read, so the other end's connection is reset

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        lost = asyncio.Event()
        async with await asyncio.start_unix_server(broken, tmp_path / "vici"):
            client = Vici(tmp_path / "vici", time.monotonic)
            with pytest.raises(IkeError):
                await client.connections()
            following = asyncio.create_task(client.run(lambda _: None, lambda _: None, lambda _: lost.set()))
            await lost.wait()
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        gc.collect()

    run(scenario)
    gc.collect()
    assert logged == []


def test_without_charon_commands_fail_and_name_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(IkeError, match="No such file"):
            await Vici(tmp_path / "vici", time.monotonic).load_keys([os.urandom(32)])

    run(scenario)
