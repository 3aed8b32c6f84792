"""What a client calls itself is its name below that of its node: at the node, at its peers, and at clients of both.

The mesh is a - c. Both are access nodes, each with a network of its own, and trust each other.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest
from scapy.layers.dns import DNS, DNSQR

from meshsec.core.services.services import PORT
from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.namespaces import within
from tests.lab.net.packets import Kind
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.schemas import schema
from tests.lab.roaming import Station
from tests.scenarios.expectations import captured
from tests.scenarios.machine import Machine, machine_of

NETWORKS = {
    "a": ("10.130.0.0/16", "fd12:3456:789a:1::/64"),
    "c": ("10.131.0.0/16", "fd12:3456:789a:2::/64"),
}
SERVERS = {"a": ("10.130.0.1", "fd12:3456:789a:1::1"), "c": ("10.131.0.1", "fd12:3456:789a:2::1")}
OFFERED = '\n[[service]]\nname = "wiki"\nport = 80\n[[service]]\nname = "clock"\nport = 123\nprotocol = "udp"\n'
"""What c offers."""
COLUMNS = 80
SECONDS = 20.0
"""Time until a name is known everywhere."""


@dataclass(frozen=True)
class World:
    """The running mesh: a printer at a, a phone at c, and what programs of both nodes see.

    Each node's own programs ask the other node, where nobody answers, for names that are not in /etc/hosts.
    """

    lab: Lab
    printer: Station
    phone: Station
    machines: Mapping[str, Machine]

    def asked(self, station: Station, asked: str) -> set[str]:
        """Return what a client's node answers, by both of its addresses: addresses of a name, or a name."""
        (node,) = station.nodes
        found = [_answered(station, asked, server) for server in SERVERS[node]]
        assert found[0] == found[1]
        return found[0]

    def everywhere(self, asked: str) -> set[frozenset[str]]:
        """Return the answers that nodes and clients get."""
        here = [self.asked(one, asked) for one in (self.printer, self.phone)]
        look_up: Callable[[Machine], set[str]] = (
            (lambda machine: {machine.name(asked)} - {""})
            if _is_address(asked)
            else (lambda machine: set(machine.addresses(asked)))
        )
        there = [look_up(machine) for machine in self.machines.values()]
        return {frozenset(one) for one in (*here, *there)}

    def wait_everywhere(self, asked: str, found: set[str]) -> None:
        """Wait until all get these answers."""
        wanted = {frozenset(found)}
        wait_until(f"{asked} is {found}", lambda: self.everywhere(asked) == wanted or None, [], SECONDS)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _answered(station: Station, asked: str, server: str) -> set[str]:
    lines = station.run(programs.busybox(), "nslookup", asked, server, check=False).splitlines()[3:]
    return {line.split()[-1] for line in lines if line.startswith("Address") or "name =" in line}


def join(station: Station, name: str) -> None:
    """Bring a client to its node, where it calls itself so."""
    (node,) = station.nodes.values()
    station.move(node.name)
    station.ask_dhcp(node.directory, name)
    wait_until("its addresses", lambda: station.addresses(4) and station.addresses(6), [], SECONDS)


@contextmanager
def running(root: Path) -> Iterator[World]:
    at = {
        name: Options(
            access={"networks": list(NETWORKS[name]), "ports": [*ports]},
            accept=dict.fromkeys(NETWORKS[other], (other,)),
        )
        for name, other, ports in (("a", "c", ("ap1", "ap3", "ap4")), ("c", "a", ("ap2",)))
    }
    with Lab("names", [("a", "c")]) as lab, ExitStack() as stack:
        lab.set_up(at)
        with lab["c"].config.open("a", encoding="utf-8") as file:
            file.write(OFFERED)
        printer, phone = Station.create(lab, 1, "a"), Station.create(lab, 2, "c")
        lab.trust("a", "c").start()
        lab["a"].wait_protected(lab["c"])
        resolvers = {"a": lab["c"].address, "c": lab["a"].address}
        machines = {
            name: stack.enter_context(machine_of(lab[name], root / name, nameserver=resolvers[name]))[0]
            for name in "ac"
        }
        made = World(lab, printer, phone, machines)
        for station, name in ((printer, "Printer_2"), (phone, "phone")):
            join(station, name)
        yield made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("names")) as made:
        yield made


def own(station: Station) -> set[str]:
    return {*station.addresses(4), *station.addresses(6)}


def test_a_client_has_a_name_everywhere_both_ways_also_without_meshsecd_and_in_a_partition(world: World) -> None:
    names = {"printer-2.a.mesh": own(world.printer), "phone.c.mesh": own(world.phone)}
    for name, addresses in names.items():
        world.wait_everywhere(name, addresses)
        for address in addresses:
            assert world.everywhere(address) == {frozenset({name})}
    shown = json.loads(world.lab["a"].meshsec("clients", "--json", check=False).stdout)
    schema("meshsec-clients-1").validate(shown)
    assert [one["name"] for one in shown["clients"]] == ["printer-2.a.mesh"]
    table = world.lab["a"].meshsec("clients", check=False).stdout.splitlines()
    assert "printer-2.a.mesh" in table[2]
    assert max(map(len, table)) <= COLUMNS
    world.lab.link("a", "c").down()
    for node in "ac":
        world.lab[node].daemons.agent.kill()
    for name, addresses in names.items():
        assert world.everywhere(name) == {frozenset(addresses)}
    for node in "ac":
        world.lab[node].daemons.agent.start()
        world.lab[node].daemons.agent.wait_ready()
    for name, addresses in names.items():
        world.wait_everywhere(name, addresses)
    world.lab.heal()
    world.lab["a"].wait_protected(world.lab["c"])
    assert world.everywhere("printer-2.c.mesh") == {frozenset()}


def on_the_air(world: World, ask: Callable[[], object]) -> int:
    """Return how many packets are sent on the mesh's links meanwhile, beside those of the router and of IKE."""
    with captured(world.lab, "air") as captures:
        ask()
    assert [seen.lost for seen in captures.values()] == [0] * len(captures)
    return sum(count for seen in captures.values() for kind, count in seen.sent.items() if kind not in QUIET)


QUIET = (Kind.OLSR, Kind.IKE, Kind.CONTROL)


def test_no_look_up_sends_a_byte_into_the_mesh(world: World) -> None:
    """In the negative case the resolver that node a asks is behind c."""
    world.wait_everywhere("phone.c.mesh", own(world.phone))
    resolv_conf = world.lab["a"].daemons.beside_dnsmasq / "resolv.conf"
    resolv_conf.write_text(f"nameserver {world.lab['c'].address}\n", "ascii")
    outside = partial(_answered, world.printer, "example.org", SERVERS["a"][0])
    wait_until("what a client asks outside is seen", lambda: on_the_air(world, outside) or None, [], SECONDS)
    assert on_the_air(world, lambda: world.machines["a"].addresses("unknown.mesh")) > 0, (
        "programs of a node ask outside"
    )
    known = ["a.mesh", "c.mesh", "phone.c.mesh", "printer-2.a.mesh", world.lab["c"].address, *own(world.phone)]
    assert on_the_air(world, lambda: [world.everywhere(one) for one in known]) == 0
    unknown = ["unknown.mesh", "unknown.c.mesh", "c", "fc00::1", "10.130.99.99", "fd12:3456:789a:2::99"]
    assert on_the_air(world, lambda: [world.asked(world.printer, one) for one in unknown]) == 0


def records(world: World, name: str, kind: str) -> set[str]:
    """Return what the printer is told at a, as scapy reads it."""
    question = bytes(DNS(id=7, rd=1, qd=DNSQR(qname=name, qtype=kind)))
    with traffic.udp_socket(*world.printer.end(4)) as asking:
        asking.settimeout(3)
        asking.sendto(question, (SERVERS["a"][0], 53))
        try:
            answer = DNS(asking.recv(4096))
        except TimeoutError:
            return {"no answer"}
    found = [one for one in answer.an or () if one.type == answer.qd[0].qtype]
    if kind == "SRV":
        return {f"{one.target.decode()}:{one.port}" for one in found}
    return {(b"".join(one.rdata) if kind == "TXT" else one.rdata).decode() for one in found}


def browse(world: World) -> None:
    """Find services as RFC 6763 says in sections 4, 9 and 11."""
    wiki, clock = "wiki on c._http._tcp.mesh.", "clock on c._ntp._udp.mesh."
    for kind in ("b", "lb"):
        assert records(world, f"{kind}._dns-sd._udp.mesh", "PTR") == {"mesh."}
    assert records(world, "_services._dns-sd._udp.mesh", "PTR") == {"_http._tcp.mesh.", "_ntp._udp.mesh."}
    assert records(world, "_http._tcp.mesh", "PTR") == {wiki}
    assert records(world, "_ntp._udp.mesh", "PTR") == {clock}
    assert (records(world, wiki, "SRV"), records(world, clock, "SRV")) == ({"c.mesh.:80"}, {"c.mesh.:123"})
    assert records(world, wiki, "TXT") == {""}
    assert records(world, "_ssh._tcp.mesh", "PTR") == set()


def wait_webs(world: World, found: set[str]) -> None:
    """Wait for services of the web, while every question for a name has its answer."""

    def both() -> bool:
        assert _answered(world.printer, "a.mesh", SERVERS["a"][0]) == {world.lab["a"].address}
        return records(world, "_http._tcp.mesh", "PTR") == found

    wait_until(f"services {found}", lambda: both() or None, [], SECONDS)


def test_clients_find_services_by_dns_sd_and_what_answers_names_goes_on_when_they_change(world: World) -> None:
    a, c = world.lab["a"], world.lab["c"]
    wait_webs(world, {"wiki on c._http._tcp.mesh."})
    assert on_the_air(world, lambda: browse(world)) == 0
    names = a.daemons.get("dnsmasq")
    assert names is not None
    before = names.pid
    a.distrust(c)
    wait_webs(world, set())
    a.trust(c)
    a.wait_protected(c)
    wait_webs(world, {"wiki on c._http._tcp.mesh."})
    browse(world)
    assert names.pid == before


def lines(node: Node) -> set[str]:
    """Return the names of clients that a node knows."""
    text = (node.run_directory / "names/nodes").read_text("ascii")
    return {line for line in text.splitlines() if line.split()[1].count(".") > 1}


def test_a_hostile_client_takes_no_name_of_a_node_nor_of_another_client(world: World) -> None:
    """It joins a, where the printer is, and calls itself like c. What it says after that is too soon or no name."""
    a, before = world.lab["a"], lines(world.lab["a"])
    namesake, hostile = (Station.create(world.lab, number, "a") for number in (3, 4))
    for station, said in (
        (namesake, ["printer-2"]),
        (hostile, ["\n10.130.0.9 c.mesh", "c", "printer-2"]),
    ):
        join(station, said[0])
        for one in said[1:]:
            station.ask_dhcp(a.directory, one)
    a.wait_for("its name below a", lambda: lines(a) - before or None, SECONDS)
    wait_until("both versions", lambda: world.asked(hostile, "c.a.mesh") == own(hostile) or None, [], SECONDS)
    assert {line.split()[1] for line in lines(a) - before} == {"c.a.mesh"}
    assert before <= lines(a)
    for node in (world.lab["c"], a):
        assert set(world.machines["a"].addresses(f"{node.name}.mesh")) == {node.address}
        assert world.asked(world.printer, f"{node.name}.mesh") == {node.address}
    world.wait_everywhere("printer-2.a.mesh", own(world.printer))


def test_a_hostile_peer_names_nothing_but_clients_behind_it_below_its_own_name(world: World) -> None:
    """Node c's meshsecd is away, and root there sends what it likes through the SA."""
    a, c = world.lab["a"], world.lab["c"]
    world.wait_everywhere("phone.c.mesh", own(world.phone))
    before = lines(a)
    foreign = [a.address, c.address, world.printer.addresses(4)[0], world.printer.addresses(6)[0], "192.0.2.7", "::1"]
    behind = "10.131.7.7"
    c.daemons.agent.kill()
    with within(c.namespace, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as sender:
        sender.bind((c.address, PORT))

        def send(number: int, *rows: tuple[str, list[str]], **changed: object) -> None:
            packed = [(name, [ip_address(one).packed for one in addresses]) for name, addresses in rows]
            fields = {"type": "names", "epoch": 1, "number": number, "part": 0, "parts": 1, "rows": packed, **changed}
            sender.sendto(msgspec.msgpack.encode(fields), (a.address, PORT))

        send(1, *((name, [behind]) for name in ("printer-2.a", "a.mesh", "", "A", "x\n", "-x")))
        send(1, ("x", [behind]), node="a")
        send(1, ("x", [behind]), part=7)
        send(2, *(("b", [one]) for one in foreign), ("lie", [*foreign, behind]))
        # What it said before may be in force for a moment: "x" is below its own name, too.
        a.wait_for("what it may say", lambda: f"{behind} lie.c.mesh" in lines(a) or None, SECONDS)
        assert lines(a) - before == {f"{behind} lie.c.mesh"}
        assert {line for line in before if line.endswith(".a.mesh")} <= lines(a)
        for number in range(3, 3000):
            send(number, ("flood", [behind]))
    world.lab.heal()
    a.wait_protected(c)
    world.wait_everywhere("phone.c.mesh", own(world.phone))
    a.wait_for("the lies go", lambda: lines(a) == before or None, SECONDS)
