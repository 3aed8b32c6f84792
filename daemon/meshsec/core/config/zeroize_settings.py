"""``[zeroize]`` of ``meshsec.toml``: how a lost node becomes harmless (docs/guide/lost-node.md)."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.config.kinds import FilePath
from meshsec.core.values.definition import Reading, Rule
from meshsec.core.values.tables import Problem
from meshsec.core.zeroize.keys import CODE_MAX, CODES

_KEY_RULE = f"a name such as 'KEY_WPS_BUTTON' or 'KEY_F12', or a code from 1 to {CODE_MAX}"


def _key(value: object) -> int:
    if isinstance(value, str) and value in CODES:
        return CODES[value]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= CODE_MAX:
        raise ValueError
    return value


class ZeroizeSettings(Struct, frozen=True):
    """``[zeroize]``."""

    also: Annotated[
        tuple[FilePath, ...],
        Meta(
            max_length=64,
            description="what is destroyed beside the node's own secrets: files, and directories with all files below",
        ),
    ] = ()
    key: Annotated[
        int | None,
        Rule(
            _KEY_RULE,
            _key,
            {"anyOf": [{"enum": list(CODES)}, {"type": "integer", "minimum": 1, "maximum": CODE_MAX}]},
        ),
        Meta(
            description="the key or button of any input device that destroys the keys when it is held: a name of "
            "linux/input-event-codes.h, such as `KEY_WPS_BUTTON`, `KEY_F12` or `BTN_0`, or its number (`evtest` shows "
            "it)",
            extra={"default": "none"},
        ),
    ] = None
    hold_s: Annotated[
        float, Meta(ge=0, le=30, description="for how long it must be held", extra={"unit": "seconds"})
    ] = 3.0
    dead_man_h: Annotated[
        int | None,
        Meta(
            ge=1,
            le=8760,
            description="the keys are destroyed when the node has run for so long without `meshsec alive`",
            extra={"unit": "hours", "default": "none"},
        ),
    ] = None

    @property
    def watches(self) -> bool:
        """Whether something has to be waited for."""
        return self.key is not None or self.dead_man_h is not None

    @property
    def words(self) -> str:
        """What is waited for, for people."""
        key = f"key {self.key} for {self.hold_s:g} s" if self.key is not None else "no key"
        return f"{key}, and {f'dead_man_h {self.dead_man_h}' if self.dead_man_h is not None else 'no dead_man_h'}"


def lenient(document: Mapping[str, object], base: str) -> tuple[ZeroizeSettings, list[Problem]]:
    """Return ``[zeroize]`` of a configuration whatever its other tables say, and what is refused in it.

    A key that is refused has its default. ``base`` is the directory that relative paths start from.
    """
    reading = Reading(base)
    return reading.table(ZeroizeSettings, document.get("zeroize", {}), ("zeroize",)), reading.problems
