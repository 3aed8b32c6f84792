"""Answer the methods of the control socket (docs/reference/control-socket.md)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import meshsec
from meshsec.adapters.files import trust_store
from meshsec.adapters.files.mode_store import ModeStoreError
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control import drift, facts, scheduling_facts
from meshsec.agent.control.sides import Sides
from meshsec.agent.sides import fleet
from meshsec.core.channels.events import RenegotiationAsked
from meshsec.core.channels.lifecycle import State
from meshsec.core.config.overlay_settings import NOT_ENABLED
from meshsec.core.explain import doctor, views
from meshsec.core.ike.drift import view as drift_view
from meshsec.core.ike.port import IkeError
from meshsec.core.policy.policy import MODES
from meshsec.core.trust import card as cards
from meshsec.core.trust import roster as rosters
from meshsec.core.values.model import DataPlane

COUNTERS_AGE = 0.5
"""Age in seconds from which the SAs' counters are read again."""

RULES_SECONDS = 10.0
"""Seconds that a command waits until its rules are in force: nft takes well below a second, on a busy machine
longer."""

Params = Mapping[str, Any]


class Requests:
    """The control socket's methods, one here for each."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._counted_at = float("-inf")
        self._methods: Mapping[str, Callable[[Params], Awaitable[Mapping[str, Any]]]] = {
            "ping": self._ping,
            "status": self._status,
            "algorithms": self._algorithms,
            "topology": self._topology,
            "plan": self._plan,
            "explain": self._explain,
            "mode": self._mode,
            "scheduling": self._scheduling,
            "stream_report": self._stream_report,
            "doctor": self._doctor,
            "drift": self._drift,
            "watch": self._watch,
            "peer_add": self._peer_add,
            "peer_remove": self._peer_remove,
            "peer_next": self._peer_next,
            "peer_end": self._peer_end,
            "peer_revoke": self._peer_revoke,
            "peer_unrevoke": self._peer_unrevoke,
            "renegotiate": self._renegotiate,
            "reload": self._reload,
        }

    async def answer(self, method: str, params: Params) -> Mapping[str, Any]:
        """Answer one method. Raises ``ControlError``."""
        handler = self._methods.get(method)
        if handler is None:
            raise ControlError("unknown_method", f"{method!r} is no method; known: {' '.join(self._methods)}")
        return await handler(params)

    @property
    def _now(self) -> float:
        return self._sides.driver.now

    async def _ping(self, _params: Params) -> Mapping[str, Any]:
        return {"version": meshsec.__version__}

    async def _status(self, _params: Params) -> Mapping[str, Any]:
        await self._count()
        sides = self._sides
        trust = (*sides.trust.problems, *sides.trust.ipv4_doubts)
        problems = [
            *trust,
            sides.ports.problem,
            sides.configuration.problem,
            sides.kernel.address_problem,
            sides.modes.problem,
            *facts.clones(sides),
        ]
        return views.status(sides.driver.engine, self._now, filter(None, problems), sides.left_out())

    async def _algorithms(self, _params: Params) -> Mapping[str, Any]:
        known = self._sides.ike.daemon.algorithms
        return {"algorithms": None if known is None else sorted(known)}

    async def _count(self) -> None:
        """Read the counters, because they change without an event."""
        if self._sides.ike.daemon.facts is None or self._now - self._counted_at < COUNTERS_AGE:
            return
        self._counted_at = self._now
        try:
            await self._sides.ike.readback.read_all()
        except IkeError:
            return  # the status then shows the last counters, and that the IKE daemon does not answer

    async def _topology(self, _params: Params) -> Mapping[str, Any]:
        topology = self._sides.routing.topology
        return views.topology(self._sides.driver.engine, topology.neighbours, topology.edges)

    async def _plan(self, _params: Params) -> Mapping[str, Any]:
        return views.plan(self._sides.driver.engine, self._now)

    async def _explain(self, params: Params) -> Mapping[str, Any]:
        try:
            return views.explain(self._sides.driver.engine, self._now, _text(params, "peer"))
        except LookupError as error:
            raise ControlError("unknown_peer", str(error.args[0])) from error

    async def _mode(self, params: Params) -> Mapping[str, Any]:
        """Return the modes; with parameters first set one peer's, or that of all peers without their own."""
        if params:
            await self._choose(_plane(params), _text(params, "peer") if "peer" in params else None)
        return views.mode(self._sides.driver.engine)

    async def _choose(self, plane: DataPlane | None, name: str | None) -> None:
        engine = self._sides.driver.engine
        if plane is DataPlane.OVERLAY and not engine.known.overlay.enabled:
            raise ControlError("refused", f"{NOT_ENABLED} in meshsec.toml, and a restart of meshsecd")
        channel = engine.known.shown_as(name) if name is not None else None
        if name is not None and (channel is None or channel.card is None):
            raise ControlError("unknown_peer", f"{name} is not a peer")
        try:
            await self._sides.modes.choose(channel.card.address if channel and channel.card else None, plane)
        except ModeStoreError as error:
            raise ControlError("failed", str(error)) from error

    async def _doctor(self, _params: Params) -> Mapping[str, Any]:
        try:
            checks = doctor.examine(await facts.collect(self._sides))
            checks += [*fleet.checks(self._sides.trust), *self._sides.fleet.checks()]
            return doctor.view([*checks, *await scheduling_facts.checks(self._sides.scheduling)])
        except OSError as error:
            raise ControlError("failed", f"this node cannot be examined: {error}") from error

    async def _drift(self, params: Params) -> Mapping[str, Any]:
        peer = _text(params, "peer") if "peer" in params else None
        if peer is not None and self._sides.driver.engine.known.shown_as(peer) is None:
            raise ControlError("unknown_peer", f"{peer} is not a peer")
        return drift_view(await drift.examine(self._sides), peer)

    async def _scheduling(self, _params: Params) -> Mapping[str, Any]:
        return scheduling_facts.view(self._sides)

    async def _stream_report(self, params: Params) -> Mapping[str, Any]:
        return scheduling_facts.report(self._sides, params)

    async def _watch(self, _params: Params) -> Mapping[str, Any]:
        return {}

    async def _peer_add(self, params: Params) -> Mapping[str, Any]:
        name = _text(params, "name")
        try:
            card = cards.parse(_text(params, "card"))
            await self._sides.trust.add(name, card)
        except (cards.CardError, trust_store.TrustStoreError) as error:
            raise ControlError("refused", str(error)) from error
        namesakes = rosters.namesakes(self._sides.trust.peers.values(), name, card)
        return {"name": name, "address": str(card.address), "namesakes": list(namesakes)}

    async def _peer_next(self, params: Params) -> Mapping[str, Any]:
        name = _text(params, "name")
        try:
            card = cards.parse(_text(params, "card"))
            await self._sides.trust.add_next(name, card)
        except (cards.CardError, trust_store.TrustStoreError) as error:
            raise ControlError("refused", str(error)) from error
        return {"name": name, "address": str(card.address)}

    async def _peer_end(self, params: Params) -> Mapping[str, Any]:
        name = _text(params, "name")
        try:
            await self._sides.trust.end(name)
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(name)
        return {"name": name}

    async def _peer_remove(self, params: Params) -> Mapping[str, Any]:
        name = _text(params, "name")
        channel = self._sides.driver.engine.known.shown_as(name)
        card = channel.card if channel else None
        try:
            await self._sides.trust.remove(name)
            if card is not None:
                await self._sides.modes.choose(card.address, None)
        except (trust_store.TrustStoreError, ModeStoreError) as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(name)
        still = self._sides.trust.peers.get(name)
        return {"name": name, "fleet": still.fleet if still else ""}

    async def _peer_revoke(self, params: Params) -> Mapping[str, Any]:
        reason = _text(params, "reason") if params.get("reason") else ""
        target = _text(params, "target")
        try:
            revoked = list(await self._sides.trust.revoke(target, reason))
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(target)
        return {"fingerprints": revoked}

    async def _wait_closed(self, name: str) -> None:
        """Answer only when the rules in force close the peer, because the caller relies on that."""
        if not await self._sides.driver.rules_in_force(RULES_SECONDS):
            raise ControlError(
                "refused",
                f"{name} has lost its trust, but the rules that close it are not in force after "
                f"{RULES_SECONDS:g} s; `meshsec doctor` says why",
            )

    async def _peer_unrevoke(self, params: Params) -> Mapping[str, Any]:
        fingerprint = _text(params, "fingerprint")
        try:
            await self._sides.trust.unrevoke(fingerprint)
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        return {"fingerprint": fingerprint}

    async def _renegotiate(self, params: Params) -> Mapping[str, Any]:
        name = _text(params, "peer")
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


def _plane(params: Params) -> DataPlane | None:
    """Return the chosen data plane; None removes the choice."""
    value = params.get("plane", "")
    if value is not None and value not in MODES:
        allowed = ", ".join((*MODES, "null"))
        raise ControlError("bad_params", f"plane: {value!r} is not allowed; allowed: {allowed}")
    return None if value is None else DataPlane(value)


def _text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise ControlError("bad_params", f"{name}: {value!r} is not allowed; allowed: a text that is not empty")
    return value
