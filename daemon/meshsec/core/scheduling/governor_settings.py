"""How the scheduling governor behaves: how far it may go, what it may spend, how patient it is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

SETUP_RUNS = 20
"""How often threads of the IKE daemon are put on a CPU for one set-up,
in round figures: two exchanges and the installation pass through sockets, jobs and VICI. Each time they wait as long as
the load lets them."""


@dataclass(frozen=True, slots=True)
class GovernorSettings:
    """Times are seconds. CPU seconds count on all processors together.

    Six of them are keys of ``GovernorTable``. The others are constants, because no operator can judge them.
    """

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
    """Part of the time that others keep even the least busy of its processors busy, above which a level is in force."""

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


class GovernorTable(Struct, frozen=True):
    """``[scheduling.governor]``: what an operator can judge of it."""

    removed: ClassVar[Mapping[str, str]] = {
        "cpu_part": f"a set-up may lose {DEFAULTS.cpu_part:g} of its deadline to waiting for a CPU",
        "share_min": f"streams that complain leave {DEFAULTS.share_min:g} CPU seconds a second",
        "attention": f"after {DEFAULTS.attention:g} s a negotiation waits for something else than a CPU",
        "relax": f"a level that was needed is remembered for {DEFAULTS.relax:g} s",
        "pressure_limit": f"a CPU counts as contended when tasks wait for {DEFAULTS.pressure_limit:g} of the time",
        "head_start": "a negotiation always begins with the ladder's first real-time class",
    }

    share: Annotated[
        float,
        Meta(
            ge=DEFAULTS.share_min,
            le=0.5,
            description="CPU seconds above charon's own class that may be spent each second in the long run",
            extra={"unit": "CPU seconds a second"},
        ),
    ] = DEFAULTS.share
    burst: Annotated[
        float,
        Meta(
            ge=0.02,
            le=1.0,
            description="CPU seconds that may be spent at once after a pause",
            extra={"unit": "CPU seconds"},
        ),
    ] = DEFAULTS.burst
    linger: Annotated[
        float,
        Meta(
            ge=0.0,
            le=10.0,
            description="how long a level is kept after the last negotiation",
            extra={"unit": "seconds"},
        ),
    ] = DEFAULTS.linger
    loss_limit: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="part of its frames that a protected stream may lose before the governor spends less",
            extra={"unit": "part of the frames"},
        ),
    ] = DEFAULTS.loss_limit
    delay_limit: Annotated[
        float,
        Meta(
            ge=0.001,
            le=10.0,
            description="how late the frames of a protected stream may be before the governor spends less",
            extra={"unit": "seconds"},
        ),
    ] = DEFAULTS.delay_limit
    busy_limit: Annotated[
        float,
        Meta(
            ge=0.05,
            le=1.0,
            description="part of the time that others keep the least busy of charon's processors busy, above which a "
            "level is kept without a negotiation; 1: never",
            extra={"unit": "part of the time"},
        ),
    ] = DEFAULTS.busy_limit

    @property
    def settings(self) -> GovernorSettings:
        """The same with the constants."""
        return replace(DEFAULTS, **msgspec.structs.asdict(self))
