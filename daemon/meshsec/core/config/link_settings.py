"""``[routing.interface.NAME]`` of ``meshsec.toml``: how the router treats one interface.

See docs/reference/meshsec.toml.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from meshsec.core.config.kinds import Interval, Metric, Validity
from meshsec.core.values.definition import Rule, Wrong


class Weighing(StrEnum):
    """What a link's metric is, where it is no number."""

    AUTO = "auto"
    """Measured where the interface is wireless; otherwise the same as ``HOP``."""
    HOP = "hop"
    """The router's own: paths are compared by their hops."""


@dataclass(frozen=True, slots=True)
class Timing:
    """An interval and a validity time in seconds (RFC 6130, section 5; RFC 7181, section 5.4); None: the router's."""

    interval: float | None = None
    validity: float | None = None


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Of the links of one interface, with what holds for all where it says nothing."""

    hello: Timing = Timing()
    metric: int | Weighing | None = None
    """The metric; None: the router's choice, which is ``auto``."""


def _metric(value: object) -> int | Weighing:
    return Weighing(value) if isinstance(value, str) else msgspec.convert(value, Metric)


class LinkTable(Struct, frozen=True):
    """One table of ``[routing.interface]``."""

    metric: Annotated[
        int | Weighing | None,
        Rule(
            "'auto', 'hop', or a whole number from 1 to 16776960",
            _metric,
            {"anyOf": [{"enum": ["auto", "hop"]}, {"type": "integer", "minimum": 1, "maximum": 16_776_960}]},
        ),
        Meta(
            description="of its links: a number as above, `auto`: as measured where it is wireless, or `hop`: that of "
            "`[routing]`, so that hops count",
            extra={"default": '`"auto"`'},
        ),
    ] = None
    hello_interval: Annotated[
        Interval | None, Meta(description="HELLO_INTERVAL of this interface", extra={"default": "that of `[routing]`"})
    ] = None
    hello_validity: Annotated[
        Validity | None,
        Meta(
            description="H_HOLD_TIME of this interface",
            extra={"default": "that of `[routing]`; with an interval here, the router's for it"},
        ),
    ] = None

    def over(self, hello: Timing) -> LinkSettings:
        """Return what holds; ``hello`` is that of all interfaces. An own interval leaves the validity to the router."""
        base = hello if self.hello_interval is None else Timing(self.hello_interval)
        validity = base.validity if self.hello_validity is None else self.hello_validity
        return LinkSettings(Timing(base.interval, validity), self.metric)


def too_short(name: str, interval: float | None, given: Mapping[str, object], validity: float | None) -> Wrong:
    """Yield ``NAME_validity`` where the table gives one that is shorter than the interval."""
    if f"{name}_validity" in given and interval is not None and validity is not None and validity < interval:
        yield (f"{name}_validity",), f"at least {name}_interval, which is {interval:g}"
