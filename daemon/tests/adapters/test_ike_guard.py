"""The guard before the IKE daemon in a real kernel: datagrams are sent, and those that come through are counted."""

import asyncio
import contextlib
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, IPv6Network

import pytest
from pyroute2 import netns

from meshsec.adapters.kernel.nftables import Nftables
from meshsec.core.ike import guard
from meshsec.core.values.model import EspBackend, RulesSpec, UnknownNodes
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

OWN, PEER, OTHER, STRANGER, LINK = (
    IPv6Address(text) for text in ("fd00::a", "fd00::b", "fd00::c", "fd00::5", "fe80::2")
)
SPEC = RulesSpec(
    backend=EspBackend.LIBIPSEC,
    own=frozenset({IPv6Address("fc00::a")}),
    protected=frozenset({IPv6Address("fc00::b"), IPv6Address("fc00::c")}),
    locators=frozenset({PEER, OTHER}),
    mesh_prefixes=(),
    unknown_nodes=UnknownNodes.DROP,
)
TRIES = 20
"""Several tries, because a busy machine may stall for longer than an answer is held back."""
SILENCE = 0.2
SA, KE, NOTIFY, ENCRYPTED, FRAGMENT = 33, 34, 41, 46, 53
INIT, AUTH = 34, 35
REQUEST, ANSWER = 0x08, 0x20


def message(exchange: int, flags: int, first: int, spi_i: bytes = b"initiator"[:8], spi_r: bytes = bytes(8)) -> bytes:
    return spi_i + spi_r + struct.pack("!4BII", first, 0x20, exchange, flags, 0, 28)


@dataclass
class Wire:
    """This node, and a neighbour that has every other address of the tests."""

    other: str
    rules: Nftables

    def sends(self, data: bytes, target: IPv6Address = PEER, port: int = 500) -> None:
        """Send a datagram from this node."""
        self.send(None, (OWN, target), data, (port, port))

    def hears(self, data: bytes, source: IPv6Address = PEER, ports: tuple[int, int] = (500, 500)) -> bool:
        """Return whether a datagram from the neighbour comes through to this node's port."""
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
            heard.bind(("::", ports[1]))
            self.send(self.other, (source, OWN), data, ports)
            heard.settimeout(SILENCE)
            try:
                return heard.recv(2048) == data
            except TimeoutError:
                return False

    def counted(self, reason: str) -> int:
        return asyncio.run(self.rules.guard_counters())[reason]

    def contested(self) -> dict[IPv6Address, guard.Contest]:
        return asyncio.run(self.rules.contested())

    def send(
        self, space: str | None, way: tuple[IPv6Address, IPv6Address], data: bytes, ports: tuple[int, int]
    ) -> None:
        if space:
            netns.pushns(space)
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
                scope = socket.if_nametoindex("mesh0") if way[0].is_link_local else 0
                sender.bind((str(way[0]), ports[0], 0, scope))
                sender.sendto(data, (str(way[1]), ports[1]))
        finally:
            if space:
                netns.popns()


@pytest.fixture
def wire(new_namespace: Callable[[], str], inside: str) -> Wire:
    other = new_namespace()
    ip("link", "add", "mesh0", "type", "veth", "peer", "name", "mesh0", "netns", other)
    for space, number, own, rest in (
        (inside, 1, (OWN,), (PEER, OTHER, STRANGER)),
        (other, 2, (PEER, OTHER, STRANGER), (OWN,)),
    ):
        ip("-n", space, "link", "set", "mesh0", "up")
        ip("-n", space, "addr", "add", f"fe80::{number}/64", "dev", "mesh0", "nodad")
        for address in own:
            ip("-n", space, "addr", "add", f"{address}/128", "dev", "lo", "nodad")
        for address in rest:
            ip("-n", space, "route", "add", f"{address}/128", "via", f"fe80::{3 - number}", "dev", "mesh0")
    wait_for(lambda: "state UP" in ip("-n", inside, "link", "show", "mesh0"), "the link")
    wire = Wire(other, Nftables())
    asyncio.run(wire.rules.apply(SPEC))
    assert not wire.rules.guard_problem
    wait_for(lambda: wire.hears(message(INIT, REQUEST, SA)), "the way from the neighbour")
    return wire


@pytest.fixture(params=[500, 4500])
def port(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def on(port: int, data: bytes) -> bytes:
    """Return an IKE message as it is sent on a port: after a marker on port 4500 (RFC 3948, section 2.2)."""
    return (bytes(4) if port == 4500 else b"") + data


def test_first_messages_of_peers_pass(wire: Wire, port: int) -> None:
    assert wire.hears(on(port, message(INIT, REQUEST, SA)), ports=(port, port))


def test_after_the_first_exchange_only_what_is_encrypted_passes(wire: Wire, port: int) -> None:
    for first in (ENCRYPTED, FRAGMENT):
        for flags in (REQUEST, ANSWER):
            assert wire.hears(on(port, message(AUTH, flags, first, spi_r=b"responds")), ports=(port, port))
    for first in (0, SA, NOTIFY, ENCRYPTED - 1, FRAGMENT + 1):
        for exchange in (AUTH, 36, 37, 33):
            assert not wire.hears(on(port, message(exchange, ANSWER, first, spi_r=b"responds")), ports=(port, port))
    assert wire.counted("unprotected") == 20


def test_esp_of_peers_passes(wire: Wire) -> None:
    assert wire.hears(b"\1\2\3\4" + bytes(40), ports=(4500, 4500))


def test_a_datagram_with_different_ike_ports_does_not_pass(wire: Wire) -> None:
    """A datagram with different ports at its ends is dropped: charon would read it as IKE without a marker."""
    for ports in ((500, 4500), (4500, 500), (9, 500), (9, 4500)):
        assert not wire.hears(message(INIT, REQUEST, SA), ports=ports)
    assert wire.counted("ports") == 4


def test_first_messages_of_strangers_pass_at_a_rate_and_nothing_else_of_theirs(wire: Wire) -> None:
    for source in (STRANGER, LINK):
        assert wire.hears(message(INIT, REQUEST, SA), source)
        assert not wire.hears(message(AUTH, REQUEST, ENCRYPTED, spi_r=b"responds"), source)
        assert not wire.hears(message(INIT, ANSWER, SA), source)
        assert not wire.hears(b"\1\2\3\4" + bytes(40), source, (4500, 4500))
        assert not wire.hears(on(4500, message(INIT, REQUEST, SA)), source, (4500, 4500))
        for ports in ((9, 500), (500, 4500)):
            assert not wire.hears(message(INIT, REQUEST, SA), source, ports)
    assert wire.counted("strangers") == 2 * 6
    passed = of_strangers_heard(wire, 200)
    assert guard.STRANGER_BURST // 2 <= passed <= guard.STRANGER_BURST + 20


def of_strangers_heard(wire: Wire, sent: int) -> int:
    """Send first messages of a stranger as fast as possible, and return how many come through."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        heard.bind(("::", 500))
        for _ in range(sent):
            wire.send(wire.other, (STRANGER, OWN), message(INIT, REQUEST, SA), (500, 500))
        return all_heard(heard)


def test_where_there_is_no_guard_the_wall_has_a_rate_for_strangers(wire: Wire) -> None:
    """Without the guard, as with `meshsec export nftables` alone, the wall limits strangers."""
    asyncio.run(wire.rules.apply(replace(SPEC, mesh_prefixes=(IPv6Network("fc00::/7"),))))
    subprocess.run(["nft", "delete", "table", "inet", guard.TABLE], check=True)
    assert 90 <= of_strangers_heard(wire, 600) < 300, "100 at once and 50 in a second"


def test_the_guard_leaves_other_ports_ipv4_and_the_node_itself_alone(wire: Wire) -> None:
    assert wire.hears(b"x", LINK, (9, 501)), "a link-local address is outside the wall"
    for space, address in ((None, "10.0.0.1/24"), (wire.other, "10.0.0.2/24")):
        ip(*(["-n", space] if space else []), "addr", "add", address, "dev", "mesh0")
    assert heard_from(wire.other, "10.0.0.2", "10.0.0.1")
    assert heard_from(None, "127.0.0.1", "127.0.0.1")
    assert heard_from(None, str(OWN), str(OWN))


def heard_from(space: str | None, source: str, target: str) -> bool:
    """Return whether a datagram that is no IKE comes through to an IKE port."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as heard:
        heard.bind((target, 500))
        heard.settimeout(SILENCE)
        if space:
            netns.pushns(space)
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.bind((source, 0))
            sender.sendto(b"x", (target, 500))
        if space:
            netns.popns()
        try:
            return heard.recv(8) == b"x"
        except TimeoutError:
            return False


def test_nothing_but_a_first_message_to_a_port_of_ike_is_a_question(wire: Wire, port: int) -> None:
    answer = on(port, message(INIT, ANSWER, SA, spi_r=b"responds"))
    with contextlib.suppress(PermissionError):  # the wall, which stands behind the guard, drops it
        wire.sends(on(port, message(INIT, REQUEST, SA)), port=501)
    wire.sends(on(port, message(INIT, ANSWER, SA)), port=port)
    wire.sends(on(port, message(AUTH, REQUEST, SA)), port=port)
    if port == 4500:
        wire.sends(b"\1\2\3\4" + message(INIT, REQUEST, SA), port=port)
    assert not wire.hears(answer, ports=(port, port))
    assert not wire.hears(on(port, message(INIT, ANSWER, NOTIFY)), ports=(port, port))
    assert wire.counted("unasked") == 2


def test_an_answer_passes_only_for_the_ike_sa_and_from_the_address_that_was_asked(wire: Wire, port: int) -> None:
    answer = on(port, message(INIT, ANSWER, SA, spi_r=b"responds"))
    assert not wire.hears(answer, ports=(port, port))
    wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
    assert not wire.hears(answer, OTHER, (port, port))
    assert not wire.hears(on(port, message(INIT, ANSWER, SA, b"another1", b"responds")), ports=(port, port))
    assert wire.counted("unasked") == 3
    assert wire.hears(answer, ports=(port, port))
    assert wire.hears(answer, ports=(port, port)), "repeated, because the request was"
    assert not wire.contested()


def test_an_unproven_answer_waits_and_a_true_one_does_not(wire: Wire, port: int) -> None:
    """An answer that is empty or does not begin with an SA payload is held back; a true one passes at once."""
    for serial, first in enumerate((NOTIFY, 0, KE, ENCRYPTED)):
        tries = (_held_back(wire, port, first, f"asking{attempt}{serial}".encode()) for attempt in range(TRIES))
        began, refusal = next(found for found in tries if found)
        wait_for(lambda refusal=refusal: wire.hears(refusal, ports=(port, port)), "the refusal", 5)  # type: ignore[misc]
        assert time.monotonic() - began >= guard.HOLD_MS / 1000


def _held_back(wire: Wire, port: int, first: int, spi: bytes) -> tuple[float, bytes] | None:
    """See a refusal held back twice while a true answer passes.

    Return when that began and the refusal, or None when the machine was too slow to tell.
    """
    refusal = on(port, message(INIT, ANSWER, first, spi))
    wire.sends(on(port, message(INIT, REQUEST, SA, spi)), port=port)
    began, dropped = time.monotonic(), wire.counted("unproven")
    passed = [wire.hears(refusal, ports=(port, port)) for _ in range(2)]
    dropped = wire.counted("unproven") - dropped
    is_true_heard = wire.hears(on(port, message(INIT, ANSWER, SA, spi, b"responds")), ports=(port, port))
    if time.monotonic() - began >= guard.HOLD_MS / 1000:
        return None
    assert (passed, dropped, is_true_heard) == ([False, False], 2, True), "the second refusal is no better"
    return began, refusal


def test_two_different_answers_make_an_address_contested_and_one_passes_by_chance(wire: Wire, port: int) -> None:
    def answer(spi_r: int, spi_i: int = 0) -> bytes:
        return on(port, message(INIT, ANSWER, SA, struct.pack("!Q", 7 + spi_i), struct.pack("!Q", spi_r)))

    for spi_i in range(100):
        wire.sends(on(port, message(INIT, REQUEST, SA, struct.pack("!Q", 7 + spi_i))), port=port)
    assert wire.hears(answer(1), ports=(port, port))
    assert not wire.contested()
    wire.hears(answer(2), ports=(port, port))
    assert wire.contested() == {PEER: guard.Contest.ANSWERED}
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
        heard.bind(("::", port))
        for spi_i in range(1, 100):
            wire.send(wire.other, (PEER, OWN), answer(1, spi_i), (port, port))
        passed = all_heard(heard)
    expected = 99 / guard.ODDS
    assert expected / 2.5 < passed < expected * 2.5
    assert wire.counted("forged") >= 99 - passed


@pytest.mark.parametrize(
    ("kind", "is_forged"), [(14, True), (7, True), (16383, True), (17, False), (16384, False), (16390, False)]
)
def test_a_refusal_and_an_sa_for_one_request_make_an_address_contested_and_a_cookie_before_an_sa_does_not(
    wire: Wire, port: int, kind: int, is_forged: bool
) -> None:
    notify = struct.pack("!BBHBBH", 0, 0, 8, 0, 0, kind)
    wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
    assert not wire.hears(on(port, message(INIT, ANSWER, NOTIFY) + notify), ports=(port, port))
    assert not wire.contested(), "a refusal alone may be true"
    for _ in range(8):
        assert wire.hears(on(port, message(INIT, ANSWER, SA, spi_r=b"responds")), ports=(port, port)), "no chance in it"
    assert wire.contested() == ({PEER: guard.Contest.REFUSED} if is_forged else {})


REFUSED = struct.pack("!BBHBBH", 0, 0, 8, 0, 0, 14)
COOKIE = struct.pack("!BBHBBH", 0, 0, 8, 0, 0, 16390)


def test_a_refusal_is_denied_whether_it_comes_before_the_answer_behind_it_or_behind_a_cookie(
    wire: Wire, port: int
) -> None:
    def answers(*parts: tuple[int, bytes]) -> bool:
        for first, body in parts:
            spi_r = b"responds" if first == SA else bytes(8)
            wire.hears(on(port, message(INIT, ANSWER, first, spi_r=spi_r) + body), ports=(port, port))
        return bool(wire.contested())

    wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
    assert not answers((NOTIFY, REFUSED), (NOTIFY, REFUSED)), "the same refusal, repeated"
    for parts in ([(NOTIFY, COOKIE), (NOTIFY, REFUSED), (SA, b"")], [(SA, b""), (NOTIFY, REFUSED), (SA, b"")]):
        asyncio.run(wire.rules.apply(SPEC))
        wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
        assert answers(*parts)


def test_a_cookie_passes_before_a_refusal_and_one_at_a_time(wire: Wire, port: int) -> None:
    """A request for a cookie passes before a forged refusal, because a busy peer sends one."""

    def passed(body: bytes, times: int) -> int:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
            heard.bind(("::", port))
            for _ in range(times):
                answer = on(port, message(INIT, ANSWER, NOTIFY) + body)
                wire.send(wire.other, (PEER, OWN), answer, (port, port))
            return all_heard(heard)

    wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
    assert passed(COOKIE, 3) == 0, "the first one waits"
    for _ in range(2):
        time.sleep(guard.COOKIE_HOLD_MS / 1000)
        assert passed(COOKIE, 3) == 1, "the next one waits again"
    assert passed(REFUSED, 2) == 0, "it is held back on its own account"
    assert not wire.contested()


def test_a_message_that_is_no_refusal_does_not_make_an_address_contested(wire: Wire, port: int) -> None:
    wire.sends(on(port, message(INIT, REQUEST, SA)), port=port)
    assert not wire.hears(on(port, message(INIT, ANSWER, KE) + REFUSED), ports=(port, port))
    assert wire.hears(on(port, message(INIT, ANSWER, SA, spi_r=b"responds")), ports=(port, port))
    assert not wire.contested()


def all_heard(heard: socket.socket) -> int:
    """Return the number of datagrams that arrive before the socket is silent."""
    heard.settimeout(SILENCE)
    count = 0
    with contextlib.suppress(TimeoutError):
        while heard.recv(2048):
            count += 1
    return count


def test_first_messages_with_a_cookie_have_a_rate_and_those_without_have_none(wire: Wire, port: int) -> None:
    def burst(first: int, source: IPv6Address, flags: int = REQUEST) -> int:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
            heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            heard.bind(("::", port))
            for number in range(400):
                data = on(port, message(INIT, flags, first, struct.pack("!Q", number)))
                wire.send(wire.other, (source, OWN), data, (port, port))
            return all_heard(heard)

    assert burst(SA, PEER) == 400
    assert burst(NOTIFY, PEER, ANSWER) == wire.counted("cookies") == 0, "answers are none"
    passed = burst(NOTIFY, PEER)
    assert guard.COOKIE_BURST <= passed < 300
    assert wire.counted("cookies") == 400 - passed
    assert wire.hears(on(port, message(INIT, REQUEST, NOTIFY)), OTHER, (port, port)), "each address has its own"


def test_elements_that_the_guard_collects_are_no_drift_and_its_removal_is(wire: Wire) -> None:
    wire.sends(message(INIT, REQUEST, SA))
    assert wire.hears(message(INIT, ANSWER, SA, spi_r=b"responds"))
    assert not wire.hears(message(INIT, ANSWER, NOTIFY))
    assert asyncio.run(wire.rules.in_force()) == SPEC
    subprocess.run(["nft", "delete", "table", "inet", guard.TABLE], check=True)
    assert asyncio.run(wire.rules.in_force()) is None


def test_on_a_kernel_that_refuses_the_guard_the_wall_is_in_force(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshsec.core.ike.guard.render", lambda _: "nonsense\n")
    asyncio.run(wire.rules.apply(replace(SPEC, locators=frozenset({PEER}))))
    assert "nonsense" in wire.rules.guard_problem
    assert asyncio.run(wire.rules.in_force()) is not None


def test_ike_of_peers_comes_from_the_backends_address_and_of_removed_ones_until_their_sas_close() -> None:
    removed = replace(SPEC, barred=frozenset({IPv6Address("fc00::d")}))
    assert guard.end_points(removed) == [PEER, OTHER, IPv6Address("fd00::d")]
    kernel = replace(removed, backend=EspBackend.KERNEL)
    assert guard.end_points(kernel) == [IPv6Address(f"fc00::{one}") for one in "bcd"]
