"""overlayd and cjdroute work together as neighbours, as relays for each other, and over beacons."""

from collections.abc import Iterator
from ipaddress import ip_address
from itertools import permutations

import pytest

from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Cjdroute, Neighbour, Overlayd, OverlayRouter, Secret
from tests.lab.net.traffic import tcp_stream
from tests.lab.node import capabilities
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.skipif(not programs.find("cjdroute"), reason="cjdroute is not on PATH"),
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

Pair = tuple[OverlayRouter, OverlayRouter]

PASSWORD, LOGIN = Secret("open sesame"), Secret("open sesame", "ali baba")
PAIRS = {"overlayd-begins": (Overlayd, Cjdroute), "cjdroute-begins": (Cjdroute, Overlayd)}
LARGEST_ECHO = 1304 - 40 - 8
"""The most bytes of an echo with TUN devices that have cjdroute's MTU."""
STREAM = 4 << 20
RESTART = 100.0
"""Seconds for the return of a neighbour: cjdroute detects after a minute that keys are lost."""


@pytest.fixture(scope="module", params=PAIRS.values(), ids=list(PAIRS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Start two neighbours with a login; the first initiates."""
    with cjdns.line(request.param) as (first, second):
        cjdns.connect(1, first, second, LOGIN, 2)
        cjdns.start((second, first))
        yield first, second


def wait_pings(*routers: OverlayRouter, seconds: float = 45) -> None:
    """Wait until every router reaches every other."""
    for one, other in permutations(routers, 2):
        one.wait_ping(other, seconds)


def test_neighbours_reach_each_other(pair: Pair) -> None:
    wait_pings(*pair)
    for one, other in permutations(pair):
        one.wait_neighbour(other)


def test_packets_of_every_size_pass(pair: Pair) -> None:
    wait_pings(*pair)
    for one, other in permutations(pair):
        for size in (0, 1, 500, LARGEST_ECHO):
            one.run("ping", "-n", "-q", "-M", "do", "-c", "1", "-W", "10", "-s", str(size), other.address)
        stream = tcp_stream((one.namespace, one.address), (other.namespace, other.address), STREAM, 60)
        assert stream.octets == STREAM, "a stream that is made of large segments"


def test_each_make_reports_in_its_admin_api_what_the_other_answers(pair: Pair) -> None:
    wait_pings(*pair)
    for one, other in permutations(pair):
        (neighbour,) = one.admin.call("InterfaceController_peerStats", page=0)["peers"]
        way = ".".join(neighbour["addr"].split(".")[1:5])
        # Only overlayd asks for the supernode: cjdroute gets no answer from a node that has none.
        kinds = ["keyPing", "rpath", "lladdr", *(["snode"] if isinstance(one, Overlayd) else [])]
        answers = {kind: one.admin.call("SwitchPinger_ping", path=way, timeout=20_000, **{kind: 1}) for kind in kinds}
        assert {kind: answer["result"] for kind, answer in answers.items()} == dict.fromkeys(kinds, "pong")
        assert answers["keyPing"]["key"] == other.key
        back = other.admin.call("SwitchPinger_ping", path=answers["rpath"]["rpath"], timeout=20_000, keyPing=1)
        assert back["key"] == one.key
        assert answers["lladdr"]["lladdr"] == f"10.78.1.{1 if one is pair[0] else 2}:{cjdns.PORT}"
        peers = one.admin.call("RouterModule_getPeers", path=neighbour["addr"])["peers"]
        assert any(peer.endswith(one.key) for peer in peers)
        itself = one.admin.call("RouterModule_getPeers", path="0000.0000.0000.0001")["peers"]
        assert {key for peer in itself for key in (one.key, other.key) if peer.endswith(key)} == {one.key, other.key}
        *steps, last = one.admin.stream("SearchRunner_search", ipv6=ip_address(other.address).exploded)
        assert (steps[-1]["from"].endswith(other.key), last["complete"]) == (True, 1)
        to = {"nodeToQuery": neighbour["addr"], "target": ip_address(other.address).exploded}
        assert one.admin.call("RouterModule_nextHop", **to)["result"] == "nodes"


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 1], ids=["who-begins", "who-is-called"])
def test_a_neighbour_that_comes_back_is_reached_again(pair: Pair, position: int) -> None:
    wait_pings(*pair)
    pair[position].daemon.kill()
    pair[position].start()
    wait_pings(*pair, seconds=RESTART)


@pytest.mark.parametrize("makes", PAIRS.values(), ids=list(PAIRS))
def test_a_password_without_login_is_enough(makes: tuple[type[OverlayRouter], type[OverlayRouter]]) -> None:
    with cjdns.line(makes) as (first, second):
        cjdns.connect(1, first, second, PASSWORD, 2)
        cjdns.start((second, first))
        wait_pings(first, second)


@pytest.mark.parametrize(
    ("known", "cause"),
    [(Secret("close sesame", LOGIN.login), "link-forged"), (Secret(LOGIN.password, "cassim"), "link-authentication")],
    ids=["wrong-password", "unknown-login"],
)
def test_who_does_not_know_the_secret_is_no_neighbour(known: Secret, cause: str) -> None:
    with cjdns.line((Cjdroute, Overlayd)) as (first, second):
        cjdns.connect(1, first, second, LOGIN, 2)
        second.plan.users = [known]
        cjdns.start((second, first))
        with OverlayControl(second.socket) as control:
            wait_until("HELLOs are refused", lambda: control.dropped(cause) >= 2, [], 30, last=control.ask)
        assert "ESTABLISHED" not in [*first.states().values(), *second.states().values()]


def test_hellos_that_cross_make_one_link() -> None:
    with cjdns.line((Overlayd, Cjdroute)) as (first, second):
        cjdns.connect(1, first, second, LOGIN, 2)
        cjdns.connect(1, second, first, LOGIN, 1)
        cjdns.start((first, second))
        wait_pings(first, second)


@pytest.mark.parametrize(
    "makes",
    [(Cjdroute, Overlayd, Cjdroute), (Overlayd, Cjdroute, Overlayd), (Overlayd, Cjdroute, Cjdroute)],
    ids=["overlayd-relays", "cjdroute-relays", "behind-cjdroute"],
)
def test_the_ends_of_a_line_reach_each_other(makes: tuple[type[OverlayRouter], ...]) -> None:
    with cjdns.line(makes) as (first, middle, last):
        cjdns.connect(1, first, middle, LOGIN, 2)
        cjdns.connect(2, last, middle, LOGIN, 1)
        cjdns.start((middle, first, last))
        wait_pings(first, last)


@pytest.mark.parametrize("medium", ["udp", "ethernet"])
def test_beacons_introduce_neighbours(medium: str) -> None:
    with cjdns.line((Overlayd, Cjdroute)) as (first, second):
        for router, device in ((first, "mesh-b"), (second, "mesh-a")):
            if medium == "udp":
                router.plan.udp_beacon = 2
            else:
                router.plan.ethernet[device] = 2
        cjdns.start((first, second))
        wait_pings(first, second)


@pytest.mark.parametrize("makes", PAIRS.values(), ids=list(PAIRS))
def test_neighbours_are_known_by_hardware_address(makes: tuple[type[OverlayRouter], type[OverlayRouter]]) -> None:
    with cjdns.line(makes) as (first, second):
        first.plan.ethernet["mesh-b"] = second.plan.ethernet["mesh-a"] = 0
        second.plan.users.append(LOGIN)
        there = cjdns.hardware_address(second, "mesh-a")
        first.plan.neighbours.append(Neighbour(there, second.key, LOGIN, "mesh-b"))
        cjdns.start((second, first))
        wait_pings(first, second)
