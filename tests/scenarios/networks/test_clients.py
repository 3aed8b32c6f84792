"""Clients of access nodes: they get addresses, reach the outside and each other, and keep both when they move.

The mesh is that of ``tests/lab/roaming.py``: access nodes a and b with the relay r between them, which nobody trusts.
"""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest

from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.basics.waiting import wait_until
from tests.lab.gateways import FITS_TUNNEL, NARROW, OUTSIDE4, OUTSIDE6
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema
from tests.lab.roaming import Roaming, Station, roaming
from tests.scenarios.expectations import assert_nothing_clear, captured, wait_no_drift

NAMED = "9.9.9.9"
"""The address of a name outside. dnsmasq hands on no private one, nor one of the examples of RFC 5737."""
LARGE = 2_000_000
"""Bytes: a path MTU that is wrong by one header stalls the transfer."""
OUTAGE = 1.0
"""Seconds without a datagram on a machine with other work; how long a move takes is measured by a benchmark."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Roaming]:
    with roaming("clients", page={"access": True}) as made:
        made.join("a")
        yield made


@pytest.fixture(scope="module")
def other(mesh: Roaming) -> Station:
    """Return a second client, which stays at b."""
    return mesh.join("b", Station.create(mesh.lab, 2, "a", "b"))


@pytest.fixture
def at_a(mesh: Roaming) -> Roaming:
    """Return the mesh with the client at a."""
    mesh.lab.heal()
    mesh.move("a")
    return mesh


@pytest.mark.parametrize("version", [4, 6])
def test_a_flow_goes_on_through_its_gateway_when_the_client_moves(at_a: Roaming, version: int) -> None:
    near, far = (at_a.uplinks[name].inner[0 if version == 4 else 1] for name in "gh")
    before = at_a.own(at_a.station)
    with at_a.conversation(version, 7050) as first, at_a.conversation(version, 7051) as second:
        assert first.seen_from() == near
        at_a.move("b")
        assert first.seen_from() == near, "the flow stays with the gateway that translates its addresses"
        assert second.seen_from() == far, "a flow that begins takes the nearest"
        at_a.move("a")
        assert (first.seen_from(), second.seen_from()) == (near, far)
    assert at_a.own(at_a.station) == before


def test_streams_to_and_from_the_outside_go_on_while_the_client_moves_and_relays_see_esp_alone(at_a: Roaming) -> None:
    flows = [at_a.flow(4, 7052), at_a.flow(6, 7053), at_a.answers(4, 7060), at_a.answers(6, 7061)]
    with captured(at_a.lab, "moves") as captures, flows[0], flows[1], flows[2], flows[3]:
        for name in ("b", "a", "b"):
            at_a.move(name)
            for flow in flows:
                wait_arrivals(flow, 50)
    assert_nothing_clear(captures)
    assert captures["r"].counts[Kind.ESP] > 0
    assert max(flow.result.longest_gap for flow in flows) < patient(OUTAGE), [flow.summary() for flow in flows]


@pytest.mark.parametrize("version", [4, 6])
def test_a_large_transfer_from_a_client_to_the_outside_fits_and_survives_a_move(at_a: Roaming, version: int) -> None:
    target = at_a.outside, OUTSIDE4 if version == 4 else OUTSIDE6
    done = traffic.tcp_stream(at_a.station.end(version), target, LARGE)
    assert done.octets == LARGE
    at_a.move("b")
    assert traffic.tcp_stream(at_a.station.end(version), target, LARGE).octets == LARGE


@pytest.mark.parametrize("version", [4, 6])
def test_a_client_hears_which_packets_are_too_large_also_after_a_move(at_a: Roaming, version: int) -> None:
    """The flow stays with its gateway, whose provider has a private address."""
    source = at_a.station.end(version)
    with at_a.uplinks["g"].reporting_from_private(), at_a.narrow.datagrams_from(source) as sending:
        assert sending.arrives(NARROW)
        at_a.move("b")
        assert sending.learn(FITS_TUNNEL) == NARROW
        assert sending.arrives(NARROW)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("place", ["a", "b"])
def test_two_clients_talk_wherever_they_are(at_a: Roaming, other: Station, version: int, place: str) -> None:
    """At one node too, where no frame passes from one to the other."""
    at_a.move(place)
    for source, target in ((at_a.station, other), (other, at_a.station)):
        with captured(at_a.lab, "pair") as captures, Flow(source.end(version), target.end(version)) as flow:
            wait_arrivals(flow, 10)
        assert_nothing_clear(captures)


@pytest.mark.parametrize("version", [4, 6])
def test_a_client_talks_with_a_camera_behind_another_node_wherever_it_is(at_a: Roaming, version: int) -> None:
    camera = at_a.camera
    filmed = camera.namespace, camera.ipv4 if version == 4 else camera.address
    watching = at_a.station.end(version)
    with captured(at_a.lab, "camera") as captures, at_a.film(version, 7055) as film:
        wait_arrivals(film, 20)
        at_a.move("b")
        wait_arrivals(film, 20)
        with Flow(watching, filmed, port=7056) as orders:
            wait_arrivals(orders, 20)
    assert_nothing_clear(captures)
    assert film.result.longest_gap < patient(OUTAGE), film.summary()


def test_a_client_keeps_its_addresses_when_its_node_dies(at_a: Roaming) -> None:
    a, station = at_a.lab["a"], at_a.station
    before = at_a.own(station)
    for daemon in a.daemons.all():
        daemon.kill()
    for neighbour in "gr":
        at_a.lab.link("a", neighbour).down()
    try:
        at_a.move("b")
        assert station.ask_dhcp(at_a.lab["b"].directory) in before
        with at_a.flow(4, 7054) as flow:
            wait_arrivals(flow, 10)
        assert at_a.own(station) == before
    finally:
        at_a.lab.heal()
        a.wait_protected(at_a.lab["b"], 120)
        for gateway in "gh":
            a.wait_protected(at_a.lab[gateway], 120)


def test_clients_stay_connected_while_meshsecd_is_away_and_are_known_to_the_next(at_a: Roaming) -> None:
    a = at_a.lab["a"]
    with at_a.flow(4, 7055) as flow:
        flow.grace = 30.0
        wait_arrivals(flow, 10)
        a.daemons.agent.kill()
        wait_arrivals(flow, 50)
        at_a.lab.heal()
        own = at_a.own(at_a.station)
        a.wait_for("the client is known again", lambda: set(at_a.known("a", at_a.station)) >= own, 60)
        wait_arrivals(flow, 50)
    assert flow.result.longest_gap < patient(OUTAGE), flow.summary()


def test_what_people_are_shown(at_a: Roaming, other: Station) -> None:
    a = at_a.lab["a"]
    view = json.loads(a.meshsec("clients", "--json").stdout)
    schema("meshsec-clients-1").validate(view)
    assert {one["mac"]: one["node"] for one in view["clients"]} == {at_a.station.mac: None, other.mac: "b"}
    assert {one["name"] for one in view["clients"]} <= {None, "b.a.mesh"}
    assert view["nodes"] == ["b"]
    assert "Clients here: 1 of at most 32" in a.meshsec("clients").stdout
    wait_no_drift(a)
    assert [one["level"] for one in checks(a) if one["name"] == "clients"] == ["ok"]
    client = at_a.station.addresses(4)[0]
    assert "is at this node" in a.meshsec("explain", client).stdout
    assert "b serves it" in a.meshsec("explain", other.addresses(6)[0]).stdout


def checks(node: Node) -> list[dict[str, Any]]:
    """Return what doctor says."""
    found: list[dict[str, Any]] = json.loads(node.meshsec("doctor", "--json", check=False).stdout)["checks"]
    return found


def test_a_gateway_that_clients_use_has_nothing_to_complain_of(at_a: Roaming, other: Station) -> None:
    """olsrv2d's routes to clients are behind those of the tunnel, and no network lacks its way."""
    for name in "gh":
        node = at_a.lab[name]
        wait_no_drift(node)
        amiss = {one["name"] for one in checks(node) if one["level"] != "ok"}
        assert not amiss & {"routes past the tunnel", "networks of peers", "networks behind this node"}


def test_who_does_not_hear_clients_says_so(at_a: Roaming) -> None:
    a = at_a.lab["a"]
    a.daemons.ear.kill()
    (said,) = a.wait_for("a problem", lambda: a.control.ask("clients")["problems"], 60)
    assert "nobody hears clients" in said
    assert {one["level"] for one in checks(a) if one["name"] == "clients"} == {"warn"}
    at_a.lab.heal()
    a.wait_for("no problem", lambda: not a.control.ask("clients")["problems"], 60)


@pytest.fixture
def resolver(mesh: Roaming) -> Iterator[None]:
    """Run a resolver outside, which node a asks: it knows one address for all names of ``example``, and of ``mesh``."""
    (mesh.lab["a"].daemons.beside_dnsmasq / "resolv.conf").write_text(f"nameserver {OUTSIDE6}\n", "ascii")
    argv = [programs.dnsmasq(), "--keep-in-foreground", "--user=root", "--conf-file=/dev/null", "--pid-file="]
    argv += ["--no-resolv", "--no-hosts", "--bind-interfaces", f"--listen-address={OUTSIDE6}"]
    argv += [f"--address=/example/{NAMED}", f"--address=/mesh/{NAMED}"]
    with subprocess.Popen(["ip", "netns", "exec", mesh.outside, *argv], stderr=subprocess.DEVNULL) as process:
        yield
        process.kill()


@pytest.mark.parametrize(("version", "node"), [(4, "10.130.0.1"), (6, "fd12:3456:789a:1::1")])
def test_names_are_resolved_outside_and_protected_on_the_way(
    at_a: Roaming, resolver: None, version: int, node: str
) -> None:
    question = bytes.fromhex("000101000001000000000000") + f"\x02w{version}\x07example\0\0\x01\0\x01".encode("ascii")
    with captured(at_a.lab, "names") as captures, traffic.udp_socket(*at_a.station.end(version)) as asking:
        asking.settimeout(1)
        answers = partial(_asked, asking, question, node)
        answer = wait_until("an address for the name", answers, [], 30)
    assert answer.endswith(ip_address(NAMED).packed)
    assert_nothing_clear(captures)
    assert captures["a"].counts[Kind.ESP] > 0


def _asked(asking: socket.socket, question: bytes, node: str) -> bytes | None:
    """Return an answer that has an address."""
    asking.sendto(question, (node, 53))
    with suppress(TimeoutError):
        answer = asking.recv(512)
        return answer if answer[6:8] != bytes(2) else None
    return None


@pytest.mark.parametrize("server", ["10.130.0.1", "fd12:3456:789a:1::1"])
def test_clients_resolve_nodes_and_nobody_else_gives_a_name_of_theirs(
    at_a: Roaming, resolver: None, server: str
) -> None:
    """The resolver outside knows all names of ``mesh``, and the client calls itself like a node."""
    a, b, station = at_a.lab["a"], at_a.lab["b"], at_a.station

    def found(asked: str) -> set[str]:
        """Return the addresses of a name, or the name of an address."""
        lines = station.run(programs.busybox(), "nslookup", asked, server, check=False).splitlines()[3:]
        return {line.split()[-1] for line in lines if line.startswith("Address") or "name =" in line}

    assert station.ask_dhcp(a.directory, "b") == station.addresses(4)[0]
    assert found("b.mesh") == {b.address}
    assert found("a.mesh") == {a.address}
    assert found(b.address) == {"b.mesh"}
    assert found("unknown.mesh") == found("fc00::1") == found("b") == set()
    wait_until("its name is one below a", lambda: found("b.a.mesh") == at_a.own(station), [], 10)
    assert {name for one in at_a.own(station) for name in found(one)} == {"b.a.mesh"}
    at_a.move("b")
    wait_until("its name follows it", lambda: found("b.b.mesh") == at_a.own(station), [], 20)
    assert found("b.a.mesh") == set()
    assert {name for one in at_a.own(station) for name in found(one)} == {"b.b.mesh"}
    at_a.move("a")
    a.meshsec("peer", "add", "later", at_a.lab["r"].card)
    wait_until("a later peer has a name", lambda: found("later.mesh") == {at_a.lab["r"].address}, [], 10)
    a.meshsec("peer", "remove", "later")
    wait_until("it has none any more", lambda: found("later.mesh") == set(), [], 10)


def test_nothing_else_of_the_node_is_open(at_a: Roaming) -> None:
    station, a = at_a.station, at_a.lab["a"]
    before = dropped(at_a, "to_node")
    for target in ("10.130.0.1", a.address):
        assert traffic.send(station.end(6 if ":" in target else 4), target, port=7056) == 5
    a.wait_for("ten packets are counted", lambda: dropped(at_a, "to_node") >= before + 10, 30)


_ASK = """
import json, sys, urllib.error, urllib.request
address, body = sys.argv[1], sys.argv[2].encode() or None
asked = urllib.request.Request(address, body, {"Content-Type": "application/json", "Accept-Encoding": "gzip"})
try:
    print(urllib.request.urlopen(asked, timeout=3).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print("nothing")
"""
"""Asks for a page, and prints the status of the answer."""


@pytest.mark.parametrize("host", ["10.130.0.1", "[fd12:3456:789a:1::1]"])
def test_clients_see_the_page_where_they_may_and_cannot_log_in(at_a: Roaming, host: str) -> None:
    a, b, page = at_a.lab["a"], at_a.lab["b"], f"http://{host}:8269"
    token = json.dumps({"token": a.control.ask("page_login")["token"]})
    assert _asked_by_http(at_a, f"{page}/api/document") == "200"
    assert _asked_by_http(at_a, f"{page}/api/login", token) == "403"
    assert _asked_by_http(at_a, f"http://[{a.address}]:8269/api/document") == "nothing"
    of_b = json.dumps({"token": b.control.ask("page_login")["token"]})
    assert _asked_by_http(at_a, f"http://[{b.address}]:8269/api/login", of_b) == "403"
    assert a.run("python3", "-c", _ASK, "http://localhost:8269/api/login", token).stdout == "200\n"
    assert a.run("python3", "-c", _ASK, f"http://[{b.address}]:8269/api/login", of_b).stdout == "200\n"


def _asked_by_http(mesh: Roaming, address: str, body: str = "") -> str:
    return mesh.station.run("python3", "-c", _ASK, address, body).strip()


def dropped(mesh: Roaming, counter: str, node: str = "a") -> int:
    """Return how many packets a counter of the clients' table has counted."""
    listed = mesh.lab[node].run("nft", "-j", "list", "counter", "inet", "meshsec_access", counter).stdout
    return int(next(one["counter"]["packets"] for one in json.loads(listed)["nftables"] if "counter" in one))


def _has_dropped(mesh: Roaming, node: str, count: int) -> bool:
    return dropped(mesh, "between_clients", node) >= count


def test_clients_that_are_isolated_reach_the_outside_and_not_each_other() -> None:
    with roaming("isolated", isolated=True) as mesh:
        first = mesh.join("a")
        second = mesh.join("a", Station.create(mesh.lab, 2, "a", "b"))
        for place in ("a", "b"):
            mesh.move(place)
            for version in (4, 6):
                assert traffic.send(first.end(version), second.end(version)[1], port=7057) == 5
            mesh.lab[place].wait_for("ten packets are counted", partial(_has_dropped, mesh, place, 10), 30)
            with mesh.flow(4, 7058) as flow:
                wait_arrivals(flow, 10)
