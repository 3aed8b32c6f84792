"""``[routing.interface.NAME]`` of ``meshsec.toml``: how the router treats one interface (docs/meshsec.toml.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

INTERVAL_SECONDS = (0.05, 3600.0)
"""What RFC 5497 can express and a mesh can use."""
VALIDITY_SECONDS_MAX = 36_000.0
METRIC = (1, 16_776_960)
"""Of a link (RFC 7181, section 6.2: MINIMUM_METRIC to MAXIMUM_METRIC)."""


class Weighing(StrEnum):
    """What a link's metric is, where it is no number."""

    AUTO = "auto"
    """As measured where the interface is wireless; else as ``HOP``."""
    HOP = "hop"
    """The router's own: paths are compared by their hops."""


@dataclass(frozen=True, slots=True)
class Timing:
    """An interval and a validity time in seconds (RFC 6130, section 5; RFC 7181, section 5.4); None: the router's."""

    interval: float | None = None
    validity: float | None = None


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Of the links of one interface."""

    hello: Timing = Timing()
    metric: int | Weighing | None = None
    """None: the router's choice, which is ``auto``."""


def read_timing(table: Table, name: str, default: Timing = Timing()) -> Timing:
    """``NAME_interval`` and ``NAME_validity``; an interval of one's own takes its validity from the same table."""
    interval = table.take(f"{name}_interval", tables.seconds(*INTERVAL_SECONDS), None)
    base = default if interval is None else Timing(interval)
    shortest = base.interval or INTERVAL_SECONDS[0]
    validity = table.take(f"{name}_validity", tables.seconds(shortest, VALIDITY_SECONDS_MAX), base.validity)
    return Timing(base.interval, validity)


def read_links(routing: Table, interfaces: tuple[str, ...], hello: Timing) -> Mapping[str, LinkSettings]:
    """The tables of ``[routing.interface]``, by interface; ``hello`` is what holds for all."""
    every = routing.table("interface")
    found = {}
    for name in every.values:
        if name not in interfaces:
            every.refuse(name, RefusedError(f"those in routing.interfaces: {', '.join(interfaces) or 'none'}"), name)
        table = every.table(name)
        found[name] = LinkSettings(read_timing(table, "hello", hello), table.take("metric", _read_metric, None))
        table.refuse_the_rest()
    return found


def read_metric(value: object) -> int | None:
    """A link's metric."""
    return tables.integer(*METRIC)(value)


def _read_metric(value: object) -> int | Weighing | None:
    for one in Weighing:
        if one == value:
            return one
    try:
        return read_metric(value)
    except RefusedError as refused:
        raise RefusedError(f"{', '.join(repr(str(one)) for one in Weighing)}, or {refused}") from None
