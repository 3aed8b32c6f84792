"""A stranger on the way cannot make a peer believe that two nodes have a node's key (ADR 0079)."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meshsec.core.trust import twins
from meshsec.core.trust.joining import PORT
from meshsec.core.trust.twins import Claim, Denial, Message, Question, TwinsError
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node

IPV6_FREEBIND = 78
"""Lets a socket send from an address that the node does not have (ipv6(7))."""
ETHERTYPE_IPV6 = 0x86DD
IPV6_HEADER, UDP_HEADER = 40, 8
SILENCE = 1.0
"""Seconds for a denial, which must not come."""


class Relay:
    """The stranger b between a and c: it hears all of their claims, and sends under any address."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.heard: list[Message] = []
        family, kind = socket.AF_PACKET, socket.SOCK_DGRAM
        made = namespaces.within(node.namespace, lambda: socket.socket(family, kind, socket.htons(ETHERTYPE_IPV6)))
        made.setblocking(False)
        self._raw = made

    def close(self) -> None:
        self._raw.close()

    def of(self, kind: type[Message]) -> list[Message]:
        """Return what of a kind has passed."""
        while (packet := self._received()) is not None:
            datagram = packet[IPV6_HEADER:]
            if packet[6] == socket.IPPROTO_UDP and int.from_bytes(datagram[2:4]) == PORT:
                self._keep(datagram[UDP_HEADER:])
        return [one for one in self.heard if isinstance(one, kind)]

    def _received(self) -> bytes | None:
        try:
            return self._raw.recv(2048)
        except BlockingIOError:
            return None

    def _keep(self, octets: bytes) -> None:
        try:
            self.heard.append(twins.decode(octets))
        except TwinsError:
            return

    def send(self, source: Node, target: Node, octets: bytes) -> None:
        """Send a datagram in the name of a node."""

        def opened() -> socket.socket:
            made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            made.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
            made.bind((source.announced, PORT))
            return made

        with namespaces.within(self.node.namespace, opened) as sender:
            sender.sendto(octets, (target.announced, PORT))


@contextmanager
def hostile(lab: Lab) -> Iterator[Relay]:
    """Take the rules and meshsecd from b."""
    lab["b"].daemons.agent.kill()
    lab["b"].run("nft", "flush", "ruleset")
    relay = Relay(lab["b"])
    try:
        yield relay
    finally:
        relay.close()


def asks_about(relay: Relay, claim: Claim) -> Callable[[], bool]:
    """Return whether a node has asked about a claim since now."""
    before = len(relay.of(Question))
    return lambda: any(isinstance(one, Question) and one.claim == claim for one in relay.of(Question)[before:])


def accused(*nodes: Node) -> list[str]:
    return [one for node in nodes for one in node.control.ask("status")["problems"] if "key" in one]


def test_neither_a_node_alone_nor_who_replays_its_claims_passes_for_two() -> None:
    """a asks c in vain, since c has no IKE daemon; then a starts again. b repeats what it has heard of a before."""
    with Lab("copied-key", line(names(3))) as lab:
        a, c = lab["a"], lab["c"]
        lab.set_up().trust("a", "c").start("meshsecd", "router")
        lab.start("charon", nodes=[a])
        with hostile(lab) as relay:
            wait_until("a claims", lambda: relay.of(Claim), [], 90)
            claim = relay.of(Claim)[0]
            assert isinstance(claim, Claim)
            wait_until("c asks about it", lambda: relay.of(Question), [], 60)

            a.daemons.agent.stop()
            lab.start("meshsecd", nodes=[a])
            asked = asks_about(relay, claim)

            def repeated() -> bool:
                relay.send(a, c, claim.octets)
                return asked()

            wait_until("c asks about the old claim", repeated, [], 60)
            forged = claim.octets[:-64] + bytes(64)
            asked_forged = asks_about(relay, Claim(claim.receiver, claim.life, forged))
            question = relay.of(Question)[-1]
            assert isinstance(question, Question)
            denied = bytes([1, twins.DENIAL]) + question.nonce + question.claim.life + bytes(64)
            for _ in range(20):
                relay.send(a, c, denied)
                relay.send(a, c, forged)
                time.sleep(0.1)
            asked = asks_about(relay, claim)
            wait_until("c asks again about what was signed", repeated, [], 60)
            time.sleep(SILENCE)
            assert not asked_forged()
            assert not relay.of(Denial), "a has never denied what it said itself"
            assert not accused(a, c)
