"""Where signatures are required, no lie and no replay changes a route; the same with ``off`` does (ADR 0092).

m is a stranger with a card: his own messages are signed and believed, which each test waits for.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import pytest
from scapy.layers.l2 import Ether

from tests.attacks.flooding import FrameFlood, stamped
from tests.attacks.routing import CardHolder, signers_under_attack
from tests.lab.faults.wrong_clock import YEAR, set_clock
from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.replay import Recorder
from tests.lab.forge.rfc5444 import PORT, Message, attached, datagram, edge, hello, packet
from tests.lab.forge.signed import ICV, OWN, TIMESTAMP, Key, icv, timestamp, with_tlvs
from tests.lab.node.routers import Mesh, Router
from tests.lab.node.signing import SigningRouter

BOTH = ["require", "off"]
ALL = ["require", "prefer", "off"]
"""What a router has signed is worth as much with ``prefer``; there a word that nobody has signed may count, too."""
PAIRS = (("a", "b"), ("b", "c"), ("a", "m"), ("c", "d"), ("c", "e"), ("c", "f"))
FLOOD = 5.0
"""Seconds."""
HOST = "203.0.113.9"
SOON = 20.0
AWAY = "def"
"""Routers with cards that do not run: the address of one that is away is the easiest to take."""
SAID = {4: [f"192.0.2.{number}/32" for number in range(128)], 6: [f"2001:db8:{n:x}::/64" for n in range(128)]}
"""Networks that a accepts from m. Each is announced once, so a route to it says that one message was believed."""


@dataclass
class Attack:
    """A mesh under attack, and which of m's networks come next."""

    mesh: Mesh
    m: CardHolder
    signatures: str
    _numbers: Iterator[int]

    def network(self, version: int) -> str:
        """Return a network that nobody has announced yet."""
        return SAID[version][next(self._numbers)]

    def assert_in_force(self, lies: set[str]) -> None:
        """Assert that routes lead to these with ``off`` and not with ``require``, after all that was sent is read.

        What m says of himself comes last, so that a has read the lies when it has a route to it.
        """
        a = self.mesh["a"]
        if self.signatures == "off":
            a.wait_reachable(lies, SOON)
        truth = {version: self.network(version) for version in (4, 6)}
        for version, prefix in truth.items():
            self.m.send(version, self.m.hello(version))
            self.m.send(version, self.m.tc(version, attached(prefix)))
        a.wait_reachable(set(truth.values()), SOON)
        if self.signatures == "require":
            assert not lies & a.kernel.destinations()


@pytest.fixture(name="attack", scope="module", params=BOTH)
def m_beside_a_line_of_three(request: pytest.FixtureRequest) -> Iterator[Attack]:
    with signers_under_attack(request.param, "", PAIRS, AWAY, [*SAID[4], *SAID[6]]) as (mesh, m):
        m.become_neighbour()
        yield Attack(mesh, m, request.param, count())


def _posing(m: CardHolder, victim: Router, version: int) -> tuple[str, Message]:
    """Return an address to send from, and a HELLO of its owner, who says that he is somebody else."""
    source = {4: victim.ipv4, 6: f"fe80::bad:{victim.number:x}"}[version]
    others = [victim.ipv6] if version == 6 else []
    return source, hello(m.own(victim)[version], [source], [m.heard(version)], others=others)


@pytest.mark.parametrize("author", ["nobody", "m", "m under the true key"])
def test_nobody_says_hello_as_somebody_who_is_away(attack: Attack, author: str) -> None:
    d, m = attack.mesh["d"], attack.m
    assert isinstance(d, SigningRouter)
    for version in (4, 6):
        source, forged = _posing(m, d, version)
        if author == "m":
            forged = m.key.sign(forged)
        elif author == "m under the true key":
            dated = with_tlvs(forged, m.key.stamp())
            forged = with_tlvs(dated, icv(d.key + m.key.signature(dated)))
        m.send_from(source, forged)
    attack.assert_in_force({f"{d.ipv6}/128"})


def test_one_end_alone_draws_no_link_to_an_honest_router(attack: Attack) -> None:
    e, m = attack.mesh["e"], attack.m
    for version, address in m.own(e).items():
        m.send(version, m.hello(version, address))
        m.send(version, m.tc(version, edge(address)))
    attack.assert_in_force({f"{e.ipv6}/128"})


def test_nobody_has_the_address_of_another_key_on_another_interface(attack: Attack) -> None:
    f, m = attack.mesh["f"], attack.m
    m.send(6, m.hello(6, others=(f.ipv6,)))
    attack.assert_in_force({f"{f.ipv6}/128"})


def test_nobody_takes_the_link_of_a_neighbour_with_its_address(attack: Attack) -> None:
    """A key without a card, whose originators nobody has, signs HELLOs of b's interface."""
    a, b, m, moved = attack.mesh["a"], attack.mesh["b"], attack.m, False
    ends = {4: b.ipv4, 6: attack.mesh.end("b", "a").link_local()}
    key, own = Key(), {4: "10.77.0.98", 6: "2001:db8::98"}
    end = time.monotonic() + 4
    while time.monotonic() < end and not moved:
        for version, source in ends.items():
            m.send_from(source, key.sign(hello(own[version], [source], [m.heard(version)])))
        time.sleep(0.1)
        neighbours = {one["originator"] for one in a.tables().tables["neighbour"].values()}
        moved = not {b.ipv4, b.ipv6} <= neighbours
    assert moved == (attack.signatures == "off")
    a.wait_reachable(b.destinations, SOON)
    attack.assert_in_force(set())


def _without(message: Message, kind: int) -> Message:
    return replace(message, tlvs=tuple(tlv for tlv in message.tlvs if tlv.type != kind))


def _resized(message: Message, kind: int, octets: int) -> Message:
    """Return the message with a TLV that is longer or shorter by so many octets."""
    tlvs = tuple(
        replace(tlv, value=(tlv.value + bytes(max(octets, 0)))[: len(tlv.value) + octets]) if tlv.type == kind else tlv
        for tlv in message.tlvs
    )
    return replace(message, tlvs=tlvs)


def _retyped(message: Message, kind: int, extension: int) -> Message:
    tlvs = tuple(replace(tlv, extension=extension) if tlv.type == kind else tlv for tlv in message.tlvs)
    return replace(message, tlvs=tlvs)


def _resigned(key: Key, message: Message, resized: int) -> Message:
    """Return the message with a TIMESTAMP of another length, which the signature covers."""
    dated = _resized(with_tlvs(message, key.stamp()), TIMESTAMP, resized)
    return with_tlvs(dated, icv(key.public + key.signature(dated)))


def _of_other_type(key: Key, message: Message) -> Message:
    """Return the message with what the key signs of a HELLO with the same content."""
    dated = with_tlvs(message, key.stamp())
    return with_tlvs(dated, icv(key.public + key.signature(replace(dated, type=0))))


def _of_no_domain(key: Key, message: Message) -> Message:
    """Return the message with a signature of its octets alone, as another protocol with the key might make it."""
    dated = with_tlvs(message, key.stamp())
    octets = bytes(replace(dated, hop_limit=0, hop_count=0))
    return with_tlvs(dated, icv(key.public + key.private.sign(octets)))


def _flipped(message: Message) -> Message:
    *others, last = message.tlvs
    return replace(message, tlvs=(*others, replace(last, value=last.value[:-1] + bytes([last.value[-1] ^ 1]))))


FALSE: dict[str, Callable[[Key, Message], Message]] = {
    "no signature": lambda _key, message: message,
    "one bit is false": lambda key, message: _flipped(key.sign(message)),
    "no TIMESTAMP": lambda key, message: with_tlvs(message, icv(key.public + key.signature(message))),
    "no ICV": lambda key, message: with_tlvs(message, key.stamp()),
    "an ICV of 95 octets": lambda key, message: _resized(key.sign(message), ICV, -1),
    "an ICV of 97 octets": lambda key, message: _resized(key.sign(message), ICV, 1),
    "an empty ICV": lambda key, message: _resized(key.sign(message), ICV, -96),
    "a TIMESTAMP of 11 octets": lambda key, message: _resigned(key, message, -1),
    "a TIMESTAMP of 13 octets": lambda key, message: _resigned(key, message, 1),
    "an empty TIMESTAMP": lambda key, message: _resigned(key, message, -12),
    "two ICVs": lambda key, message: key.sign(with_tlvs(message, icv(bytes(96)))),
    "two TIMESTAMPs": lambda key, message: key.sign(with_tlvs(message, timestamp(1))),
    "an ICV of the type extension of RFC 7183": lambda key, message: _retyped(key.sign(message), ICV, 1),
    "an ICV of the next type extension": lambda key, message: _retyped(key.sign(message), ICV, OWN + 1),
    "a TIMESTAMP of POSIX time": lambda key, message: _retyped(key.sign(message), TIMESTAMP, 1),
    "signed as a HELLO": _of_other_type,
    "signed without the domain": _of_no_domain,
    "another key": lambda _key, message: Key().sign(message),
    "a counter that was used": lambda key, message: key.sign(message, timestamp(key.counter)),
    "the counter 0": lambda key, message: key.sign(message, timestamp(0)),
    "the counter 0 with the greatest age": lambda key, message: key.sign(message, timestamp(0, 2**32 - 1)),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_signature_that_is_not_as_it_should_be_is_none(attack: Attack, name: str) -> None:
    m, lies = attack.m, set()
    for version in (4, 6):
        prefix = attack.network(version)
        m.send_from(m.sources()[version], FALSE[name](m.key, m.tc(version, attached(prefix))))
        lies.add(prefix)
    attack.assert_in_force(lies)


def test_a_key_of_small_order_signs_nothing(attack: Attack) -> None:
    """Key and R are the neutral element and S is 0: without care this is a signature of every message."""
    neutral, m, unheard = b"\1" + bytes(31), attack.m, "10.77.0.99"
    before = attack.mesh["a"].counter("forged")
    forged = replace(m.tc(4, edge(HOST)), originator=unheard)
    m.send_from(m.sources()[4], with_tlvs(forged, timestamp(1), icv(neutral + neutral + bytes(32))))
    attack.assert_in_force(set())
    is_known = unheard in attack.mesh["a"].tables().tables["node"]
    assert is_known == (attack.signatures == "off")
    assert attack.mesh["a"].counter("forged") == before + (not is_known)


def test_the_greatest_counter_harms_nobody_but_its_key(attack: Attack) -> None:
    """No number is left to m after it, and the second message with it is a replay: so a has read the first."""
    a, m = attack.mesh["a"], attack.m
    before = a.counter("replayed")
    m.send(6, m.hello(6))
    for age in (2**32 - 1, 0):
        m.send_from(m.link_local, m.key.sign(m.tc(6), timestamp(2**64 - 1, age)))
    if attack.signatures == "off":
        attack.assert_in_force(set())
    else:
        a.wait_for("the counter is used up", lambda: a.counter("replayed") > before, SOON)
    assert attack.mesh["b"].destinations | attack.mesh["c"].destinations <= a.kernel.destinations()
    assert a.reaches(attack.mesh["c"])


def _line_of_two(signatures: str) -> Mesh:
    """Return a - b, whose links end 4 s after the last HELLO."""
    return Mesh([("a", "b")], dict.fromkeys("ab", f'signatures = "{signatures}"'), dict.fromkeys("ab", SigningRouter))


def _restart(router: SigningRouter) -> None:
    """Reboot a node: its router and its signer start again, and know what is on the disk alone."""
    router.daemon.kill()
    router.signer.kill()
    router.start_signer()
    router.start()


@contextmanager
def _recorded(signatures: str) -> Iterator[tuple[SigningRouter, SigningRouter, list[bytes], Forger]]:
    """Start a - b, and yield both, b's packets of some seconds, and what sends on b's end of the link."""
    with _line_of_two(signatures) as mesh:
        a, b = mesh["a"], mesh["b"]
        assert isinstance(a, SigningRouter)
        assert isinstance(b, SigningRouter)
        with Recorder(mesh.end("b", "a"), PORT) as recorder:
            for router in (a, b):
                router.configure(f'signatures = "{signatures}"', each="hello_interval = 1\nhello_validity = 4")
                router.start_signer()
                router.start()
            a.wait_reachable(b.destinations, 60)
            known = len(recorder.take())
            a.wait_for("b has said more", lambda: len(recorder.take()) > known + 6, 60)
            frames = recorder.take()[known:]
        with Forger(Way.between(mesh.end("b", "a"), mesh.end("a", "b"))) as forger:
            yield a, b, frames, forger


@pytest.mark.parametrize("signatures", ALL)
@pytest.mark.parametrize("rebooted", ["nobody", "the victim", "the originator"])
def test_what_was_recorded_brings_nobody_back(rebooted: str, signatures: str) -> None:
    with _recorded(signatures) as (a, b, frames, forger):
        if rebooted == "the originator":
            _restart(b)
            b.wait_reachable(a.destinations, 60)
        b.daemon.kill()
        if rebooted == "the victim":
            _restart(a)
        a.wait_routes(set(), 60)
        _assert_refused(a, b, signatures, frames, forger)


def _assert_refused(a: SigningRouter, b: SigningRouter, signatures: str, frames: list[bytes], forger: Forger) -> None:
    """Send what was recorded to a for 5 s, and assert that it brings b back with ``off`` alone.

    Where a remembers b, it counts replays. Where it has restarted, signatures hold, and nothing follows from them.
    """

    def read() -> int:
        return a.counter("verified") + a.counter("replayed")

    before, end = read(), time.monotonic() + 5
    while time.monotonic() < end and not a.kernel.destinations():
        forger.send_frames(frames)
        time.sleep(0.2)
    assert bool(a.kernel.destinations() & b.destinations) == (signatures == "off")
    if signatures != "off":
        assert read() > before, "nothing arrived"


def _set_off(router: SigningRouter, seconds: int) -> None:
    """Reboot a node with a clock that is wrong by so many seconds."""
    set_clock(router.directory, seconds, router.daemon, router.signer)
    _restart(router)


@pytest.mark.parametrize("signatures", ALL)
@pytest.mark.parametrize("years", [-1, 1])
def test_clocks_that_are_years_apart_change_no_route_and_bring_nobody_back(years: int, signatures: str) -> None:
    """b reboots with a clock that is a year off, and later a with one that is off the other way."""
    with _recorded(signatures) as (a, b, frames, forger):
        b.daemon.kill()
        a.wait_routes(set(), 60)
        _set_off(b, years * YEAR)
        for one, other in ((a, b), (b, a)):
            one.wait_reachable(other.destinations, 60)
        b.daemon.kill()
        _set_off(a, -years * YEAR)
        a.wait_routes(set(), 60)
        _assert_refused(a, b, signatures, frames, forger)


@pytest.mark.parametrize("years", [-1, 1])
def test_a_signer_that_has_lost_its_counter_begins_by_its_clock(years: int) -> None:
    """If that is behind, who remembers the node takes what it says for replays; who does not routes to it."""
    with _recorded("require") as (a, b, _, _):
        b.daemon.kill()
        a.wait_routes(set(), 60)
        b.counter_file.unlink()
        _set_off(b, years * YEAR)
        b.wait_for("it signs", b.counter_file.exists, SOON)
        begun = (int(b.counter_file.read_text()) >> 16) - time.time()
        assert abs(begun - years * YEAR) < 3600, "the clock is not the wrong one"
        if years < 0:
            before = a.counter("replayed")
            a.wait_for("b is taken for a replay", lambda: a.counter("replayed") > before + 4, 60)
            assert not a.kernel.destinations()
            _restart(a)
        a.wait_reachable(b.destinations, 60)


@pytest.mark.parametrize("signatures", ALL)
def test_a_flood_of_false_signatures_is_verified_in_part_and_changes_no_route(signatures: str) -> None:
    """Originators outside fc00::/7 cost a whole verification each. With ``off`` the same fills the router's tables."""
    with signers_under_attack(signatures) as (mesh, m):
        a = mesh["a"]
        m.become_neighbour()
        source = "fe80::66:dead:beef"
        forged = replace(m.tc(6, edge("2001:db8:ff::1")), originator="2001:db8::dead:beef")
        frame = Ether(src="02:66:de:ad:be:ef", dst="33:33:00:00:00:6d") / datagram(source, packet(m.key.sign(forged)))
        frames = (stamped(bytes(frame), number) for number in count())
        verified, spent = a.counter("verified"), a.daemon.cpu_seconds()
        with a.stream() as stream:
            begun = time.monotonic()
            with FrameFlood(Way.between(mesh.end("m", "a"), mesh.end("a", "m")), 2000, frames) as flood:
                time.sleep(FLOOD)
            seconds = time.monotonic() - begun
            stream.drain()
            peers = mesh["b"].destinations | mesh["c"].destinations
            lost = [one for one in stream.lines if one.get("op") == "del" and one.get("destination") in peers]
        share = (a.daemon.cpu_seconds() - spent) / seconds
        tried = a.counter("verified") - verified
        print(f"{flood.sent} false messages in {seconds:.1f} s: {tried} verified, {share:.1%} of a core")
        assert flood.sent > 500 * seconds, "no flood"
        assert lost == []
        assert a.reaches(mesh["c"])
        if signatures == "off":
            assert len(a.tables().tables["node"]) > 1000
        else:
            assert a.counter("forged") > 100
            assert tried < 128 + 64 * seconds + flood.sent / 16 + 10 * seconds
            assert len(a.tables().tables["node"]) < 10
