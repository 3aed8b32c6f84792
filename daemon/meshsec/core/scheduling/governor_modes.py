"""The governor's modes, and what takes it from one to another."""

from collections.abc import Mapping
from enum import StrEnum


class Mode(StrEnum):
    """In the order of life."""

    ABSENT = "absent"
    """There is no IKE daemon to govern."""
    REST = "rest"
    NEGOTIATING = "negotiating"
    """A negotiation runs or is expected."""
    LINGERING = "lingering"
    """The last negotiation ended a moment ago."""
    GUARDING = "guarding"
    """Others keep the processors busy: a level is in force for what a peer may begin."""
    SPENT = "spent"
    """The budget is used up: no privilege until it has recovered."""


class Trigger(StrEnum):
    """What happens to the governor."""

    DAEMON_UP = "daemon-up"
    DAEMON_GONE = "daemon-gone"
    DEMAND = "demand"
    QUIET = "quiet"
    LINGER_OVER = "linger-over"
    CROWDED = "crowded"
    CALM = "calm"
    BUDGET_SPENT = "budget-spent"
    BUDGET_BACK = "budget-back"


TABLE: Mapping[Mode, Mapping[Trigger, Mode]] = {
    Mode.ABSENT: {Trigger.DAEMON_UP: Mode.REST},
    Mode.REST: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.CROWDED: Mode.GUARDING,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.NEGOTIATING: {
        Trigger.QUIET: Mode.LINGERING,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.LINGERING: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.LINGER_OVER: Mode.REST,
        Trigger.CROWDED: Mode.GUARDING,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.GUARDING: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.CALM: Mode.REST,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.SPENT: {Trigger.BUDGET_BACK: Mode.REST, Trigger.DAEMON_GONE: Mode.ABSENT},
}
"""The catch-all: any other trigger leaves the mode as it is."""

PRIVILEGED = frozenset({Mode.NEGOTIATING, Mode.LINGERING, Mode.GUARDING})
"""Modes in which the level may be above 0."""
