"""A gateway: when its uplink leads outside; and when another node's gateway counts as dead."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.networks.silence import AGAIN, LIMIT, REST, Silence, Traffic
from meshsec.core.networks.uplink import UplinkFacts, problems
from meshsec.core.values.gateway import Uplink, Way
from meshsec.core.values.model import Address

FOUR, SIX = IPv4Address("192.0.2.9"), IPv6Address("2001:db8::9")
NEAR, FAR = IPv6Address("fc00::5"), IPv6Address("fc00::6")
BOTH = Uplink("eth1", Way.NAT, Way.NAT)
SOUND = UplinkFacts(exists=True, carrier=True, ways={4: "eth1", 6: "eth1"})


@pytest.mark.parametrize(
    ("uplink", "facts", "expected"),
    [
        (BOTH, SOUND, {4: "", 6: ""}),
        (BOTH, SOUND._replace(exists=False), dict.fromkeys((4, 6), "there is no interface eth1")),
        (BOTH, SOUND._replace(carrier=False), dict.fromkeys((4, 6), "eth1 has no carrier")),
        (
            BOTH,
            SOUND._replace(ways={4: "eth1", 6: ""}),
            {4: "", 6: "no IPv6 default route leads out by eth1"},
        ),
        (
            BOTH,
            SOUND._replace(ways={4: "meshsec-nets", 6: "eth1"}),
            {4: "no IPv4 default route leads out by eth1; the one in use leads out by meshsec-nets", 6: ""},
        ),
        (BOTH, SOUND._replace(probes=(FOUR, SIX), silent=(SIX,)), {4: "", 6: f"no answer from {SIX}"}),
        (BOTH, SOUND._replace(probes=(FOUR, IPv4Address("192.0.2.8")), silent=(FOUR,)), {4: "", 6: ""}),
        (Uplink("eth1", Way.OFF, Way.ROUTE), SOUND, {6: ""}),
        (Uplink("eth1", Way.ROUTE, Way.OFF), SOUND._replace(carrier=False), {4: "eth1 has no carrier"}),
    ],
)
def test_an_uplink_offers_what_leads_outside_by_it(
    uplink: Uplink, facts: UplinkFacts, expected: dict[int, str]
) -> None:
    assert problems(uplink, facts) == expected


class Watch:
    """The watch of two gateways, of which the first is in use."""

    def __init__(self, *, shared: bool = False) -> None:
        self.silence = Silence[Address]()
        self.silence.follow((NEAR, FAR))
        self.sent = self.received = 0
        self._shared = shared
        self.look()

    def look(self, sent: int = 0, received: int = 0) -> list[Address]:
        """Let packets pass, and return who is asked then."""
        self.sent, self.received = self.sent + sent, self.received + received
        return self.silence.look(Traffic(self.sent, self.received), {NEAR}, shared=self._shared)


def test_a_gateway_is_asked_only_while_packets_to_it_get_no_answer() -> None:
    watch = Watch()
    assert watch.look() == watch.look(received=3) == watch.look(sent=3, received=1) == []
    assert watch.look(sent=1) == [NEAR], "the other one gets no packets"
    assert watch.look() == [NEAR], "until it answers"
    watch.silence.answered(NEAR)
    assert watch.look() == []


def test_packets_of_other_peers_say_nothing_of_the_gateway() -> None:
    assert Watch(shared=True).look(sent=3, received=1) == [NEAR]


def test_a_gateway_is_silent_after_enough_requests_and_back_after_enough_answers() -> None:
    watch = Watch()
    watch.look(sent=1)
    for _ in range(LIMIT - 1):
        assert watch.look() == [NEAR]
        assert not watch.silence.silent
    watch.look()
    assert watch.silence.silent == {NEAR}
    assert sum(len(watch.look(sent=1)) for _ in range(REST)) == 1, "it is asked once in a while"
    for _ in range(AGAIN - 1):
        watch.silence.answered(NEAR)
        assert watch.silence.silent == {NEAR}
    watch.silence.answered(NEAR)
    assert not watch.silence.silent


def test_answers_before_it_fell_silent_again_do_not_count() -> None:
    watch = Watch()
    watch.look(sent=1)
    for _ in range(LIMIT):
        watch.look()
    for _ in range(AGAIN - 1):
        watch.silence.answered(NEAR)
    for _ in range((LIMIT + 1) * REST):
        watch.look()
    watch.silence.answered(NEAR)
    assert watch.silence.silent == {NEAR}


def test_answers_that_come_late_are_answers() -> None:
    watch = Watch()
    for _ in range(10 * LIMIT):
        watch.look(sent=1)
        watch.look()
        watch.look()
        watch.silence.answered(NEAR)
    assert not watch.silence.silent


def test_strangers_answers_and_former_gateways_count_for_nothing() -> None:
    watch = Watch()
    watch.silence.answered(SIX)
    watch.look(sent=1)
    for _ in range(LIMIT + 1):
        watch.look()
    watch.silence.follow((FAR,))
    assert not watch.silence.silent
    watch.silence.follow((NEAR, FAR))
    assert not watch.silence.silent, "it begins from the beginning"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=60))
def test_a_gateway_that_answers_each_request_is_never_silent(steps: list[tuple[int, int, bool]]) -> None:
    watch = Watch()
    for sent, received, _ in steps:
        for asked in watch.look(sent, received):
            watch.silence.answered(asked)
        assert not watch.silence.silent


def test_an_uplink_knows_its_versions() -> None:
    prefix = IPv6Network("fd00::/48")
    assert Uplink("eth1", Way.NAT, Way.NPT, prefix, prefix).versions == (4, 6)
    assert Uplink("eth1", Way.OFF, Way.NAT).versions == (6,)
