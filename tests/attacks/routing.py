"""A stranger m on a link of router a, who speaks OLSRv2 as he likes. The mesh is a - b - c, with m next to a."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.rfc5444 import LONGEST, Entry, Message, datagram, hello, link, neighbour, packet, tc
from tests.lab.net.topology import Pair
from tests.lab.node.routers import Mesh, Router

PAIRS = (("a", "b"), ("b", "c"), ("a", "m"))
CONVERGED = 60.0


class Stranger:
    """m, without a daemon of his own: each of his packets is forged and reaches a alone."""

    def __init__(self, mesh: Mesh, forger: Forger) -> None:
        self.victim, self.self = mesh["a"], mesh["m"]
        self.link_local = mesh.end("m", "a").link_local()
        self._victims = mesh.end("a", "m").link_local()
        self._forger = forger
        self._seq = 0

    def sources(self) -> dict[int, str]:
        """Return the address from which m sends, by IP version."""
        return {4: self.self.ipv4, 6: self.link_local}

    def own(self, router: Router) -> dict[int, str]:
        """Return the originators of a router, by IP version."""
        return {4: router.ipv4, 6: router.ipv6}

    def send(self, version: int, *messages: Message) -> None:
        """Send messages in one packet to a."""
        self._forger.send(datagram(self.sources()[version], packet(*messages)))

    def hello(self, version: int, *claimed: str, others: tuple[str, ...] = (), validity: int = LONGEST) -> Message:
        """Forge a HELLO with a link to a, and symmetric neighbours and addresses at will."""
        heard = link({4: self.victim.ipv4, 6: self._victims}[version])
        own = [self.sources()[version]]
        mine = [self.self.ipv6] if version == 6 else []
        entries = (heard, *(neighbour(address) for address in claimed))
        return hello(self.own(self.self)[version], own, entries, others=(*mine, *others), validity=validity)

    def tc(self, version: int, *entries: Entry, validity: int = LONGEST) -> Message:
        """Forge a TC of m's own."""
        self._seq += 1
        return tc(self.own(self.self)[version], entries, seq=self._seq, ansn=self._seq, validity=validity)

    def wait_believed(self) -> None:
        """Wait until a routes to m: then his link is there, his packets were read and routes were calculated."""
        self.victim.wait_reachable(self.self.destinations, CONVERGED)

    def become_neighbour(self) -> None:
        """Make a believe in a symmetric link with m, and claim nothing else."""
        for version in (4, 6):
            self.send(version, self.hello(version))
        self.wait_believed()

    def wait_forgotten(self, seconds: float) -> None:
        """Wait until a has no route to m."""
        gone = lambda: not self.self.destinations & self.victim.kernel.destinations()  # noqa: E731
        self.victim.wait_for("m is forgotten", gone, seconds)


@contextmanager
def under_attack(
    settings: Mapping[str, str] | None = None, pairs: Sequence[Pair] = PAIRS
) -> Iterator[tuple[Mesh, Stranger]]:
    """Start all except m, wait until all know each other, and give m a raw socket on his link to a."""
    with Mesh(pairs, settings) as mesh:
        honest = [router for router in mesh.routers.values() if router.name != "m"]
        for router in honest:
            router.start()
        for router in honest:
            others = [other for other in honest if other is not router]
            router.wait_reachable(set().union(*(other.destinations for other in others)), CONVERGED)
            _wait_heard(router, others)
        with Forger(Way.between(mesh.end("m", "a"), mesh.end("a", "m"))) as forger:
            yield mesh, Stranger(mesh, forger)


def _wait_heard(router: Router, others: Sequence[Router]) -> None:
    """Wait for a TC of each of the others: links of routers that were never heard can be claimed (ADR 0050)."""
    wanted = {originator for other in others for originator in (other.ipv4, other.ipv6)}
    router.wait_for("a TC of everybody", lambda: wanted <= set(router.tables().tables["node"]), CONVERGED)
