"""Answer the methods that only report."""

from collections.abc import Mapping
from typing import Any

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control import drift, facts, scheduling_facts
from meshsec.agent.control.params import Method, Params, text
from meshsec.agent.control.sides import Sides
from meshsec.agent.sides import access_view, fleet, joining_view
from meshsec.core.channels.situation import Situation
from meshsec.core.config.routing_settings import Signatures
from meshsec.core.explain import doctor, levels_view, network_sentences, views
from meshsec.core.explain.islands_view import sentences
from meshsec.core.ike.drift import view as drift_view
from meshsec.core.ike.port import IkeError

COUNTERS_AGE = 0.5
"""Age in seconds from which the SAs' counters are read again."""


class ViewRequests:
    """What this node knows and does, and why."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._counted_at = float("-inf")
        self.methods: Mapping[str, Method] = {
            "status": self._status,
            "algorithms": self._algorithms,
            "counters": self._counters,
            "topology": self._topology,
            "clients": self._clients,
            "services": self._services,
            "positions": self._positions,
            "fleets": self._fleets,
            "plan": self._plan,
            "explain": self._explain,
            "scheduling": self._scheduling,
            "doctor": self._doctor,
            "drift": self._drift,
        }

    @property
    def _now(self) -> float:
        return self._sides.driver.now

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
            sides.levels.problem,
            *levels_view.problems(sides.driver.engine.known),
            *facts.clones(sides),
            *sides.paths.problems(),
            *await self._past_networks(),
        ]
        known = filter(None, problems), sides.left_out(), sides.gateway.view()
        shown = views.status(sides.driver.engine, self._now, *known)
        links, joining = sides.islands.view(self._now), joining_view.standing(sides.joining)
        return {**shown, "links": links, "joining": joining, "bench": sides.bench.view()}

    async def _past_networks(self) -> list[str]:
        try:
            found = await facts.past_networks(self._sides)
        except OSError as error:
            return [f"routes to networks of peers: {error}"]
        return [f"a route to {one} leads past the tunnel into a network of a peer and is dropped" for one in found]

    async def _count(self) -> None:
        """Read the counters, because they change without an event."""
        if self._sides.ike.daemon.facts is None or self._now - self._counted_at < COUNTERS_AGE:
            return
        self._counted_at = self._now
        try:
            await self._sides.ike.readback.read_all()
        except IkeError:
            return  # the status then shows the last counters, and that the IKE daemon does not answer

    async def _algorithms(self, _params: Params) -> Mapping[str, Any]:
        known = self._sides.ike.daemon.algorithms
        return {"algorithms": None if known is None else sorted(known)}

    async def _counters(self, _params: Params) -> Mapping[str, Any]:
        sides = self._sides
        return {
            "schema": "meshsec-counters-1",
            "rules": await sides.kernel.counters(),
            "guard": await sides.kernel.guard_counters(),
            "router": await sides.routing.counters(),
            "overlay": sides.overlay.counters(),
        }

    async def _topology(self, _params: Params) -> Mapping[str, Any]:
        routing = self._sides.routing
        return views.topology(
            self._sides.driver.engine, routing.topology, signed=routing.signatures is not Signatures.OFF
        )

    async def _clients(self, _params: Params) -> Mapping[str, Any]:
        return access_view.view(self._sides.access, self._sides.names.name_of)

    async def _services(self, _params: Params) -> Mapping[str, Any]:
        return self._sides.services.view()

    async def _positions(self, _params: Params) -> Mapping[str, Any]:
        return self._sides.positions.view()

    async def _fleets(self, _params: Params) -> Mapping[str, Any]:
        return self._sides.fleet.view()

    async def _plan(self, _params: Params) -> Mapping[str, Any]:
        shown = views.plan(self._sides.driver.engine, self._now)
        return {**shown, "actions": [*shown["actions"], *self._sides.islands.plan(self._now)]}

    async def _explain(self, params: Params) -> Mapping[str, Any]:
        if "network" in params:
            return await self._explain_network(text(params, "network"))
        return await self._explain_peer(text(params, "peer"))

    async def _explain_peer(self, title: str) -> Mapping[str, Any]:
        try:
            shown = views.explain(self._sides.driver.engine, self._now, title)
        except LookupError as error:
            raise ControlError("unknown_peer", str(error.args[0])) from error
        links = (one for one in self._sides.islands.view(self._now) if one["peer"] == title)
        further = [*self._sides.paths.sentences(title), *(one for link in links for one in sentences(link))]
        return {**shown, "sentences": [*shown["sentences"], *await self._signing(title), *further]}

    async def _signing(self, title: str) -> list[str]:
        channel = self._sides.driver.engine.known.shown_as(title)
        if channel is None or channel.card is None:
            return []
        return await self._sides.routing.sentences(channel.card, channel.route)

    async def _explain_network(self, asked: str) -> Mapping[str, Any]:
        known = self._sides.driver.engine.known
        network = network_sentences.asked_network(asked)
        if network is None:
            allowed = "an address, or a network without host bits, such as 10.1.0.0/16"
            raise ControlError("bad_params", f"network: {asked!r} is not allowed; allowed: {allowed}")
        if (peer := network_sentences.whose(known, network)) is not None:
            return await self._explain_peer(peer)
        protected = network_sentences.containing(known, network)
        if protected is None:
            raise ControlError("unknown_network", _unknown_network(known, asked))
        try:
            others = await self._sides.networks.others([protected])
        except OSError as error:
            raise ControlError("failed", str(error)) from error
        return network_sentences.explain_network(known, protected, network, others)

    async def _doctor(self, _params: Params) -> Mapping[str, Any]:
        try:
            checks = doctor.examine(await facts.collect(self._sides))
            checks += [
                *fleet.checks(self._sides.trust),
                *self._sides.fleet.checks(),
                *joining_view.checks(self._sides.joining),
                *self._sides.port.checks(),
                *self._sides.twins.checks(),
                *access_view.checks(self._sides.access),
                *self._sides.talk.checks(),
                *self._sides.positions.checks(),
                *self._sides.levels.checks(),
                *self._sides.paths.checks(),
                *self._sides.bench.checks(),
            ]
            return doctor.view([*checks, *await scheduling_facts.checks(self._sides.scheduling)])
        except OSError as error:
            raise ControlError("failed", f"this node cannot be examined: {error}") from error

    async def _drift(self, params: Params) -> Mapping[str, Any]:
        peer = text(params, "peer") if "peer" in params else None
        if peer is not None and self._sides.driver.engine.known.shown_as(peer) is None:
            raise ControlError("unknown_peer", f"{peer} is not a peer")
        return drift_view(await drift.examine(self._sides), peer)

    async def _scheduling(self, _params: Params) -> Mapping[str, Any]:
        return scheduling_facts.view(self._sides)


def _unknown_network(known: Situation, asked: str) -> str:
    protected = ", ".join(map(str, (*known.networks.grants, *known.networks.own))) or "none"
    return (
        f"{asked} is in no network that is protected on this node; those are: {protected}. [routing] accept of "
        "meshsec.toml names a peer's, [routing] attached one behind this node"
    )
