"""``[scheduling]`` of ``meshsec.toml``: which profile gives the services their classes, and which streams count."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.scheduling.governor_settings import DEFAULTS, GovernorSettings, GovernorTable
from meshsec.core.scheduling.profiles import STOCK, Profile
from meshsec.core.values.definition import Once, Rule

DEFAULT_PROFILE = "governor"
"""What is in force when the file says nothing; where its file is not installed, ``stock`` is."""
_NAME_MAX = 255
"""Bytes of a unit's name, and of a control group's path."""
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+\.(?:service|scope|slice)")
_GROUP = re.compile(r"(?:/[A-Za-z0-9:_.@\\-]+)+")

Profiles = Callable[[str], Profile]
"""Gives the scheduling profile of a name, or raises ValueError with what is allowed."""


def _stream(value: object) -> str:
    if not isinstance(value, str) or len(value) > _NAME_MAX or ".." in value:
        raise ValueError
    if not _UNIT.fullmatch(value) and not _GROUP.fullmatch(value):
        raise ValueError
    return value


class SchedulingTable(Struct, frozen=True):
    """``[scheduling]`` as it is written."""

    profile: Annotated[
        str | None,
        Meta(
            description="the name of a scheduling profile, which is a file `NAME.toml`: `stock`, `nice`, `fifo`, "
            "`governor`, `paper-2007`, or your own ([real-time.md](../guide/real-time.md)); of what a host "
            "forbids the rest is in force, and `doctor` says so",
            extra={"default": f'`"{DEFAULT_PROFILE}"`'},
        ),
    ] = None
    protect: Annotated[
        tuple[
            Annotated[
                str,
                Rule("a systemd unit such as 'encoder.service', or a control group such as '/video'", _stream),
            ],
            ...,
        ],
        Once("each once"),
        Meta(
            max_length=16,
            description="the streams whose frames count: at most 16 systemd units or control groups, such as "
            '`["encoder.service", "/video"]`',
            extra={"allowed": "a list of at most 16 units or control groups, such as ['encoder.service']"},
        ),
    ] = ()
    governor: Annotated[
        GovernorTable, Meta(description="how far the governor may go, for profiles that have a ladder")
    ] = GovernorTable()


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """``[scheduling]`` with the profile that it names."""

    profile: Profile = STOCK
    protect: tuple[str, ...] = ()
    """The streams whose frames count: systemd units, or control groups as absolute paths in their hierarchy."""
    governor: GovernorSettings = DEFAULTS
    """``[scheduling.governor]``; the deadline is the policy's."""


def only_stock(name: str) -> Profile:
    """Return the profile where there are no files. Raises ValueError for all others."""
    if name != STOCK.name:
        raise ValueError(STOCK.name)
    return STOCK


def resolve(table: SchedulingTable, profiles: Profiles) -> SchedulingSettings:
    """Return the settings. Raises ValueError when the profile that is named is not there."""
    settings = SchedulingSettings(protect=table.protect, governor=table.governor.settings)
    try:
        return replace(settings, profile=profiles(table.profile or DEFAULT_PROFILE))
    except ValueError:
        if table.profile is not None:
            raise
        return settings
