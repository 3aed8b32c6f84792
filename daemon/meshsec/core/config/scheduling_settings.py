"""``[scheduling]`` of ``meshsec.toml``: which profile gives the services their classes, and which streams count."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from meshsec.core.scheduling.governor_settings import DEFAULTS, GovernorSettings, decode_governor
from meshsec.core.scheduling.profiles import STOCK, Profile
from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

DEFAULT_PROFILE = "governor"
"""What is in force when the file says nothing; where its file is not installed, ``stock`` is."""
PROTECTED_MAX = 16
_NAME_MAX = 255
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+\.(?:service|scope|slice)")
_GROUP = re.compile(r"(?:/[A-Za-z0-9:_.@\\-]+)+")

Profiles = Callable[[str], Profile]
"""Gives the scheduling profile of a name, or raises ValueError with what is allowed."""


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """``[scheduling]``."""

    profile: Profile = STOCK
    protect: tuple[str, ...] = ()
    """The streams whose frames count: systemd units, or control groups as absolute paths in their hierarchy."""
    governor: GovernorSettings = DEFAULTS
    """``[scheduling.governor]``; the deadline is the policy's."""


def only_stock(name: str) -> Profile:
    """The profiles where there are no files."""
    if name != STOCK.name:
        raise ValueError(STOCK.name)
    return STOCK


def read(table: Table, profiles: Profiles) -> SchedulingSettings:
    """The settings in the table; problems are noted there."""
    name = table.take("profile", tables.text, None)
    protect: tuple[str, ...] = table.take("protect", _read_protect, ())
    governor = decode_governor(table.table("governor"))
    table.refuse_the_rest()
    try:
        return SchedulingSettings(profiles(name or DEFAULT_PROFILE), protect, governor)
    except ValueError as error:
        if name is not None:
            table.refuse(name, error, "profile")
        return SchedulingSettings(protect=protect, governor=governor)


def _read_protect(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > PROTECTED_MAX:
        raise RefusedError(f"a list of at most {PROTECTED_MAX} units or control groups, such as ['encoder.service']")
    for index, name in enumerate(value):
        if not _is_unit_or_group(name):
            raise RefusedError("a systemd unit such as 'encoder.service', or a control group such as '/video'", index)
        if name in value[:index]:
            raise RefusedError("each once", index)
    return tuple(value)


def _is_unit_or_group(name: object) -> bool:
    if not isinstance(name, str) or len(name) > _NAME_MAX or ".." in name:
        return False
    return bool(_UNIT.fullmatch(name) or _GROUP.fullmatch(name))
