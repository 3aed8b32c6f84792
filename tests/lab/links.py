"""Links between nodes: veth pairs, with the faults that radio links have."""

from dataclasses import dataclass

from tests.lab.shell import run


@dataclass(frozen=True)
class End:
    """One end of a link: an interface in a node's namespace."""

    namespace: str
    interface: str

    def up(self) -> None:
        """Bring the interface up; at the other end the carrier comes back."""
        run(["ip", "-n", self.namespace, "link", "set", self.interface, "up"])

    def down(self) -> None:
        """Bring the interface down; at the other end the carrier goes."""
        run(["ip", "-n", self.namespace, "link", "set", self.interface, "down"])

    def filter(self, statement: str) -> None:
        """Apply an nft statement (``drop``, ...) to everything that the interface sends and receives."""
        run(["ip", "netns", "exec", self.namespace, "nft", "-f", "-"], stdin=self._table(statement))

    def unfilter(self) -> None:
        """Take the statement away."""
        self.filter("")

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
        """Both ends up."""
        for end in self.ends:
            end.up()

    def down(self) -> None:
        """One end down: its node sees the interface go, the other one the carrier."""
        self.ends[0].down()

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told."""
        for end in self.ends:
            end.filter("drop")

    def lose(self, percent: int) -> None:
        """Lose this share of the packets in each direction, at random."""
        self.ends[0].filter(f"numgen random mod 100 < {percent} drop")

    def mend(self) -> None:
        """Undo ``cut`` and ``lose``."""
        for end in self.ends:
            end.unfilter()
