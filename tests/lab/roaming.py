"""Access nodes, a client that moves between them, two gateways, a camera behind one of these, and the outside.

The mesh is g - a - r - b - h, with c beside r where there is a third access node. Access nodes and the gateways g and h
trust each other; nobody trusts the relay r. The gateway g is next to a, h next to b; the camera is behind h. Only the
gateways have an IPv4 address outside.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from tests.lab.basics import programs
from tests.lab.basics.shell import run
from tests.lab.gateways import DEFAULTS, OUTSIDE4, OUTSIDE6, UPLINK, Conversation, NarrowHost, Uplink
from tests.lab.lab import Lab
from tests.lab.net.links import End, Link
from tests.lab.net.namespaces import within
from tests.lab.net.traffic import Flow
from tests.lab.node.behind import Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue

NETWORKS = ("10.130.0.0/16", "fd12:3456:789a:1::/64")
WLAN = "wlan0"
_XID = bytes.fromhex("0001af810100")
"""What an access point sends in the name of a client that has come (IEEE 802.2: XID)."""


@dataclass(frozen=True)
class Station:
    """A client: a namespace with one interface. The air around it is a hub, of which one port at most leads on."""

    namespace: str
    air: str
    number: int
    nodes: dict[str, Node] = field(default_factory=dict)

    @property
    def mac(self) -> str:
        """Return its MAC address."""
        return f"06:00:00:00:00:{self.number:02x}"

    @classmethod
    def create(cls, lab: Lab, number: int, *names: str) -> "Station":
        """Make a client that can reach these access nodes, and is at none."""
        nodes = {name: lab[name] for name in names}
        made = cls(lab.outsider(f"s{number}"), lab.outsider(f"air{number}"), number, nodes)
        made.sysctl("net.ipv6.conf.all.forwarding", 0)
        made.sysctl("net.ipv6.conf.default.accept_dad", 1)
        made.sysctl("net.ipv6.conf.all.accept_dad", 1)
        run(["ip", "-n", made.air, "link", "add", "hub", "up", "type", "bridge", "forward_delay", "0"])
        Link.create(End(made.namespace, WLAN), End(made.air, "to-client"))
        made.ip("link", "set", WLAN, "address", made.mac)
        for name, node in nodes.items():
            Link.create(End(node.namespace, f"ap{number}"), End(made.air, f"to-{name}"))
        for port in ("client", *names):
            run(["ip", "-n", made.air, "link", "set", f"to-{port}", "master", "hub"])
            made.set_port(port, "learning", "off")
        for name in names:
            made.set_port(name, "state", "disabled")
        return made

    def set_port(self, name: str, setting: str, value: str) -> None:
        """Change a port of the hub (bridge(8))."""
        run(["bridge", "-n", self.air, "link", "set", "dev", f"to-{name}", setting, value])

    def ip(self, *arguments: str) -> str:
        """Run ip(8) in the client."""
        return run(["ip", "-n", self.namespace, *arguments]).stdout

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a program in the client."""
        return run(["ip", "netns", "exec", self.namespace, *argv], check=check).stdout

    def sysctl(self, name: str, value: int) -> None:
        """Set a value of the client's kernel."""
        self.run("sysctl", "-qw", f"{name}={value}")

    def move(self, name: str) -> None:
        """Go to an access node, as a station roams: it leaves the former one at once, and the new one says so."""
        for other in self.nodes:
            if other != name:
                self.set_port(other, "state", "disabled")
        self.set_port(name, "state", "forwarding")
        self.associate()

    def associate(self) -> None:
        """Send the frame that an access point sends when the client has come."""
        addresses = b"\xff" * 6 + bytes.fromhex(self.mac.replace(":", ""))
        self.send_frame(addresses + len(_XID).to_bytes(2, "big") + _XID)

    def send_frame(self, frame: bytes) -> None:
        """Send a frame as it is."""
        with within(self.namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sock:
            sock.bind((WLAN, 0))
            sock.send(frame)

    def ask_dhcp(self, directory: Path, name: str = "") -> str:
        """Get an IPv4 address by DHCP, as a phone does at its first contact. Return it.

        ``name`` is what the phone calls itself.
        """
        script = directory / f"dhcp-{self.number}"
        script.write_text(_DHCP_SCRIPT, encoding="ascii")
        script.chmod(0o755)
        called = ["-x", f"hostname:{name}"] if name else []
        argv = [programs.busybox(), "udhcpc", "-f", "-n", "-q", "-i", WLAN, "-s", str(script), "-t", "10", "-T", "1"]
        self.run(*argv, *called)
        return self.addresses(4)[0]

    def end(self, version: int) -> tuple[str, str]:
        """Return its namespace and its address of an IP version."""
        return self.namespace, self.addresses(version)[0]

    def addresses(self, version: int) -> list[str]:
        """Return its addresses of one IP version, without link-local and tentative ones."""
        shown = json.loads(self.ip("-j", f"-{version}", "address", "show", "dev", WLAN, "scope", "global"))
        found = (info for one in shown for info in one.get("addr_info", ()))
        return [info["local"] for info in found if "local" in info and not info.get("tentative")]


_DHCP_SCRIPT = """#!/bin/sh
case $1 in
bound|renew)
    ip address replace $ip/$mask dev $interface
    ip route replace default via $router dev $interface
    ;;
esac
"""


@dataclass(frozen=True)
class Roaming:
    """The running mesh."""

    lab: Lab
    outside: str
    narrow: NarrowHost
    station: Station
    uplinks: dict[str, Uplink]
    camera: Host

    def join(self, name: str, station: Station | None = None) -> Station:
        """Bring a client to an access node and wait until it has its addresses and is served."""
        station = station or self.station
        station.move(name)
        station.ask_dhcp(self.lab[name].directory)
        node = self.lab[name]
        node.wait_for("the client's addresses", lambda: set(self.known(name, station)) >= self.own(station), 60)
        return station

    def own(self, station: Station) -> set[str]:
        """Return a client's addresses; it has one of each IP version at least, or those are not all yet."""
        found = {one for version in (4, 6) for one in station.addresses(version)}
        return found if {ip_address(one).version for one in found} == {4, 6} else {"not all yet"}

    def known(self, name: str, station: Station) -> list[str]:
        """Return which addresses of a client an access node serves."""
        shown = self.lab[name].control.ask("clients")["clients"]
        return next((one["addresses"] for one in shown if one["mac"] == station.mac and one["here"]), [])

    def flow(self, version: int, port: int = 7020, interval: float = 0.02) -> Flow:
        """Return a flow from the client to the outside."""
        target = OUTSIDE4 if version == 4 else OUTSIDE6
        return Flow(self.station.end(version), (self.outside, target), interval, port)

    def answers(self, version: int, port: int, interval: float = 0.02) -> Flow:
        """Return a flow from the outside to the client, which has asked for it."""
        source = OUTSIDE4 if version == 4 else OUTSIDE6
        return Flow((self.outside, source), self.station.end(version), interval, port, answers=True)

    def film(self, version: int, port: int, interval: float = 0.02) -> Flow:
        """Return a flow from the camera to the client."""
        source = self.camera.ipv4 if version == 4 else self.camera.address
        return Flow((self.camera.namespace, source), self.station.end(version), interval, port)

    def conversation(self, version: int, port: int) -> Conversation:
        """Return a flow of the client that asks from where the outside sees it."""
        return Conversation(self.station.end(version), self.outside, port)

    def move(self, name: str) -> None:
        """Have the client move to an access node, and wait until it is served there and all of it may pass."""
        self.station.move(name)
        own = self.own(self.station)
        self.lab[name].wait_for(f"the client at {name}", lambda: set(self.known(name, self.station)) >= own, 30)
        self.lab[name].wait_for("its packets pass", lambda: self._passes(name), 30)

    def _passes(self, name: str) -> bool:
        bound = self.lab[name].run("nft", "list", "set", "inet", "meshsec_access", "bound4").stdout
        return self.station.mac in bound


@contextmanager
def roaming(
    label: str,
    station: Callable[[Lab], Station] | None = None,
    places: str = "ab",
    *,
    overlay: bool = False,
    page: Mapping[str, PolicyValue | bool] | None = None,
    **access: PolicyValue,
) -> Iterator[Roaming]:
    """Start the mesh. ``station`` makes the client, by default one with cables. ``places`` are the access nodes, and
    ``access`` is what their tables have besides networks and peers, ``page`` their table of the page. With ``overlay``
    all nodes have the overlay too.
    """
    serving = {"networks": list(NETWORKS), "ports": ["ap1", "ap2"], **access}
    behind = Host("", 1).networks
    gateways = {**dict.fromkeys(DEFAULTS, ("g", "h")), **dict.fromkeys(behind, ("h",))}
    at = {
        name: Options(
            access={**serving, "peers": [one for one in places if one != name]},
            accept=gateways,
            overlay=overlay,
            page=page,
        )
        for name in places
    }
    offering = Options(accept=dict.fromkeys(NETWORKS, tuple(places)), gateway={"uplink": UPLINK}, overlay=overlay)
    third = [("r", "c")] if "c" in places else []
    with Lab(label, [("g", "a"), ("a", "r"), ("r", "b"), ("b", "h"), *third], Options(overlay=overlay)) as lab:
        lab.set_up({**at, "g": offering, "h": replace(offering, attached=behind)})
        outside = lab.outsider("out")
        for address in (OUTSIDE4, OUTSIDE6):
            run(["ip", "-n", outside, "address", "add", address, "dev", "lo"])
        uplinks = {name: Uplink.create(lab[name], outside, number) for number, name in enumerate("gh")}
        camera = Host.behind(lab["h"], lab.outsider("camera"), 1)
        made = station(lab) if station else Station.create(lab, 1, "a", "b")
        trusting = [lab[name] for name in (*places, "g", "h")]
        lab.trust(*(node.name for node in trusting))
        lab["r"].assign_addresses()
        lab.start("router", "overlayd", nodes=[lab["r"]]).start(nodes=trusting)
        for node in trusting:
            for other in trusting:
                if other is not node:
                    node.wait_protected(other)
        for name, nearest in (("a", "g"), ("b", "h")):
            node = lab[name]
            node.wait_for(f"the way out through {nearest}", partial(_leaves_by, node, nearest), 90)
        yield Roaming(lab, outside, NarrowHost.create(lab, outside), made, uplinks, camera)


def _leaves_by(node: Node, gateway: str) -> bool:
    ways = {one["network"]: one["peer"] for one in node.control.ask("status")["networks"]}
    return [ways.get(default) for default in DEFAULTS] == [gateway] * len(DEFAULTS)
