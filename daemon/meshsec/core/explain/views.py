"""What people and programs are shown, as JSON values. Schemas: docs/reference/schema/meshsec-VIEW-1.json.

Ages and delays are seconds relative to the moment of the view, because the monotonic clock means nothing outside.
"""

from collections.abc import Iterable
from typing import Any

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.plan import Planned
from meshsec.core.explain import levels_view
from meshsec.core.explain.channel_status import Shown, shown
from meshsec.core.explain.networks_view import networks
from meshsec.core.explain.sentences import CLOSED_BY_DOUBT, sentences
from meshsec.core.networks.networks import originators
from meshsec.core.policy.capability import LeftOut
from meshsec.core.values.model import Card, Edge, IkeSa, Neighbour, Route
from meshsec.core.values.topology import Topology

View = dict[str, Any]
NO_GATEWAY: View = {"uplink": None, "offers": [], "problems": []}


def status(
    engine: Engine,
    now: float,
    problems: Iterable[str] = (),
    left_out: Iterable[LeftOut] = (),
    gateway: View | None = None,
) -> View:
    """Return the node, the daemons it works with, and every peer.

    ``problems``: what the caller knows to be wrong besides; ``left_out``: what of the policy the IKE daemon cannot do;
    ``gateway``: the way out through this node.
    """
    return {
        "schema": "meshsec-status-1",
        "node": _node(engine.known.node),
        "esp_ground": str(engine.known.backend),
        "ike_daemon": _daemon(engine.known.ike_down),
        "routing_daemon": _daemon(engine.known.router_down),
        "overlay": _overlay(engine),
        "rules_stand": engine.known.rules.met(),
        "problems": [*problems, *([CLOSED_BY_DOUBT] if engine.known.rules.closed_by_doubt else [])],
        "suites": _suites(engine),
        "levels": levels_view.node(engine.known),
        "left_out": [{"kind": one.kind, "proposal": one.proposal, "lacks": list(one.lacks)} for one in left_out],
        "bypass": [one.table() for one in engine.known.policy.bypass],
        "unprotected_networks": [str(one) for one in engine.known.rules.perimeter.unprotected],
        "own_networks": [str(one) for one in engine.known.networks.own],
        "gateway": gateway or NO_GATEWAY,
        "links": [],
        "joining": [],
        "bench": None,
        "networks": networks(engine.known),
        "peers": [_peer(engine, channel, now) for channel in engine.known.channels()],
    }


def topology(engine: Engine, known: Topology, *, signed: bool) -> View:
    """Return what the routing daemon knows, and which of it concerns a peer.

    ``signed``: signatures are looked at, so that the view says who signs and what is confirmed.
    """

    def signing(name: str, value: bool) -> View:
        return {name: value} if signed else {}

    return {
        "schema": "meshsec-topology-1",
        "routing_daemon": _daemon(engine.known.router_down),
        "neighbours": [_neighbour(one) | signing("signs", one.signs) for one in known.neighbours],
        "edges": [_edge(one) | signing("confirmed", known.is_confirmed(one)) for one in known.edges],
        "routes": [_route(engine, one) | signing("confirmed", one.confirmed) for one in engine.known.routes],
        "routes_truncated": engine.known.routes.truncated,
        "names": _names(engine),
    }


def _names(engine: Engine) -> View:
    """Return the names of this node and its peers, by the addresses under which the router may know them."""
    own = dict.fromkeys(originators(engine.known.node), engine.known.node.name)
    cards = ((channel.card, channel.title) for channel in engine.known.channels() if channel.card)
    found = {address: title for card, title in cards for address in originators(card)}
    return {str(address): name for address, name in (found | own).items()}


def plan(engine: Engine, now: float) -> View:
    """Return what will be done, why, and in how many seconds (null: at once, or after what it waits for)."""
    return {
        "schema": "meshsec-plan-1",
        "actions": [_planned(engine, planned, now) for planned in engine.plan(now)],
    }


def change(name: str, seen: Shown) -> View:
    """Return the event that reports a channel's change to `meshsec watch`."""
    return {
        "kind": "channel",
        "peer": name,
        "state": str(seen.state),
        "reason": seen.reason,
        "data_plane": _text(seen.plane),
    }


def mode(engine: Engine) -> View:
    """Return which data plane is wanted and which one carries, for the node and for each peer."""
    return {
        "schema": "meshsec-mode-1",
        "default": str(engine.known.overlay.default_mode),
        "overlay": {"enabled": engine.known.overlay.enabled, **_daemon(engine.known.overlay.down)},
        "peers": [_mode(engine, channel) for channel in engine.known.channels()],
    }


def _mode(engine: Engine, channel: Channel) -> View:
    return {
        "name": channel.title,
        "plane": str(channel.handover.mode),
        "override": channel.card is not None and channel.card.address in engine.known.overlay.modes.peers,
        "carries": _text(shown(engine, channel).plane),
    }


def gateway(engine: Engine, own: View, unwatched: str) -> View:
    """Return the way out through this node, and those that it uses. ``unwatched``: why others are not watched."""
    ways = [one for one in networks(engine.known) if one["network"] in {"0.0.0.0/0", "::/0"}]
    return {"schema": "meshsec-gateway-1", "gateway": own, "unwatched": unwatched, "ways_out": ways}


def explain(engine: Engine, now: float, name: str) -> View:
    """Return in sentences why the channel of peer ``name`` is as it is. Raises LookupError for an unknown peer."""
    channel = engine.known.shown_as(name)
    if channel is None or channel.card is None:
        refused = (
            f" (refused: {'; '.join(engine.known.rules.trust_problems)})" if engine.known.rules.trust_problems else ""
        )
        raise LookupError(f"{name} is not a peer: there is no card of that name in the trust store{refused}")
    seen = shown(engine, channel)
    return {
        "schema": "meshsec-explain-1",
        "peer": name,
        "state": str(seen.state),
        "reason": seen.reason,
        "sentences": sentences(engine, channel, channel.card, now),
    }


def _node(card: Card) -> View:
    return {
        "name": card.name,
        "address": str(card.address),
        "locator": str(card.locator),
        "ipv4": _text(card.ipv4),
        "fingerprint": card.fingerprint.hex(),
    }


def _daemon(down: str | None) -> View:
    return {"up": down is None, "reason": down}


def _overlay(engine: Engine) -> View | None:
    overlay = engine.known.overlay
    if not overlay.enabled:
        return None
    return {**_daemon(overlay.down), "device": overlay.device, "default_mode": str(overlay.default_mode)}


def _suites(engine: Engine) -> View | None:
    chosen = engine.known.suites.chosen
    if chosen is None:
        return None
    return {
        "chosen": chosen.name,
        "why": engine.known.suites.why,
        "deadline_ms": engine.known.policy.deadline_ms,
        "floor": engine.known.policy.floor,
        "measured": [
            {
                "name": measure.suite.name,
                "samples": measure.samples,
                "recent_ms": _milliseconds(measure.recent),
            }
            for measure in engine.known.suites.measures()
        ],
    }


def _peer(engine: Engine, channel: Channel, now: float) -> View:
    card, route, sa = channel.card, channel.route, channel.ike_sa()
    seen = shown(engine, channel)
    late = (
        channel.attempt.route_to_protected is not None
        and channel.attempt.route_to_protected * 1000 > engine.known.policy.deadline_ms
    )
    return {
        "name": channel.title,
        "address": _text(card.address if card else None),
        "ipv4": _text(card.ipv4 if card else None),
        "hops": route.hops if route else None,
        "next_hop": _text(route.next_hop if route else None),
        "interface": route.interface if route else None,
        "state": str(seen.state),
        "reason": seen.reason,
        "since": now - seen.since,
        "initiator": channel.initiator,
        "attempts": channel.attempt.count,
        "last_failure": _failure(channel, now),
        "setup_ms": _setup(channel),
        "route_to_protected_ms": _milliseconds(channel.attempt.route_to_protected),
        "late": late,
        "mode": str(channel.handover.mode),
        "authentication": _text(channel.connection and channel.connection.authentication),
        "data_plane": _text(seen.plane),
        "quiet": _quiet(channel, now),
        "level": levels_view.peer(engine.known, channel),
        **_sa(sa, now),
    }


def _quiet(channel: Channel, now: float) -> View | None:
    quiet = channel.quiet
    return None if quiet is None else {"for": now - quiet.since, "answers": quiet.answers}


def _failure(channel: Channel, now: float) -> View | None:
    failure = channel.attempt.last_failure
    if failure is None:
        return None
    return {
        "reason": failure.cause.words,
        "meaning": failure.diagnosis.meaning,
        "fault": str(failure.diagnosis.fault),
        "ago": now - failure.at,
    }


def _setup(channel: Channel) -> View | None:
    phases = channel.attempt.phases
    if phases is None:
        return None
    return {
        "ike_sa_init": _milliseconds(phases.ike_sa_init),
        "ike_auth": _milliseconds(phases.ike_auth),
        "child": _milliseconds(phases.child),
    }


def _sa(sa: IkeSa | None, now: float) -> View:
    children = sa.children if sa else ()
    return {
        "sa_age": now - sa.established_at if sa and sa.established_at is not None else None,
        "ike_algorithms": [sa.encryption, sa.key_exchange] if sa and sa.encryption else None,
        "ike_spis": {"initiator": sa.spi_initiator, "responder": sa.spi_responder} if sa else None,
        "spis": [
            {"child": child.name, "in": child.spi_in, "out": child.spi_out, "encryption": child.encryption}
            for child in children
        ],
        "bytes_in": sum(child.bytes_in for child in children),
        "bytes_out": sum(child.bytes_out for child in children),
        "packets_in": sum(child.packets_in for child in children),
        "packets_out": sum(child.packets_out for child in children),
    }


def _neighbour(neighbour: Neighbour) -> View:
    return {
        "originator": str(neighbour.originator),
        "symmetric": neighbour.symmetric,
        "metric_in": neighbour.metric_in,
        "metric_out": neighbour.metric_out,
        "is_mpr": neighbour.is_mpr,
        "selected_us": neighbour.selected_us,
    }


def _edge(edge: Edge) -> View:
    return {"source": str(edge.source), "target": str(edge.target), "metric": edge.metric}


def _route(engine: Engine, route: Route) -> View:
    return {
        "destination": str(route.destination),
        "next_hop": str(route.next_hop),
        "interface": route.interface,
        "hops": route.hops,
        "metric": route.metric,
        "last_hop": _text(route.last_hop),
        "originator": _text(route.originator),
        "peer": engine.known.title(next(iter(engine.known.routes.owners(route.destination)), None)),
    }


def _planned(engine: Engine, planned: Planned, now: float) -> View:
    label = planned.action.label
    return {
        "action": label.name,
        "peer": engine.known.title(label.peer),
        "detail": label.detail,
        "why": planned.why,
        "in": None if planned.at is None else planned.at - now,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
