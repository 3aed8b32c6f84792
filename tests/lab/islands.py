"""Two islands of two nodes each, which a link over the internet joins, and the internet between them.

The mesh is a - b and c - d; b and c have a link. b is behind a NAT with its first uplink, and reaches the internet
directly with its second one. c has a public address and answers. All nodes trust each other. The internet has one IP
version alone.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from meshsec.core.config.island_settings import HELLO_INTERVAL
from meshsec.core.islands.paths import device
from meshsec.core.values.islands import PATHS
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.lab import Lab
from tests.lab.net.links import End, Link
from tests.lab.net.traffic import udp_socket
from tests.lab.node.options import Options
from tests.lab.node.routers import TextInterface
from tests.lab.observe.capture import Capture
from tests.lab.observe.overlay_control import OverlayControl

FIRST, SECOND = "eth1", "eth2"
"""The uplinks of b; c has the first one alone."""
_BEGINNING = bytes((33, 0x20, 34, 8, 0, 0, 0, 0, 0, 0, 0, 28))
"""Of the header of an IKE_SA_INIT request, what is behind the SPIs (RFC 7296, section 3.1); an SA payload is next."""
_NEW = 1.003
"""What a new link weighs more than a proven one, less what is lost when a metric is sent (RFC 7181, section 6.2)."""
TO_C, TO_NAT, TO_B = "to-c", "to-nat", "to-b"
"""The interfaces of the internet's router."""


@dataclass(frozen=True)
class Islands:
    """The running islands."""

    lab: Lab
    internet: str
    """The namespace of the internet's router."""
    nat: str
    public: tuple[str, str]
    """The addresses of c's uplink: where c can be reached, and the router's."""
    uplinks: Mapping[str, Link]
    """By what they join."""

    def capture(self, label: str) -> Capture:
        """Return a capture of all that crosses the internet."""
        directory = self.lab["b"].directory / "capture" / label
        return Capture(self.internet, (TO_C, TO_NAT, TO_B), directory)

    def wait_joined(self, seconds: float = 90) -> None:
        """Wait until the far ends of the islands are protected with each other."""
        self.lab["a"].wait_protected(self.lab["d"], seconds)
        self.lab["d"].wait_protected(self.lab["a"], seconds)

    def wait_paths(self, *paths: int, seconds: float = 60) -> None:
        """Wait until the routers of both ends have each other as a neighbour by exactly these paths of the link.

        A link weighs more in its first seconds, and routes are calculated less often while much changes: that is over,
        too.
        """
        for here, there in (("b", "c"), ("c", "b")):
            self.lab[here].wait_for(f"paths {paths}", lambda: self.paths(here, there) == set(paths), seconds)  # noqa: B023

    def paths(self, here: str, there: str) -> set[int]:
        """Return the paths by which a node's router has the other as a symmetric neighbour."""
        node = self.lab[here]
        router = TextInterface(node.namespace, node.run_directory / "query.sock")
        links = json.loads(router.ask("/nhdpinfo json link"))["link"]
        proven = {
            one["if"]
            for one in links
            if one["link_status"] == "symmetric" and one["domain_metric_out_raw"] < _NEW * one["domain_metric_in_raw"]
        }
        return {path for path in range(PATHS) if device(there, path) in proven}

    def overlay_path(self) -> int:
        """Return the path by which the overlay of b has c as its neighbour."""
        c = str(self.lab["c"].address)
        with OverlayControl(self.lab["b"].overlay_socket) as control:
            (used,) = [one["interface"] for one in control.status["peers"] if one["address"] == c]
        return [device("c", path) for path in range(PATHS)].index(used.removeprefix("ethernet "))

    def add_ipv6(self) -> None:
        """Give the second uplink of b IPv6, with a default route: a way for all that no rule stops."""
        for end, address in zip(self.uplinks["b"].ends, ("2001:db8:a2::2/64", "2001:db8:a2::1/64"), strict=True):
            run(["ip", "-n", end.namespace, "address", "replace", address, "dev", end.interface, "nodad"])
        run(["ip", "-n", self.lab["b"].namespace, "route", "replace", "default", "via", "2001:db8:a2::1"])

    def dropped(self, name: str, table: str = "meshsec", counter: str = "joints_out") -> int:
        """Return how many packets a node's rules have dropped by a counter."""
        listing = self.lab[name].run("nft", "-j", "list", "counter", "inet", table, counter, check=False).stdout
        entries = json.loads(listing or "{}").get("nftables", [])
        return sum(one["counter"]["packets"] for one in entries if "counter" in one)

    def link_problems(self, name: str) -> list[str]:
        """Return what a node says is wrong with its link."""
        problems: list[str] = self.lab[name].control.ask("status")["links"][0]["problems"]
        return problems


class Flooding:
    """First messages of IKE from one address to another, 500 each second at most, while the context is open."""

    def __init__(self, namespace: str, source: str, target: str) -> None:
        self.count = 0
        self._target = (target, 500)
        self._socket = udp_socket(namespace, source, 500)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _send(self) -> None:
        while not self._stop.wait(0.002):
            with suppress(OSError):
                self._socket.sendto(os.urandom(8) + bytes(8) + _BEGINNING, self._target)
                self.count += 1


@dataclass(frozen=True)
class _Addresses:
    """The internet's addresses in one IP version: at each uplink of ``wire`` the near end's and the far end's."""

    length: int
    b_nat: tuple[str, str]
    nat: tuple[str, str]
    b: tuple[str, str]
    c: tuple[str, str]


_ADDRESSES = {
    4: _Addresses(
        length=30,
        b_nat=("192.168.50.2", "192.168.50.1"),
        nat=("198.51.100.2", "198.51.100.1"),
        b=("198.51.100.6", "198.51.100.5"),
        c=("203.0.113.2", "203.0.113.1"),
    ),
    6: _Addresses(
        length=64,
        b_nat=("2001:db8:50::2", "2001:db8:50::1"),
        nat=("2001:db8:a1::2", "2001:db8:a1::1"),
        b=("2001:db8:a2::2", "2001:db8:a2::1"),
        c=("2001:db8:c::2", "2001:db8:c::1"),
    ),
}


def _join(ends: tuple[End, End], addresses: tuple[str, str], length: int) -> Link:
    link = Link.create(*ends)
    for end, address in zip(ends, addresses, strict=True):
        run(["ip", "-n", end.namespace, "address", "add", f"{address}/{length}", "dev", end.interface])
    return link


def _default(namespace: str, via: str, metric: int = 10) -> None:
    run(["ip", "-n", namespace, "route", "add", "default", "via", via, "metric", str(metric)])


def wire(lab: Lab, version: int) -> Islands:
    """Make the internet, the NAT, and the uplinks."""
    b, c = lab["b"].namespace, lab["c"].namespace
    internet, nat = lab.outsider("inet"), lab.outsider("nat")
    used = _ADDRESSES[version]
    uplinks = {
        "b-nat": _join((End(b, FIRST), End(nat, "inside")), used.b_nat, used.length),
        "nat": _join((End(nat, "outside"), End(internet, TO_NAT)), used.nat, used.length),
        "b": _join((End(b, SECOND), End(internet, TO_B)), used.b, used.length),
        "c": _join((End(c, FIRST), End(internet, TO_C)), used.c, used.length),
    }
    masquerade = 'type nat hook postrouting priority srcnat; oifname "outside" masquerade;'
    run(["ip", "netns", "exec", nat, "nft", f"table inet lab_nat {{ chain out {{ {masquerade} }}; }}"])
    _default(nat, used.nat[1])
    _default(c, used.c[1])
    _default(b, used.b_nat[1])
    _default(b, used.b[1], 20)
    return Islands(lab, internet, nat, used.c, uplinks)


@contextmanager
def islands(label: str, options: Options | None = None, version: int = 4) -> Iterator[Islands]:
    """Start the islands, and wait until the link joins them. ``options`` are those of all nodes."""
    plain = options or Options()
    public = _ADDRESSES[version].c[0]
    pace = {"hello_interval": patient(HELLO_INTERVAL)}
    begins = replace(plain, links=[{"peer": "c", "address": public, "uplinks": [FIRST, SECOND], **pace}])
    answers = replace(plain, links=[{"peer": "b", "uplinks": [FIRST], **pace}])
    with Lab(label, [("a", "b"), ("c", "d")], plain) as lab:
        lab.set_up({"b": begins, "c": answers})
        made = wire(lab, version)
        lab.trust_all().start()
        made.wait_joined()
        made.wait_paths(0, 1)
        yield made
