"""Links between nodes: by default veth pairs, with the faults that radio links have."""

import json
from dataclasses import dataclass
from typing import Protocol

from tests.lab.basics.shell import run


@dataclass(frozen=True)
class End:
    """One end of a link: an interface in a node's namespace."""

    namespace: str
    interface: str

    def up(self) -> None:
        """Bring the interface up; at the other end the carrier comes back."""
        run(["ip", "-n", self.namespace, "link", "set", self.interface, "up"])

    def down(self) -> None:
        """Bring the interface down; the other end loses its carrier."""
        run(["ip", "-n", self.namespace, "link", "set", self.interface, "down"])

    def link_local(self) -> str:
        """Return the interface's link-local address."""
        shown = run(["ip", "-n", self.namespace, "-6", "-j", "address", "show", "dev", self.interface, "scope", "link"])
        return str(json.loads(shown.stdout)[0]["addr_info"][0]["local"])

    def filter(self, statement: str) -> None:
        """Apply an nft statement such as ``drop`` to everything that the interface sends and receives."""
        run(["ip", "netns", "exec", self.namespace, "nft", "-f", "-"], stdin=self._table(statement))

    def unfilter(self) -> None:
        """Remove the statement."""
        self.filter("")

    def lose_from(self, address: str, percent: int) -> None:
        """Lose this percentage of what a neighbour's hardware address sends, at random; 0 ends it."""
        name = f"inet lab_{self.interface.replace('-', '_')}_{address.replace(':', '')}"
        lines = [f"table {name} {{}}", f"delete table {name}"]
        if percent:
            rule = f'iifname "{self.interface}" ether saddr {address} numgen random mod 100 < {percent} drop'
            chain = f"type filter hook prerouting priority -450; {rule};"
            lines += [f"table {name} {{", f"chain receive {{ {chain} }}", "}"]
        run(["ip", "netns", "exec", self.namespace, "nft", "-f", "-"], stdin="\n".join(lines) + "\n")

    def _table(self, statement: str) -> str:
        name = f"lab_{self.interface.replace('-', '_')}"
        fresh = f"table inet {name} {{}}\ndelete table inet {name}\n"
        if not statement:
            return fresh
        return f"""{fresh}table inet {name} {{
    chain receive {{ type filter hook prerouting priority -450; iifname "{self.interface}" {statement}; }}
    chain send {{ type filter hook postrouting priority 450; oifname "{self.interface}" {statement}; }}
}}
"""


@dataclass(frozen=True)
class Link:
    """Two nodes that hear each other."""

    ends: tuple[End, End]

    @classmethod
    def create(cls, first: End, second: End) -> "Link":
        """Make a veth pair across two namespaces and bring both ends up."""
        peer = ["peer", "name", second.interface, "netns", second.namespace]
        run(["ip", "link", "add", first.interface, "netns", first.namespace, "type", "veth", *peer])
        link = cls((first, second))
        link.up()
        return link

    def up(self) -> None:
        """Bring both ends up."""
        for end in self.ends:
            end.up()

    def down(self) -> None:
        """Bring one end down: its node sees the interface go down, the other node loses the carrier."""
        self.ends[0].down()

    def cut(self) -> None:
        """Drop all packets; no node gets an event."""
        for end in self.ends:
            end.filter("drop")

    def lose(self, percent: int) -> None:
        """Lose this percentage of the packets in each direction, at random."""
        self.ends[0].filter(f"numgen random mod 100 < {percent} drop")

    def fix(self) -> None:
        """Undo ``cut`` and ``lose``."""
        for end in self.ends:
            end.unfilter()


class Station(Protocol):
    """What a medium needs to know of a node; the medium adds to ``interfaces``."""

    @property
    def name(self) -> str:
        """Its name in the mesh."""

    @property
    def namespace(self) -> str:
        """Its network namespace."""

    @property
    def interfaces(self) -> list[str]:
        """Its mesh interfaces."""


class Medium(Protocol):
    """What carries the mesh. It is the only difference between a lab on cables and a lab on radio."""

    def equip(self, station: Station) -> None:
        """Give a new node the interfaces that do not depend on its links."""

    def join(self, first: Station, second: Station) -> Link:
        """Make two nodes hear each other."""

    def end(self) -> None:
        """Take back what ``equip`` gave, before the namespaces are deleted."""


class Cables:
    """A veth pair for each link; each end is called ``mesh-`` and the neighbour's name."""

    def equip(self, station: Station) -> None:
        """Do nothing: each link brings its own interfaces."""

    def join(self, first: Station, second: Station) -> Link:
        """Make the pair and bring it up."""
        ends = (End(first.namespace, f"mesh-{second.name}"), End(second.namespace, f"mesh-{first.name}"))
        for station, end in zip((first, second), ends, strict=True):
            station.interfaces.append(end.interface)
        return Link.create(*ends)

    def end(self) -> None:
        """Do nothing: the pairs are deleted with their namespaces."""
