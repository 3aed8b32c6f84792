"""How the scheduling governor behaves: how far it may go, what it may spend, how patient it is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

SETUP_RUNS = 20
"""How often threads of the IKE daemon are put on a CPU for one set-up,
in round figures: two exchanges and the installation pass through sockets, jobs and VICI. Each time they wait as long as
the load lets them."""


@dataclass(frozen=True, slots=True)
class GovernorSettings:
    """Times are seconds. CPU seconds count on all processors together."""

    deadline: float = 0.1
    """A set-up shall take no longer; from the policy."""
    cpu_part: float = 0.1
    """Part of the deadline that waiting for a CPU may take: the rest is the network's, with its repetitions."""
    share: float = 0.2
    """CPU seconds above the base class that flow into the budget each second: the long-run share of one processor."""
    share_min: float = 0.02
    """What a stream that complains leaves of ``share``: fewer would end protection on time altogether."""
    burst: float = 0.5
    """CPU seconds that may be spent above the base class after a pause: a set-up takes charon 7 to 10 ms with
    all that belongs to it; ESP in user space, which the IKE daemon does too, is charged as well."""
    linger: float = 0.5
    """How long a privilege is kept after the last negotiation: set-ups come in groups."""
    attention: float = 1.0
    """How long a negotiation, or a peer that is expected to begin one, counts: one that takes longer waits for the
    network or for the peer, and no privilege helps it."""
    relax: float = 30.0
    """How long a level that was needed stays the one that negotiations begin with."""
    loss_limit: float = 0.01
    """Part of its frames that a protected stream may lose before the governor spends less."""
    delay_limit: float = 0.05
    """Seconds that a protected stream's frames may be late, by its own report, before the governor spends less."""
    pressure_limit: float = 0.5
    """Part of the time that tasks waited for a CPU (PSI, some) from which a processor counts as contended."""
    head_start: bool = True
    """Whether a negotiation begins with the first real-time class of the ladder where no thread waits, too."""
    busy_limit: float = 0.3
    """Part of the time that others keep even the least busy of its processors busy, above which a level stands."""

    @property
    def cpu_limit(self) -> float:
        """Seconds that a set-up may lose to other work on this node."""
        return self.deadline * self.cpu_part

    @property
    def stall(self) -> float:
        """Seconds after which a negotiation gets the next level, and as many later the next: as much as it may lose,
        and as much again for its own work. Four levels are tried before the deadline."""
        return 2 * self.cpu_limit

    @property
    def delay_contended(self) -> float:
        """Seconds that IKE threads may wait each time they run, so that a set-up loses no more than ``cpu_limit``."""
        return self.cpu_limit / SETUP_RUNS


DEFAULTS = GovernorSettings()


def decode_governor(table: Table, base: GovernorSettings = DEFAULTS) -> GovernorSettings:
    """``base`` with what ``table`` (``[scheduling.governor]``) says; problems are noted in the table."""
    decoded = replace(
        base,
        cpu_part=table.take("cpu_part", _number(0.01, 0.5, "part of the deadline"), base.cpu_part),
        share=table.take("share", _number(0.01, 0.5, "CPU seconds a second"), base.share),
        share_min=table.take("share_min", _number(0.005, 0.5, "CPU seconds a second"), base.share_min),
        burst=table.take("burst", _number(0.02, 1.0, "CPU seconds"), base.burst),
        linger=table.take("linger", _number(0.0, 10.0, "seconds"), base.linger),
        attention=table.take("attention", _number(0.1, 10.0, "seconds"), base.attention),
        relax=table.take("relax", _number(1.0, 3600.0, "seconds"), base.relax),
        loss_limit=table.take("loss_limit", _number(0.0, 1.0, "part of the frames"), base.loss_limit),
        delay_limit=table.take("delay_limit", _number(0.001, 10.0, "seconds"), base.delay_limit),
        pressure_limit=table.take("pressure_limit", _number(0.05, 1.0, "part of the time"), base.pressure_limit),
        head_start=table.take("head_start", tables.boolean, base.head_start),
        busy_limit=table.take("busy_limit", _number(0.05, 1.0, "part of the time"), base.busy_limit),
    )
    table.refuse_the_rest()
    if decoded.share_min > decoded.share:
        table.refuse(decoded.share_min, RefusedError(f"at most share, which is {decoded.share:g}"), "share_min")
        return base
    return decoded


def _number(low: float, high: float, unit: str) -> Callable[[object], float]:
    """Reads a number from ``low`` to ``high``; ``unit`` is for the message."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise RefusedError(f"a number from {low:g} to {high:g} ({unit})")
        return float(value)

    return read
