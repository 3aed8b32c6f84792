"""Answer the methods of `meshsec bench throughput` (ADR 0084). What they begin ends with the client's connection."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from meshsec.adapters.sockets.control import ControlError, Held
from meshsec.agent.control.params import Method, Params, text
from meshsec.agent.control.sides import Sides
from meshsec.agent.sides.bench import LONGEST, BenchError, Session
from meshsec.core.values.model import DataPlane

_PLANES = {str(one): one for one in DataPlane}


class BenchMethods:
    """The methods ``bench_*``."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self.methods: Mapping[str, Method] = {"bench_begin": self._begin, "bench_plane": self._plane}

    async def _begin(self, params: Params) -> Mapping[str, Any]:
        serves = params.get("serves", False)
        if not isinstance(serves, bool):
            raise ControlError("bad_params", f"serves: {serves!r} is not allowed; allowed: true or false")
        try:
            session = await self._sides.bench.begin(text(params, "peer"), serves=serves)
        except BenchError as error:
            raise ControlError("refused", str(error)) from error
        return Held(self._shown(session), partial(self._sides.bench.end_soon, session))

    async def _plane(self, params: Params) -> Mapping[str, Any]:
        plane, seconds = params.get("plane"), params.get("seconds", 1)
        if plane is not None and plane not in _PLANES:
            raise ControlError(
                "bad_params", f"plane: {params['plane']!r} is not allowed; allowed: {', '.join(_PLANES)}, null"
            )
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= LONGEST:
            raise ControlError("bad_params", f"seconds: {seconds!r} is not allowed; allowed: 1 to {LONGEST}")
        try:
            wanted = None if plane is None else _PLANES[plane]
            return self._shown(await self._sides.bench.use(text(params, "session"), wanted, seconds))
        except BenchError as error:
            raise ControlError("refused", str(error)) from error

    def _shown(self, session: Session) -> Mapping[str, Any]:
        """Return the session, and the ends of flows inside the planes and in the clear."""
        bench = self._sides.bench
        return {
            "session": session.token,
            "own": str(self._sides.start.card.address),
            "peer": str(session.card.address),
            "own_clear": str(bench.own_endpoint()),
            "peer_clear": str(bench.peer_endpoint(session)),
        }
