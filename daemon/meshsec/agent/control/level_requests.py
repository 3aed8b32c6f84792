"""Answer the method about the threat (ADR 0091)."""

from collections.abc import Mapping
from typing import Any

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.params import Method, Params
from meshsec.agent.control.sides import Sides
from meshsec.core.explain import levels_view
from meshsec.files import FileError

_ALLOWED = ("high", "normal")


class LevelMethods:
    """The operator's word about the threat."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self.methods: Mapping[str, Method] = {"threat": self._threat}

    async def _threat(self, params: Params) -> Mapping[str, Any]:
        """Return what is known of the threat; with a parameter first take the operator's word."""
        known = self._sides.driver.engine.known
        if params:
            threat = params.get("threat")
            if threat not in _ALLOWED:
                raise ControlError("bad_params", f"threat: {threat!r} is not allowed; allowed: {', '.join(_ALLOWED)}")
            if threat == "high" and not any(rule.threat for rule in known.policy.level_rules):
                why = "no rule in force asks about the threat; docs/guide/policies.md shows [[policy.level_rules]]"
                raise ControlError("refused", why)
            try:
                await self._sides.levels.say(high=threat == "high")
            except FileError as error:
                raise ControlError("failed", str(error)) from error
        unable = levels_view.unable(known)
        return {"schema": "meshsec-threat-1", **levels_view.threat(known), "unable": unable}
