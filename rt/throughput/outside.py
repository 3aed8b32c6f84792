"""The lines of bench-outside: a host behind the first node, and a host outside behind each further one.

All further nodes are gateways. The host outside that is so many hops away is reached through the gateway at that
distance: the nearer ones have been turned off by then, so that distances must ascend. Flows are IPv4, and every plane's
gateway translates their addresses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from rt.throughput.lines import READY, SUITES, Line, Place, Planes, Testbed
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.gateways import UPLINK
from tests.lab.lab import Lab
from tests.lab.net import links
from tests.lab.net.links import Link
from tests.lab.node.behind import Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue
from tests.lab.node.routers import Mesh, Router, accepting

DEFAULT = "0.0.0.0/0"
End = tuple[str, str]
"""Where flows begin or end: a namespace and an address in it."""
_NAT = (
    f"table inet lab_nat {{ chain out {{ type nat hook postrouting priority srcnat; oifname {UPLINK} masquerade; }}; }}"
)


@dataclass(frozen=True)
class Outside:
    """A host outside, with a cable to the gateway that is ``number`` hops away."""

    namespace: str
    number: int

    @property
    def network(self) -> str:
        """Return the network of its address."""
        return f"203.0.113.{16 * self.number}/28"

    @property
    def address(self) -> str:
        """Return its address."""
        return f"203.0.113.{16 * self.number + 1}"

    def connect(self, gateway: Node | Router) -> None:
        """Make the gateway's uplink, and its default route."""
        here, there = (f"198.51.100.{4 * self.number + end}" for end in (1, 2))
        Link.create(links.End(gateway.namespace, UPLINK), links.End(self.namespace, "provider"))
        run(["ip", "-n", self.namespace, "address", "add", f"{here}/30", "dev", "provider"])
        run(["ip", "-n", self.namespace, "address", "add", self.address, "dev", "lo"])
        gateway.run("ip", "address", "add", f"{there}/30", "dev", UPLINK)
        gateway.run("ip", "route", "add", "default", "via", here, "dev", UPLINK)


def planes(testbed: Testbed) -> Planes:
    """Return what makes a running line, by plane."""
    suite = next(iter(SUITES))
    ike, esp = SUITES[suite]
    ipsec: Mapping[str, PolicyValue] = {"ike_proposals": [ike], "esp_proposals": [esp]}
    return {
        "plain": partial(plain, testbed),
        f"ipsec {suite}": partial(protected, testbed, Options(policy=ipsec)),
        "overlay": partial(protected, testbed, Options(policy={**ipsec, "data_plane": "overlay"}, overlay=True)),
    }


@contextmanager
def plain(testbed: Testbed) -> Iterator[Line]:
    """Networks by olsrv2d's routes, in the clear. Each gateway announces the network of its host outside."""
    inner = Host("").networks[1]
    hosts = [Outside("", number) for number in range(1, len(testbed.names))]
    networks = [inner, *(one.network for one in hosts)]
    with Mesh(testbed.pairs, medium=testbed.medium()) as mesh:
        routers = list(mesh.routers.values())
        accepted = accepting(zip(networks, routers, strict=True))
        for network, router in zip(networks, routers, strict=True):
            router.configure(f'{accepted}[[attached]]\nprefix = "{network}"\n')
        ends = _surround(routers, mesh.outsider)
        for router in routers[1:]:
            router.run("nft", _NAT)
        mesh.start()
        for router in routers:
            wanted = mesh.others(router.name) | set(networks) - {networks[routers.index(router)]}
            router.wait_reachable(wanted, READY)
        yield _line(ends, [[one.daemon] for one in routers], routers)


@contextmanager
def protected(testbed: Testbed, options: Options) -> Iterator[Line]:
    """Networks inside IPsec or the overlay, end to end between the first node and the gateway, as meshsecd does it."""
    inner = Host("").networks[1]
    first, *others = testbed.names
    using = replace(options, attached=[inner], accept={DEFAULT: others})
    offering = replace(options, accept={inner: [first]}, gateway={"uplink": UPLINK, "ipv6": "off"})
    with Lab("outside", testbed.pairs, offering, medium=testbed.medium()) as lab:
        lab.set_up(dict.fromkeys(others, offering) | {first: using})
        client, *gateways = lab.nodes.values()
        ends = _surround(list(lab.nodes.values()), lab.outsider)
        for gateway in gateways:
            lab.trust(client.name, gateway.name)
        lab.start()
        plane = options.policy.get("data_plane", "ipsec")
        for gateway in gateways:
            _wait_carried(client, gateway, plane)
            _wait_carried(gateway, client, plane)
        daemons = [one.daemons.all() for one in lab.nodes.values()]
        line = _line(ends, daemons, list(lab.nodes.values()))
        yield replace(line, prepare=partial(_leave_by, client, gateways, ends))


def _wait_carried(node: Node, peer: Node, plane: object) -> None:
    """Wait until user data to a peer is carried by a data plane."""

    def carried() -> bool:
        found = node.control.peer(peer.name)
        return (found.get("state"), found.get("data_plane")) == ("protected", plane)

    node.wait_for(f"{peer.name} is carried by {plane}", carried, READY)


def _leave_by(client: Node, gateways: Sequence[Node], ends: Sequence[End], hops: int) -> None:
    """Turn nearer gateways off, and wait until a new flow reaches the host outside that is so many hops away."""
    for nearer in gateways[: hops - 1]:
        if nearer.control.ask("gateway")["gateway"]["uplink"] is not None:
            nearer.meshsec("gateway", "off")
    name = gateways[hops - 1].name
    echo = ["ping", "-n", "-q", "-c", "1", "-W", "1", ends[hops][1]]

    def used() -> bool:
        ways = {one["network"]: one["peer"] for one in client.control.ask("status")["networks"]}
        return (
            ways.get(DEFAULT) == name and run(["ip", "netns", "exec", ends[0][0], *echo], check=False).returncode == 0
        )

    client.wait_for(f"the way out through {name}", used, READY)


def _surround(nodes: Sequence[Node | Router], outsider: Callable[[str], str]) -> Sequence[End]:
    """Connect a host to each node, behind the first and outside behind the others; return namespaces and addresses."""
    client, *gateways = nodes
    host = Host.behind(client, outsider("client"))
    outside = [Outside(outsider(f"out{number}"), number) for number in range(1, len(nodes))]
    for one, gateway in zip(outside, gateways, strict=True):
        one.connect(gateway)
    return [(host.namespace, host.ipv4), *((one.namespace, one.address) for one in outside)]


def _line(ends: Sequence[End], daemons: Sequence[Sequence[Daemon]], nodes: Sequence[Node | Router]) -> Line:
    """Return the line of these ends, each with the daemons of the node that it is connected to."""
    places = [Place(*end, running) for end, running in zip(ends, daemons, strict=True)]
    return Line(places, links=[(node.namespace, node.interfaces) for node in nodes])
