"""Answer the methods of the control socket (docs/reference/control-socket.md)."""

from collections.abc import Collection, Mapping
from typing import Any

import meshsec
from meshsec.adapters.files.gateway_store import GatewayStoreError
from meshsec.adapters.files.mode_store import ModeStoreError
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control import scheduling_facts
from meshsec.agent.control.bench_requests import BenchMethods
from meshsec.agent.control.join_requests import JoinMethods
from meshsec.agent.control.level_requests import LevelMethods
from meshsec.agent.control.page_requests import PageRequests
from meshsec.agent.control.params import Method, Params, text
from meshsec.agent.control.peer_requests import PeerRequests
from meshsec.agent.control.sides import Sides
from meshsec.agent.control.view_requests import ViewRequests
from meshsec.core.channels.events import RenegotiationAsked
from meshsec.core.channels.lifecycle import State
from meshsec.core.config.overlay_settings import NOT_ENABLED
from meshsec.core.explain import views
from meshsec.core.networks.networks import DEVICE
from meshsec.core.policy.levels import NOT_BY_OVERLAY, asks_more_than_the_key
from meshsec.core.policy.policy import MODES
from meshsec.core.values import tables
from meshsec.core.values.model import DataPlane


class Requests:
    """The control socket's methods: those that report, those about peers, and those about the node as a whole."""

    def __init__(self, sides: Sides, page: PageRequests) -> None:
        self._sides = sides
        self._methods: Mapping[str, Method] = {
            "ping": self._ping,
            **ViewRequests(sides).methods,
            "mode": self._mode,
            "gateway": self._gateway,
            "stream_report": self._stream_report,
            "watch": self._watch,
            **PeerRequests(sides).methods,
            **page.methods,
            **JoinMethods(sides).methods,
            **LevelMethods(sides).methods,
            **BenchMethods(sides).methods,
            "renegotiate": self._renegotiate,
            "reload": self._reload,
        }

    async def answer(self, method: str, params: Params) -> Mapping[str, Any]:
        """Answer one method. Raises ``ControlError``."""
        handler = self._methods.get(method)
        if handler is None:
            raise ControlError("unknown_method", f"{method!r} is no method; known: {' '.join(self._methods)}")
        return await handler(params)

    async def _ping(self, _params: Params) -> Mapping[str, Any]:
        return {"version": meshsec.__version__}

    async def _mode(self, params: Params) -> Mapping[str, Any]:
        """Return the modes; with parameters first set one peer's, or that of all peers without their own."""
        if params:
            await self._choose(_plane(params), text(params, "peer") if "peer" in params else None)
        return views.mode(self._sides.driver.engine)

    async def _choose(self, plane: DataPlane | None, name: str | None) -> None:
        engine = self._sides.driver.engine
        if plane is DataPlane.OVERLAY and not engine.known.overlay.enabled:
            raise ControlError("refused", f"{NOT_ENABLED} in meshsec.toml, and a restart of meshsecd")
        floor = engine.known.policy.levels[-1:]
        if plane is DataPlane.OVERLAY and floor and asks_more_than_the_key(floor, ""):
            raise ControlError("refused", NOT_BY_OVERLAY)
        channel = engine.known.shown_as(name) if name is not None else None
        if name is not None and (channel is None or channel.card is None):
            raise ControlError("unknown_peer", f"{name} is not a peer")
        try:
            await self._sides.modes.choose(channel.card.address if channel and channel.card else None, plane)
        except ModeStoreError as error:
            raise ControlError("failed", str(error)) from error

    async def _gateway(self, params: Params) -> Mapping[str, Any]:
        """Return the ways out; with a parameter first make this node a gateway, or end that."""
        if params:
            uplink = _uplink(params, self._sides.start.settings.routing.interfaces)
            try:
                await self._sides.gateway.choose(uplink)
            except GatewayStoreError as error:
                raise ControlError("failed", str(error)) from error
        return views.gateway(self._sides.driver.engine, self._sides.gateway.view(), self._sides.gateway_watch.problem)

    async def _stream_report(self, params: Params) -> Mapping[str, Any]:
        return scheduling_facts.report(self._sides, params)

    async def _watch(self, _params: Params) -> Mapping[str, Any]:
        return {}

    async def _renegotiate(self, params: Params) -> Mapping[str, Any]:
        name = text(params, "peer")
        channel = self._sides.driver.engine.known.shown_as(name)
        if channel is None:
            raise ControlError("unknown_peer", f"{name} is not a peer")
        if channel.state is not State.PROTECTED:
            raise ControlError(
                "refused", f"{name} is {channel.state}: only a protected channel can be negotiated again"
            )
        self._sides.driver.post(RenegotiationAsked(channel.name))
        return {"attempts": channel.attempt.count}

    async def _reload(self, _params: Params) -> Mapping[str, Any]:
        return {"problems": list(await self._sides.reload())}


def _uplink(params: Params, mesh: Collection[str]) -> str:
    """Return the uplink; empty for none."""
    value = params.get("uplink")
    if value == "":
        return ""
    if not tables.is_interface_name(value):
        raise ControlError("bad_params", f"uplink: {value!r} is not allowed; allowed: {tables.INTERFACE_RULE}")
    if value in mesh or value == DEVICE:
        raise ControlError("refused", f"uplink: {value} leads into the mesh; allowed: an interface that leads outside")
    return str(value)


def _plane(params: Params) -> DataPlane | None:
    """Return the chosen data plane; None removes the choice."""
    value = params.get("plane", "")
    if value is not None and value not in MODES:
        allowed = ", ".join((*MODES, "null"))
        raise ControlError("bad_params", f"plane: {value!r} is not allowed; allowed: {allowed}")
    return None if value is None else DataPlane(value)
