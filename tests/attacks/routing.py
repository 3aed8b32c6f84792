"""A stranger m on a link of router a, who speaks OLSRv2 as he likes. The mesh is a - b - c, with m next to a."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.replay import Recorder
from tests.lab.forge.rfc5444 import LONGEST, PORT, Entry, Message, datagram, hello, link, neighbour, packet, tc
from tests.lab.forge.signed import Key, last_counter, quote
from tests.lab.net.topology import Pair
from tests.lab.node.routers import Mesh, Router, accepting
from tests.lab.node.signing import SigningRouter

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
        self.send_from(self.sources()[version], *messages)

    def send_from(self, source: str, *messages: Message) -> None:
        """Send messages as they are in one packet to a, from an address at will."""
        self._forger.send(datagram(source, packet(*messages)))

    def hello(self, version: int, *claimed: str, others: tuple[str, ...] = (), validity: int = LONGEST) -> Message:
        """Forge a HELLO with a link to a, and symmetric neighbours and addresses at will."""
        heard = self.heard(version)
        own = [self.sources()[version]]
        mine = [self.self.ipv6] if version == 6 else []
        entries = (heard, *(neighbour(address) for address in claimed))
        return hello(self.own(self.self)[version], own, entries, others=(*mine, *others), validity=validity)

    def tc(self, version: int, *entries: Entry, validity: int = LONGEST) -> Message:
        """Forge a TC of m's own."""
        self._seq += 1
        return tc(self.own(self.self)[version], entries, seq=self._seq, ansn=self._seq, validity=validity)

    def heard(self, version: int) -> Entry:
        """Claim a symmetric link to a."""
        return link({4: self.victim.ipv4, 6: self._victims}[version])

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


class CardHolder(Stranger):
    """An m with a key of his own, who signs what he sends unless told otherwise, and quotes a's counters as due."""

    def __init__(self, mesh: Mesh, forger: Forger, heard: Recorder) -> None:
        super().__init__(mesh, forger)
        assert isinstance(self.self, SigningRouter)
        self.key = Key(self.self.private)
        self._from_victim = heard

    def send(self, version: int, *messages: Message) -> None:
        super().send(version, *(self.key.sign(message) for message in messages))

    def heard(self, version: int) -> Entry:
        packets = (bytes(Ether(frame)[UDP].payload) for frame in reversed(self._from_victim.take()))
        counter = next((found for one in packets if (found := last_counter(one)) is not None), None)
        entry = super().heard(version)
        return entry if counter is None else Entry(entry.address, (*entry.tlvs, quote(counter)))


@contextmanager
def under_attack(
    settings: Mapping[str, str] | None = None, pairs: Sequence[Pair] = PAIRS
) -> Iterator[tuple[Mesh, Stranger]]:
    """Start all except m, wait until all know each other, and give m a raw socket on his link to a."""
    with Mesh(pairs, settings) as mesh:
        _start_all(mesh, "m")
        with Forger(Way.between(mesh.end("m", "a"), mesh.end("a", "m"))) as forger:
            yield mesh, Stranger(mesh, forger)


@contextmanager
def signers_under_attack(
    signatures: str, settings: str = "", pairs: Sequence[Pair] = PAIRS, away: str = "", accepted: Sequence[str] = ()
) -> Iterator[tuple[Mesh, CardHolder]]:
    """Start routers with signers and this setting of ``signatures``; m has a card.

    Those ``away`` have a key and do not run. ``settings`` are of all. a accepts the networks ``accepted`` from m.
    """
    nodes = dict.fromkeys(name for pair in pairs for name in pair)
    common = f'signatures = "{signatures}"\n{settings}\n'
    with Mesh(pairs, dict.fromkeys(nodes, common), dict.fromkeys(nodes, SigningRouter)) as mesh:
        mesh["a"].configure(common + accepting((prefix, mesh["m"]) for prefix in accepted))
        with Recorder(mesh.end("a", "m"), PORT) as heard:
            _start_all(mesh, f"m{away}")
            with Forger(Way.between(mesh.end("m", "a"), mesh.end("a", "m"))) as forger:
                yield mesh, CardHolder(mesh, forger, heard)


def _start_all(mesh: Mesh, away: str) -> None:
    """Start all routers but those away, and wait until they know each other."""
    honest = [router for router in mesh.routers.values() if router.name not in away]
    for router in honest:
        if isinstance(router, SigningRouter):
            router.start_signer()
        router.start()
    for router in honest:
        others = [other for other in honest if other is not router]
        router.wait_reachable(set().union(*(other.destinations for other in others)), CONVERGED)
        _wait_heard(router, others)


def _wait_heard(router: Router, others: Sequence[Router]) -> None:
    """Wait for a TC of each of the others: links of routers that were never heard can be claimed (ADR 0050)."""
    wanted = {originator for other in others for originator in (other.ipv4, other.ipv6)}
    router.wait_for("a TC of everybody", lambda: wanted <= set(router.tables().tables["node"]), CONVERGED)
