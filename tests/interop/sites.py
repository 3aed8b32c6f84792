"""Sites of a small mesh: a router of either make with networks of its own behind it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.lab.foreign.olsrd2 import Olsrd2
from tests.lab.net import topology
from tests.lab.node.routers import Mesh, Router, accepting

DEFAULTS = {"0.0.0.0/0", "::/0"}
HELLO_VALIDITY = 6.0
"""Seconds after which a silent neighbour is lost: enough for a busy machine. The intervals are 0.5 s for HELLOs and 1 s
for TCs."""


@dataclass(frozen=True)
class Site:
    """A router and the networks attached to it."""

    router: Router
    is_gateway: bool

    @property
    def originators(self) -> tuple[str, str]:
        """Return the router's originators, one of each family."""
        return self.router.ipv4, self.router.ipv6

    @property
    def hosts(self) -> tuple[str, str]:
        """Return addresses in the attached networks."""
        return f"192.168.{self.router.number}.1", f"fd00:{self.router.number}::1"

    @property
    def attached(self) -> tuple[str, ...]:
        """Return the attached networks."""
        own = f"192.168.{self.router.number}.0/24", f"fd00:{self.router.number}::/64"
        return (*own, *sorted(DEFAULTS if self.is_gateway else ()))

    @property
    def destinations(self) -> set[str]:
        """Return all that others route to."""
        return self.router.destinations | set(self.attached)

    def prepare(self, others: Sequence["Site"]) -> None:
        """Make the networks and write the router's configuration, which accepts those of the others."""
        self.router.ip("link", "add", "lan", "type", "veth", "peer", "name", "lan-far")
        for interface in ("lan", "lan-far"):
            self.router.ip("link", "set", interface, "up")
        for address, length in zip(self.hosts, (24, 64), strict=True):
            self.router.ip("address", "add", f"{address}/{length}", "dev", "lan")
        self._configure(accepting((prefix, site.router) for site in others for prefix in site.attached))

    def ask(self, command: str) -> list[dict[str, Any]]:
        """Return the rows of the text interface's answer to ``... json SUBJECT``; [] when there is no answer."""
        try:
            answer = json.loads(self.router.text.ask(f"/{command}"))
        except ConnectionError:
            return []
        (rows,) = answer.values()
        return list(rows)

    def ping(self, address: str, source: str) -> None:
        """Send one echo from ``source``. Raises CommandError when no answer comes."""
        self.router.run("ping", "-n", "-c", "1", "-w", "30", "-I", source, address)

    def _configure(self, accept: str) -> None:
        if isinstance(self.router, Olsrd2):
            lans = "".join(f"[olsrv2_lan=lan{i}]\n prefix {prefix}\n" for i, prefix in enumerate(self.attached))
            settings = f"[olsrv2]\n tc_interval 1.0\n tc_validity 30.0\n{lans}"
            self.router.configure(settings, each=f" hello_interval 0.5\n hello_validity {HELLO_VALIDITY}")
        else:
            lans = "".join(f'[[attached]]\nprefix = "{prefix}"\n' for prefix in self.attached)
            settings = f"{accept}[tc]\ninterval = 1.0\nvalidity = 30.0\n{lans}"
            self.router.configure(settings, each=f"hello_interval = 0.5\nhello_validity = {HELLO_VALIDITY}")


@contextmanager
def line(makes: Sequence[type[Router]]) -> Iterator[list[Site]]:
    """Start a line of sites with routers of these makes; the last one is a gateway to everywhere."""
    names = topology.names(len(makes))
    pairs = topology.line(names)
    with Mesh(pairs, makes=dict(zip(names, makes, strict=True))) as mesh:
        sites = [Site(mesh[name], name == names[-1]) for name in names]
        for number, (left, right) in enumerate(pairs, start=1):
            for host, (node, other) in enumerate(((left, right), (right, left)), start=1):
                mesh[node].ip("address", "add", f"10.78.{number}.{host}/24", "dev", f"mesh-{other}")
        for site in sites:
            site.prepare([other for other in sites if other is not site])
        mesh.start()
        yield sites
