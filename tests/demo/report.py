"""The results of the demo, which it writes to build/demo/report.json."""

from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Sa:
    """The channel of a pair, as the end that initiated it reports it; times in milliseconds."""

    initiator: str
    responder: str
    state: str
    hops: int | None
    data_plane: str
    setup_ms: dict[str, float | None]
    route_to_protected_ms: float | None


@dataclass
class RelayChange:
    """User data while one relay goes and another takes over."""

    before: str = ""
    after: str = ""
    sent: int = 0
    lost: int = 0
    longest_gap_ms: float = 0.0
    same_spis: bool = False
    """Whether the SAs stayed, so that nothing was negotiated again."""


@dataclass
class Report:
    """All results, and the verdict."""

    nodes: int
    esp_ground: str
    sas: list[Sa] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Pairs without an SA."""
    relay_packets: dict[str, int] = field(default_factory=dict)
    captures_lost: int = 0
    pings: str = ""
    tcp_mbit_per_s: float = 0.0
    relay_change: RelayChange = field(default_factory=RelayChange)
    broken_off: str = ""
    """Why the demo ended early."""

    def problems(self) -> list[str]:
        """Return why the demo failed; empty when all is well."""
        if self.broken_off:
            return [self.broken_off]
        change, clear = self.relay_change, self.relay_packets.get("clear")
        checks = {
            f"no SA between {', '.join(self.missing)}": bool(self.missing),
            f"{clear} packets of user data in the clear": clear != 0,
            "no ESP passed the relay": not self.relay_packets.get("esp"),
            f"the captures lost {self.captures_lost} packets": self.captures_lost > 0,
            f"pings were lost: {self.pings}": " 0% packet loss" not in self.pings,
            "the SA did not survive the relay change": not change.same_spis,
            "user data did not take the other relay": change.before == change.after,
        }
        return [text for text, failed in checks.items() if failed]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of report.json. The first SA is the one between the two ends of the line."""
        ends = self.sas[0] if self.sas else None
        return {
            "schema": SCHEMA,
            "nodes": self.nodes,
            "hops": ends and ends.hops,
            "data_plane": ends and ends.data_plane,
            "esp_ground": self.esp_ground,
            "setup_ms": ends.setup_ms if ends else {},
            "route_to_protected_ms": ends and ends.route_to_protected_ms,
            "sas": [asdict(sa) for sa in self.sas],
            "relay_packets": self.relay_packets,
            "traffic": {"ping": self.pings, "tcp_mbit_per_s": round(self.tcp_mbit_per_s, 1)},
            "relay_change": asdict(self.relay_change),
            "problems": self.problems(),
            "ok": not self.problems(),
        }
