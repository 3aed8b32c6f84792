"""A peer with a trusted key cannot send, claim or negotiate what its card does not allow.

b holds a key that a trusts. charon does not run on b: an ``Insider`` speaks IKEv2 and ESP in its place, with ESP in the
kernel or in user space.
"""

import contextlib
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address
from typing import TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from meshsec.adapters.files import key_store
from meshsec.core.trust import card as cards
from meshsec.core.trust import identity
from meshsec.core.trust.pair_secret import pair_secret
from tests.lab.basics.patience import patient
from tests.lab.basics.waiting import wait_until
from tests.lab.forge import insider
from tests.lab.forge.ike import notify
from tests.lab.forge.insider import ANY4, ANY6, Insider, only
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import flow, ipsec_errors, spis

T = TypeVar("T")

IS_KERNEL = capabilities.probe().esp == "kernel"
"""Whether ESP is the kernel's: then IPv4 has an SA of its own (docs/development/architecture.md)."""
FENCE = b"fence"
REKEY_SA, INITIAL_CONTACT, MOBIKE_SUPPORTED, ADDITIONAL_IP6, UPDATE_SA_ADDRESSES = 16393, 16384, 16396, 16398, 16400


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Start a - b - c: a and c trust all; b relays, and its key is in hostile hands."""
    with Lab("inside", line(names(3)), Options(ipv4=True)) as made:
        a, b, c = (made[name] for name in "abc")
        made.set_up().trust_all()
        b.assign_addresses()
        made.start(nodes=[a, c]).start("router", nodes=[b])
        b.wait_route(a)
        a.wait_protected(c)
        yield made


def key_of(node: Node) -> Ed25519PrivateKey:
    """Return a node's private key, as anybody who runs the node has it."""
    return key_store.load(node.var / "node.key").private


@contextmanager
def hostile(lab: Lab, *, key: Ed25519PrivateKey | None = None) -> Iterator[Insider]:
    """Exchange IKE_SA_INIT with a from b's end point."""
    a, b = lab["a"], lab["b"]
    with Insider(b.namespace, b.announced, a.announced, key or key_of(b)) as made:
        assert made.init().all(insider.KE), "a does not answer an IKE_SA_INIT"
        yield made


def udp6(source: str, target: str, data: bytes = MARK) -> Packet:
    """Build an inner packet."""
    return IPv6(src=source, dst=target) / UDP(sport=7001, dport=traffic.PORT) / data


def udp4(source: str, target: str, data: bytes = MARK) -> Packet:
    """Build an inner packet of IPv4."""
    return IP(src=source, dst=target) / UDP(sport=7001, dport=traffic.PORT) / data


def delivered(peer: Insider, source: Node, at: Node, packets: list[Packet]) -> list[bytes]:
    """Return what a's socket receives of a peer's packets before a fence that follows them through each SA."""
    fences = [lambda data: peer.send_inner(bytes(udp6(source.address, at.address, data)))]
    fences += [lambda data: peer.send_inner(bytes(udp4(source.ipv4, at.ipv4, data)))] if len(peer.children) > 1 else []
    with traffic.udp_socket(at.namespace, "::", traffic.PORT) as inside:
        for packet in packets:
            peer.send_inner(bytes(packet))
        return [one for fence in fences for one in before_fence(inside, fence)]


def before_fence(inside: socket.socket, send: Callable[[bytes], object]) -> list[bytes]:
    """Return what a socket receives before a fence, which is sent again when it was lost."""
    inside.settimeout(patient(1))
    fence, found = FENCE + os.urandom(8), []
    for _ in range(10):
        send(fence)
        with contextlib.suppress(TimeoutError):
            while (data := inside.recv(2048)) != fence:
                found.append(data)
            return [data for data in found if not data.startswith(FENCE)]
    raise TimeoutError("no fence arrives")


def standard(peer: Insider, lab: Lab) -> insider.Answer:
    """Negotiate as b's card allows."""
    a, b = lab["a"], lab["b"]
    four = [only(b.ipv4)], [only(a.ipv4)]
    if not IS_KERNEL:
        return peer.authenticate(b.address, [only(b.address), *four[0]], [only(a.address), *four[1]])
    answer = peer.authenticate(b.address, [only(b.address)], [only(a.address)])
    return peer.another_child(*four) if answer.all(insider.SA) else answer


def as_peer(lab: Lab, work: Callable[[Insider], T]) -> T:
    """Do something in b's place while its SA is in force.

    a initiates in vain, because no charon runs on b, and may close the SA for an attempt of its own. Then try once
    more.
    """
    for _ in range(10):
        with hostile(lab) as peer, contextlib.suppress(TimeoutError):
            peer.tries = 5
            if standard(peer, lab).all(insider.SA):
                return work(peer)
    pytest.fail("a closes each IKE_SA at once")


def test_a_peer_cannot_send_with_the_source_of_another_through_its_own_sa(lab: Lab) -> None:
    a, b, c = (lab[name] for name in "abc")
    forged = [
        udp6(c.address, a.address),
        udp6(a.address, a.address),
        udp6(c.locator, a.address),
        udp6("::1", a.address),
        udp6("fe80::1", a.address),
        udp6("2001:db8::1", a.address),
        udp6(f"::ffff:{c.ipv4}", a.address),
        udp6(b.address, a.locator),
        udp4(c.ipv4, a.ipv4),
        udp4(a.ipv4, a.ipv4),
        udp4("127.0.0.1", a.ipv4),
        udp4("192.0.2.1", a.ipv4),
    ]

    def send(peer: Insider) -> tuple[list[bytes], list[bytes], Counter[str]]:
        control = delivered(peer, b, a, [udp6(b.address, a.address), udp4(b.ipv4, a.ipv4)])
        before = ipsec_errors(a)
        return control, delivered(peer, b, a, forged), ipsec_errors(a) - before

    control, found, errors = as_peer(lab, send)
    assert control == [MARK, MARK], "what b may send arrives"
    assert found == []
    if IS_KERNEL:
        kinds = ("XfrmInStateMismatch", "XfrmInTmplMismatch", "XfrmInNoPols", "XfrmInPolBlock")
        assert sum(errors[name] for name in kinds) >= 4, f"what was decrypted no policy allows: {errors}"


def test_traffic_selectors_wider_than_the_card_are_narrowed_to_it(lab: Lab) -> None:
    a, b = lab["a"], lab["b"]
    both = [only(b.address), only(b.ipv4)], [only(a.address), only(a.ipv4)]
    allowed = [([one], [other]) for one, other in zip(*both, strict=True)] if IS_KERNEL else [both]
    with hostile(lab) as peer:
        answer = peer.authenticate(b.address, [ANY6, ANY4], [ANY6, ANY4])
        assert (answer.selectors(insider.TSI), answer.selectors(insider.TSR)) in allowed
        answer = peer.another_child([ANY6, ANY4], [ANY6, ANY4])
        assert (answer.selectors(insider.TSI), answer.selectors(insider.TSR)) in allowed


def test_traffic_selectors_of_another_peer_get_no_child_sa(lab: Lab) -> None:
    a, b, c = (lab[name] for name in "abc")
    for source, target in (
        (c.address, a.address),
        (b.address, c.address),
        (c.ipv4, a.ipv4),
        (b.locator, a.locator),
    ):
        answer = _another_child(lab, source, target)
        assert not answer.all(insider.SA), f"{source} to {target}"
        assert insider.TS_UNACCEPTABLE in answer.notifies


def _another_child(lab: Lab, source: str, target: str) -> insider.Answer:
    """Ask for a CHILD_SA beside the one of b's card."""

    def ask(peer: Insider) -> insider.Answer:
        answer = peer.another_child([only(source)], [only(target)])
        if not answer.payloads or insider.TEMPORARY_FAILURE in answer.notifies:
            raise TimeoutError  # a closes the IKE_SA.
        return answer

    return as_peer(lab, ask)


def test_a_first_message_that_was_changed_on_the_way_ends_in_no_sa(lab: Lab) -> None:
    """b signs what it sent, so nobody on the way can make a see a NAT or other suites."""
    with hostile(lab) as peer:
        peer.first = peer.first[:-1] + bytes([peer.first[-1] ^ 1])
        answer = standard(peer, lab)
        assert insider.AUTHENTICATION_FAILED in answer.notifies
        assert not answer.all(insider.SA)


@pytest.mark.parametrize("proof", [insider.BY_SIGNATURE, insider.BY_SECRET, insider.BY_NOTHING])
def test_no_identity_but_its_own_is_a_peers(lab: Lab, proof: int) -> None:
    """b claims another identity with its own key, with a secret that it can compute, or without any proof."""
    a, b, c = (lab[name] for name in "abc")
    claims: list[str | insider.Payload] = [
        c.address,
        a.address,
        c.locator,
        "::",
        (insider.ID_FQDN, b"c"),
        (insider.ID_KEY_ID, IPv6Address(c.address).packed),
        (insider.ID_FQDN, b"*"),
        (insider.ID_FQDN, b""),
        (13, b""),  # ID_NULL (RFC 7619).
    ]
    if proof != insider.BY_SIGNATURE:
        claims.append(b.address)
    ends = [only(c.address), only(b.address), only(a.address)], [only(a.address)]
    for claim in claims:
        with hostile(lab) as peer:
            answer = peer.authenticate(claim, *ends, method=proof, secret=b"")
            assert insider.AUTHENTICATION_FAILED in answer.notifies, claim
            assert not answer.all(insider.SA), claim
    assert a.control.peer(c.name)["state"] == "protected", "c's SA is not touched"


def test_the_key_of_another_peer_is_worth_nothing_under_ones_own_identity(lab: Lab) -> None:
    a, b, c = (lab[name] for name in "abc")
    with hostile(lab, key=key_of(c)) as peer:
        assert (
            insider.AUTHENTICATION_FAILED in peer.authenticate(b.address, [only(b.address)], [only(a.address)]).notifies
        )


def test_a_peer_that_opens_child_sas_without_end_loses_its_sa(lab: Lab) -> None:
    """charon has no limit, and does not list an IKE_SA with a thousand CHILD_SAs: nobody could see or close it."""
    a, b, c = (lab[name] for name in "abc")
    opened = 0
    while opened < 15:  # a, which initiates in vain, may close an SA of b's for its own attempt.
        with hostile(lab) as peer:
            assert standard(peer, lab).all(insider.SA)
            peer.tries = 2
            opened = 0
            while opened < 900 and peer.another_child([only(b.address)], [only(a.address)]).all(insider.SA):
                opened += 1
    a.wait_for("the SA is closed", lambda: not any(len(sa.children) > 16 for sa in a.charon.sas()), 60)
    assert opened < 900
    assert a.control.peer(c.name)["state"] == "protected", "c's SA is not touched"


def test_a_revoked_peer_that_heeds_no_delete_is_not_heard_any_more(lab: Lab) -> None:
    """Its SA is in force until charon gives up sending the DELETE; meanwhile the rules drop its packets."""
    a, b, c = (lab[name] for name in "abc")
    fingerprint = ""
    try:
        with hostile(lab) as peer:
            assert standard(peer, lab).all(insider.SA)
            assert delivered(peer, b, a, [udp6(b.address, a.address)]) == [MARK], "before it is heard"
            fingerprint = a.meshsec("peer", "revoke", "b").stdout.split()[-1]
            with (
                traffic.udp_socket(a.namespace, "::", traffic.PORT) as inside,
                traffic.udp_socket(c.namespace, c.address) as out,
            ):
                for _ in range(20):
                    peer.send_inner(bytes(udp6(b.address, a.address)))
                    peer.send_inner(bytes(udp4(b.ipv4, a.ipv4)))
                    assert before_fence(inside, lambda fence: out.sendto(fence, (a.address, traffic.PORT))) == []
        with Insider(b.namespace, b.announced, a.announced, key_of(b)) as again:
            again.tries = 3
            assert not again.init().all(insider.KE) or not standard(again, lab).all(insider.SA)
    finally:
        a.meshsec("peer", "unrevoke", fingerprint)
        a.trust(b)


@pytest.fixture
def by_secret() -> Iterator[tuple[Lab, bytes]]:
    """Start a - b and yield c's seed. c's card says that c authenticates by the pair's secret. b is at c's locator."""
    seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
    card = identity.make_card("c", identity.public_key_of(seed), by_secret=True)
    with Lab("by-secret", line(names(2))) as lab:
        a, b = lab["a"], lab["b"]
        lab.set_up()
        a.trust(b)
        a.meshsec("peer", "add", "c", cards.render(card))
        b.assign_addresses()
        there = str(card.address if IS_KERNEL else card.locator)
        b.run("ip", "address", "add", there, "dev", "lo")
        lab.start(nodes=[a]).start("router", nodes=[b])
        b.wait_route(a)
        shown = b.run("ip", "-6", "-o", "address", "show", "dev", "mesh-a", "scope", "link").stdout
        via = shown.split()[3].partition("/")[0]
        a.run("ip", "-6", "route", "add", there, "via", via, "dev", "mesh-b")
        yield lab, seed


def test_a_peer_cannot_compute_the_secret_of_two_others(by_secret: tuple[Lab, bytes]) -> None:
    """b has all cards and its own key. Only with the key of a or of c can somebody pose to a as c.

    See docs/explanation/security.md.
    """
    lab, seed = by_secret
    a, b = lab["a"], lab["b"]
    card = identity.make_card("c", identity.public_key_of(seed))
    own, of_a = key_of(b).private_bytes_raw(), key_of(a).private_bytes_raw()
    public_a = identity.public_key_of(of_a)
    attempts = [
        (pair_secret(own, public_a), False),
        (pair_secret(own, card.public_key), False),
        (b"", False),
        (public_a, False),
        (pair_secret(seed, public_a), True),
        (pair_secret(of_a, card.public_key), True),
    ]
    for secret, right in attempts:
        there = card.address if IS_KERNEL else card.locator
        with Insider(b.namespace, str(there), a.announced, key_of(b)) as peer:
            assert peer.init().all(insider.KE)
            ends = [only(str(card.address))], [only(a.address)]
            answer = peer.authenticate(str(card.address), *ends, method=insider.BY_SECRET, secret=secret)
            assert bool(answer.all(insider.SA)) is right
            assert (insider.AUTHENTICATION_FAILED in answer.notifies) is not right


def test_no_payload_of_a_peer_ends_or_moves_the_sa_of_another(lab: Lab) -> None:
    """b sends DELETE and REKEY_SA with the SPIs of a and c, INITIAL_CONTACT, and notifies of MOBIKE and REDIRECT."""
    a, b, c = (lab[name] for name in "abc")
    before = spis(a, c)
    numbers = [bytes.fromhex(spi) for spi in before]
    with hostile(lab) as peer:
        ends = [only(b.address)], [only(a.address)]
        notifies = [notify(kind) for kind in (INITIAL_CONTACT, MOBIKE_SUPPORTED)]
        assert peer.authenticate(b.address, *ends, *notifies).all(insider.SA)
        peer.tries = 3
        peer.inform(*[(insider.DELETE, bytes([3, 4, 0, 1]) + number) for number in numbers])
        peer.inform(*[(insider.NOTIFY, struct.pack("!BBH", 3, 4, REKEY_SA) + number) for number in numbers])
        peer.inform(notify(UPDATE_SA_ADDRESSES), notify(ADDITIONAL_IP6, IPv6Address(c.locator).packed))
        peer.inform(notify(insider.REDIRECT, bytes([2, 16]) + IPv6Address(c.locator).packed))
        assert delivered(peer, b, a, []) == [], "the SA of the attacker itself is there all the time"
    assert spis(a, c) == before
    with flow(a, c) as running:
        wait_arrivals(running)


@pytest.mark.flood
def test_an_sa_that_charon_does_not_list_ends_with_the_trust_in_its_peer(lab: Lab) -> None:
    """While meshsecd is dead nobody counts CHILD_SAs, and charon does not list an IKE_SA with a thousand of them."""
    a, b = lab["a"], lab["b"]
    a.daemons.agent.kill()
    try:
        with hostile(lab) as peer:
            assert standard(peer, lab).all(insider.SA)
            for _ in range(1600):
                assert peer.another_child([only(b.address)], [only(a.address)]).all(insider.SA)
            assert not any(len(sa.children) > 1000 for sa in a.charon.sas()), "charon lists it, so this proves nothing"
            assert delivered(peer, b, a, [udp6(b.address, a.address)]) == [MARK]
            lab.start("meshsecd", nodes=[a])
            a.distrust(b)
            with traffic.udp_socket(a.namespace, "::", traffic.PORT) as inside:
                inside.settimeout(1)
                wait_until("b is heard no more", lambda: not _heard(peer, inside, udp6(b.address, a.address)), [], 5)
    finally:
        lab.heal()
        a.meshsec("peer", "add", "b", b.card, check=False)


def _heard(peer: Insider, inside: socket.socket, packet: Packet) -> bool:
    peer.send_inner(bytes(packet))
    with contextlib.suppress(TimeoutError):
        return bool(inside.recv(2048))
    return False
