"""Two gateways with an uplink each, a node that uses them, a host behind it, and the outside.

The mesh is a - b - g and a - b - r - h. The gateways g and h and the node a trust each other; nobody trusts the relays
b and r. No node has an IPv4 address.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.links import End, Link
from tests.lab.net.path_mtu import Unfragmented
from tests.lab.net.traffic import Flow, udp_socket, wait_arrivals
from tests.lab.node.behind import Container, Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue

UPLINK = "eth1"
OUTSIDE4, OUTSIDE6 = "203.0.113.9", "2001:db8:b::9"
"""Addresses of a host outside."""
NARROW = 1280
"""MTU in bytes of the link to a further host outside."""
FITS_TUNNEL = 1300
"""Bytes of a packet that the tunnel carries whole, and that link does not."""
NARROW4, NARROW6 = "192.0.2.9", "2001:db8:c::9"
"""Addresses of the host behind that link."""
_HIDDEN = "10.99.0.1", "fd99::1"
"""Private addresses of the provider's router, which routers on the way often have."""
DEFAULTS = ("0.0.0.0/0", "::/0")
PORT = 7010


@dataclass(frozen=True)
class Uplink:
    """The link from a gateway to the outside, whose end outside is a provider's router."""

    gateway: Node
    link: Link
    number: int

    @property
    def inner(self) -> tuple[str, str]:
        """Return the gateway's addresses there, IPv4 first."""
        return f"198.51.100.{4 * self.number + 2}", f"2001:db8:a{self.number}::2"

    @property
    def outer(self) -> tuple[str, str]:
        """Return the provider's addresses there."""
        return f"198.51.100.{4 * self.number + 1}", f"2001:db8:a{self.number}::1"

    @classmethod
    def create(cls, gateway: Node, outside: str, number: int) -> "Uplink":
        """Connect a gateway to the outside."""
        ends = End(gateway.namespace, UPLINK), End(outside, f"to-{gateway.name}")
        made = cls(gateway, Link.create(*ends), number)
        made.set_addresses()
        return made

    def set_addresses(self) -> None:
        """Give both ends their addresses, and the gateway its default routes."""
        for end, (ipv4, ipv6) in zip(self.link.ends, (self.inner, self.outer), strict=True):
            run(["ip", "-n", end.namespace, "address", "replace", f"{ipv4}/30", "dev", end.interface])
            run(["ip", "-n", end.namespace, "address", "replace", f"{ipv6}/64", "dev", end.interface, "nodad"])
        for via in self.outer:
            self.gateway.run("ip", "route", "replace", "default", "via", via, "dev", UPLINK)

    def remove_defaults(self) -> None:
        """Take the gateway's default routes away."""
        for version in ("-4", "-6"):
            self.gateway.run("ip", version, "route", "del", "default", "dev", UPLINK)

    def lose_outside(self) -> None:
        """Let everything be lost that the provider forwards; the gateway sees carrier and its default route."""
        self.link.ends[1].filter("drop")

    @contextmanager
    def reporting_from_private(self) -> Iterator[None]:
        """Let the provider's router report errors from private addresses."""
        router = self.link.ends[1]
        with ExitStack() as stack:
            for own, gateway in zip(_HIDDEN, self.inner, strict=True):
                # An IPv6 address is a source at once only without detection of duplicates, even on `lo`.
                run(["ip", "-n", router.namespace, "address", "replace", own, "dev", "lo", "nodad"])
                route = [gateway, "dev", router.interface]
                run(["ip", "-n", router.namespace, "route", "add", *route, "src", own])
                stack.callback(run, ["ip", "-n", router.namespace, "route", "del", *route])
            yield

    def fix(self) -> None:
        """Put everything back as it was."""
        self.link.ends[1].unfilter()
        self.link.up()
        self.set_addresses()  # an interface that went down lost its IPv6 addresses


@dataclass(frozen=True)
class NarrowHost:
    """A host outside behind a link with a small MTU."""

    namespace: str

    @classmethod
    def create(cls, lab: Lab, outside: str) -> "NarrowHost":
        """Connect it to the outside."""
        made = cls(lab.outsider("narrow"))
        link = Link.create(End(outside, "to-narrow"), End(made.namespace, "eth0"))
        for end, suffix in zip(link.ends, (1, 9), strict=True):
            run(["ip", "-n", end.namespace, "link", "set", end.interface, "mtu", str(NARROW)])
            for address in (f"192.0.2.{suffix}/24", f"2001:db8:c::{suffix}/64"):
                run(["ip", "-n", end.namespace, "address", "add", address, "dev", end.interface])
        for via in ("192.0.2.1", "2001:db8:c::1"):
            run(["ip", "-n", made.namespace, "route", "add", "default", "via", via])
        return made

    def datagrams_from(self, source: tuple[str, str]) -> Unfragmented:
        """Return a sender of unfragmented datagrams to the host. It knows nothing of the path yet."""
        version, target = ("-6", NARROW6) if ":" in source[1] else ("-4", NARROW4)
        run(["ip", "-n", source[0], version, "route", "flush", "cache"])
        return Unfragmented(source, (self.namespace, target))


@dataclass(frozen=True)
class WaysOut:
    """The running mesh."""

    lab: Lab
    host: Host
    """Behind a."""
    container: Container
    """On a: a's kernel translates its addresses."""
    outside: str
    """The namespace outside."""
    narrow: NarrowHost
    uplinks: dict[str, Uplink]
    """By the gateway's name."""

    def flow(self, version: int, port: int = PORT, interval: float = 0.02) -> Flow:
        """Return a flow from the host behind a to the outside."""
        source = self.host.ipv4 if version == 4 else self.host.address
        target = OUTSIDE4 if version == 4 else OUTSIDE6
        return Flow((self.host.namespace, source), (self.outside, target), interval, port)

    @contextmanager
    def sending(self) -> Iterator[list[Flow]]:
        """Let the host behind a send to the outside, by both IP versions."""
        with ExitStack() as stack:
            flows = [stack.enter_context(self.flow(version)) for version in (4, 6)]
            for flow in flows:
                wait_arrivals(flow, 10)
            yield flows

    def conversation(self, version: int, port: int) -> "Conversation":
        """Return a flow of the host behind a that asks from where the outside sees it."""
        source = self.host.ipv4 if version == 4 else self.host.address
        return Conversation((self.host.namespace, source), self.outside, port)

    def used(self) -> dict[str, str | None]:
        """Return through which gateway a reaches each default route."""
        return {one["network"]: one["peer"] for one in self.lab["a"].control.ask("status")["networks"]}

    def wait_used(self, name: str, seconds: float = 60) -> None:
        """Wait until a reaches the outside through a gateway."""
        self.lab["a"].wait_for(f"the way out through {name}", lambda: set(self.used().values()) == {name}, seconds)

    def heal(self) -> None:
        """Start what does not run, put the uplinks back, and wait for the nearer gateway."""
        self.lab.heal()
        for uplink in self.uplinks.values():
            uplink.fix()
            if uplink.gateway.control.ask("gateway")["gateway"]["uplink"] is None:
                uplink.gateway.meshsec("gateway", "on")
            uplink.gateway.wait_protected(self.lab["a"], 120)
        self.wait_used("g", 120)


class Conversation:
    """A UDP flow of a host in the mesh, which asks from where the outside sees it."""

    def __init__(self, near: tuple[str, str], outside: str, port: int) -> None:
        """``near`` is the host's namespace and address, ``outside`` the namespace outside."""
        target = OUTSIDE6 if ":" in near[1] else OUTSIDE4
        self._target = (target, port)
        self._far = udp_socket(outside, target, port)
        self._near = udp_socket(*near)
        self._far.settimeout(1)
        self._near.settimeout(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._far.close()
        self._near.close()

    def seen_from(self) -> str:
        """Return the address from which the outside sees the host now. Its answer comes back to the host.

        A datagram may be lost while something moves, so the host asks again each second.
        """
        return wait_until("an answer from outside", self._asked, [], 30)

    def _asked(self) -> str:
        try:
            self._near.sendto(b"who am I?", self._target)
            _, sender = self._far.recvfrom(100)
            self._far.sendto(sender[0].encode(), sender)
            return self._near.recvfrom(100)[0].decode()
        except TimeoutError:
            return ""


@contextmanager
def ways_out(label: str, router: str = "olsrv2d", strangers: str = "", **gateway: PolicyValue) -> Iterator[WaysOut]:
    """Start the mesh. ``gateway`` is what the gateways' tables have besides the uplink.

    ``strangers`` are relays that are gateways, too. The node a accepts default routes from them, but has no cards of
    theirs; nor does anybody else.
    """
    pairs = [("a", "b"), ("b", "g"), ("b", "r"), ("r", "h")]
    gateways = f"gh{strangers}"
    inner = Host("", 1).networks
    offering = Options(router, accept=dict.fromkeys(inner, ("a",)), gateway={"uplink": UPLINK, **gateway})
    using = Options(router, attached=inner, accept=dict.fromkeys(DEFAULTS, tuple(gateways)))
    with Lab(label, pairs, Options(router)) as lab:
        lab.set_up({"a": using, **dict.fromkeys(gateways, offering)})
        outside = lab.outsider("out")
        for address in (OUTSIDE4, OUTSIDE6):
            run(["ip", "-n", outside, "address", "add", address, "dev", "lo"])
        host = Host.behind(lab["a"], lab.outsider("ha"), 1)
        uplinks = {name: Uplink.create(lab[name], outside, number) for number, name in enumerate(gateways)}
        lab.trust("a", "g", "h")
        relays = [lab[name] for name in "br" if name not in strangers]
        for relay in relays:
            relay.assign_addresses()
        lab.start("router", nodes=relays).start(nodes=[lab[name] for name in ("a", *gateways)])
        for name in "gh":
            lab["a"].wait_protected(lab[name])
            lab[name].wait_protected(lab["a"])
        container = Container.on(lab["a"], host)
        made = WaysOut(lab, host, container, outside, NarrowHost.create(lab, outside), uplinks)
        made.wait_used("g", 90)
        yield made
