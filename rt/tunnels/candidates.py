"""The ways to carry packets of networks between two nodes, as commands of iproute2.

In each the packet ends up in ESP between the two nodes' own addresses. Either a tunnel's outer packet takes the pair's
SA in transport mode, or an SA in tunnel mode takes the packet itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

PORT = 4790
"""VXLAN-GPE."""
WITHIN = "encap ip6 id 1 src {local} dst {remote} hoplimit 64 dev {device}"
"""A route that gives a shared device the outer addresses."""
KEY = f"0x{bytes(range(36)).hex()}"
"""A key of 256 bits and four bytes of salt (RFC 4106), of use to nobody."""
DEVICE = "tunnel"
LINK = "mesh0"
"""The mesh interface."""
BIG = 9000
"""MTU of devices where the path's own is to limit what fits."""


@dataclass(frozen=True)
class Pair:
    """One node and one peer of it, seen from the node."""

    local: IPv6Address
    remote: IPv6Address
    here: str
    """The network behind the node."""
    there: str
    """The network behind the peer."""
    number: int = 1

    def reverse(self) -> "Pair":
        """Return the same, seen from the peer."""
        return Pair(self.remote, self.local, self.there, self.here, self.number)


@dataclass(frozen=True)
class Candidate:
    """One way. Words in braces are filled in for a pair."""

    name: str
    shared: str = ""
    """The link that serves all peers; empty: each peer has a link of its own, or none is needed."""
    each: str = ""
    """The link of one peer."""
    route: str = "dev {device}"
    tunnel_mode: bool = False
    interface: bool = False
    """States and policies are those of an XFRM interface."""

    def device(self, pair: Pair) -> str:
        """Return the name of the device that a pair uses."""
        return f"{DEVICE}{pair.number}" if self.each else DEVICE

    def once(self, mtu: int = BIG) -> list[str]:
        """Return the commands that serve all peers, for ``ip -batch``."""
        kind = self.shared or ("" if self.each else f"type veth peer name {DEVICE}-far")
        return [f"link add {DEVICE} {kind}", f"link set {DEVICE} mtu {mtu} up"] if kind else []

    def for_peer(self, pair: Pair, mtu: int = BIG) -> list[str]:
        """Return the commands that add a peer."""
        device = self.device(pair)
        words = {"local": pair.local, "remote": pair.remote, "number": pair.number, "device": device, "link": LINK}
        link = [f"link add {device} {self.each.format(**words)}", f"link set {device} mtu {mtu} up"]
        route = f"route add {pair.there} {self.route.format(**words)}"
        return [*(link if self.each else []), route]

    def sas(self, pair: Pair) -> list[str]:
        """Return the commands that add the SAs of a pair."""
        ends = ((pair.local, pair.remote), (pair.remote, pair.local))
        return [
            f"xfrm state add src {source} dst {target} proto esp spi {_spi(pair, source)} reqid {pair.number} "
            f"mode {self._mode} replay-window 32 aead rfc4106(gcm(aes)) {KEY} 128{self._of(pair)}"
            for source, target in ends
        ]

    def policies(self, pair: Pair) -> list[str]:
        """Return the commands that add the policies of a pair."""
        return [
            f"xfrm policy add src {here} dst {there} dir {way} tmpl src {source} dst {target} proto esp "
            f"reqid {pair.number} mode {self._mode}{self._of(pair)}"
            for way, here, there, source, target in self._selectors(pair)
        ]

    @property
    def _mode(self) -> str:
        return "tunnel" if self.tunnel_mode else "transport"

    def _of(self, pair: Pair) -> str:
        return f" if_id {pair.number}" if self.interface else ""

    def _selectors(self, pair: Pair) -> Sequence[tuple[str, str, str, IPv6Address, IPv6Address]]:
        here, there = (pair.here, pair.there) if self.tunnel_mode else (f"{pair.local}/128", f"{pair.remote}/128")
        here, there = ("::/0", "::/0") if self.interface else (here, there)
        inward = [(way, there, here, pair.remote, pair.local) for way in ("in", "fwd")[: 1 + self.tunnel_mode]]
        return [("out", here, there, pair.local, pair.remote), *inward]


def _spi(pair: Pair, source: IPv6Address) -> int:
    return 0x1000 + 2 * pair.number + int(source == max(pair.local, pair.remote))


PLAIN = Candidate("own addresses, transport mode")
"""What two nodes say to each other themselves: no tunnel."""
CANDIDATES = (
    Candidate(
        "vxlan-gpe, one device",
        shared=f"type vxlan external gpe dstport {PORT} udp6zerocsumtx udp6zerocsumrx",
        route=WITHIN,
    ),
    Candidate(
        "ip6tnl, one device",
        shared="type ip6tnl mode any external",
        route=WITHIN,
    ),
    Candidate("ip6tnl, each peer", each="type ip6tnl mode any local {local} remote {remote} encaplimit none"),
    Candidate(
        "ip6gre, one device",
        shared="type ip6gre external",
        route=WITHIN,
    ),
    Candidate("ip6gre, each peer", each="type ip6gre local {local} remote {remote} encaplimit none"),
    Candidate(
        "xfrm interface, one device",
        shared="type xfrm external",
        route="dev {device} encap xfrm if_id {number} link_dev {link}",
        tunnel_mode=True,
        interface=True,
    ),
    Candidate(
        "xfrm interface, each peer", each="type xfrm dev {link} if_id {number}", tunnel_mode=True, interface=True
    ),
    Candidate("traffic selectors", tunnel_mode=True),
)
