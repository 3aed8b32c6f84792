"""Collect the facts that doctor checks."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from meshsec.adapters.files import key_store, resolv_conf
from meshsec.adapters.ike import strongswan_conf
from meshsec.adapters.kernel import netlink
from meshsec.agent.control.sides import Sides
from meshsec.agent.sides import radios, routing
from meshsec.agent.sides.strangers import Stranger
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.explain import copied_keys, islands_view, networks_view
from meshsec.core.explain.findings import AccessPointFacts, Facts, RadioFacts
from meshsec.core.formats import routers
from meshsec.core.ike.guard import Contest
from meshsec.core.islands.paths import is_path
from meshsec.core.networks.networks import DEVICE, originators
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import OWN_NEXT, PEER_NEXT, Address, Card, DataPlane, Neighbour
from meshsec.core.values.topology import Topology

RESOLV_CONF = Path("/etc/resolv.conf")
"""The resolvers that dnsmasq asks where a configuration names none."""

_log = logging.getLogger(__name__)

_SYSCTLS = {
    "net.ipv6.conf.all.forwarding": Path("/proc/sys/net/ipv6/conf/all/forwarding"),
    "net.ipv4.ip_forward": Path("/proc/sys/net/ipv4/ip_forward"),
}


async def collect(sides: Sides) -> Facts:
    """Collect all facts once; nothing is changed."""
    esp, ike, topology = sides.start.esp, sides.ike.daemon.facts, sides.routing.topology
    mtus, links = await netlink.mtus(), await netlink.links()
    interfaces = [one for one in sides.start.settings.routing.interfaces if not is_path(one)]
    await sides.configuration.poll()
    await sides.ports.poll(is_up=ike is not None)
    daemon = sides.start.settings.ike.daemon
    needed = strongswan_conf.plugins_for(esp.backend) if daemon is IkeDaemon.STRONGSWAN else ()
    return Facts(
        backend=esp.backend,
        backend_reason=esp.reason,
        backend_problem=esp.problem,
        ike_daemon=daemon,
        ike_version=ike.version if ike else "",
        ike_problem="" if ike else sides.ike.daemon.down_reason,
        plugins_missing=[name for name in needed if name not in ike.plugins] if ike else [],
        ports_problem=sides.ports.problem,
        left_out=len(sides.left_out()),
        router_software=topology.software,
        router_problem=sides.routing.down_reason,
        router_warnings=topology.warnings,
        refusals=await sides.routing.refusals(),
        routes_missing=await _routes_missing(sides),
        rules_in_force=await sides.kernel.rules_in_force(),
        tables_altered=await sides.altered_tables(),
        rules_disturbed=sides.kernel.disturbed,
        dropped=await sides.kernel.counters(),
        addresses_missing=await _addresses_missing(sides.kernel.own_addresses),
        address_problem=sides.kernel.address_problem,
        next_address=str(sides.start.cards[1].address) if sides.start.cards[1:] else "",
        forwarding={name: _is_on(path) for name, path in _SYSCTLS.items() if path.exists()},
        mtus={name: mtus.get(name) for name in interfaces},
        down=[name for name in interfaces if name in links and not links[name].up],
        no_carrier=[name for name in interfaces if name in links and links[name].up and not links[name].carrier],
        neighbours=None if sides.routing.down_reason else _neighbours(sides),
        trust_problems=sides.trust.problems,
        ipv4_doubts=sides.trust.ipv4_doubts,
        names_problem=sides.names.problem,
        own_name=sides.start.card.name,
        card_names={(_plain(one.name), one.card.name) for one in sides.trust.peers.values()},
        bypass=[f"{one} ({one.reason})" for one in sides.driver.engine.known.policy.bypass],
        closed_by_doubt=sides.driver.engine.known.rules.closed_by_doubt,
        config_problem=sides.configuration.problem,
        config_changed=sides.configuration.changed,
        announced_instead=_announced_instead(sides),
        failed=_failed(sides),
        unprotected_networks=[str(one) for one in sides.driver.engine.known.rules.perimeter.unprotected],
        uplink=sides.gateway.state.uplink,
        gateway_problems=sides.gateway.view()["problems"],
        links=[one["peer"] for one in sides.islands.view(sides.driver.now)],
        link_problems=islands_view.faults(sides.islands.view(sides.driver.now)),
        gateways_unwatched=sides.gateway_watch.problem,
        networks=len(sides.driver.engine.known.networks.grants),
        network_problems=[*networks_view.problems(sides.driver.engine.known)],
        limited_networks=networks_view.limits(sides.driver.engine.known),
        resolvers_lost=await _resolvers_lost(sides),
        past_networks=await past_networks(sides),
        unannounced=[str(one) for one in sides.routing.unannounced()],
        unheeded_networks=networks_view.unheeded(sides.driver.engine.known),
        own_copy=_copied(sides),
        doubled=doubled(sides),
        unauthenticated=[one.title for one in sides.driver.engine.known.channels() if one.unauthenticated()],
        strangers=_strangers(sides),
        lost=[one.title for one in sides.driver.engine.known.channels() if one.quiet and not one.quiet.answers],
        guard_problem=sides.kernel.guard_problem,
        guarded=await sides.kernel.guard_counters(),
        **await _contested(sides),
        radios=await _radios(sides),
        access_point=await _access_point(sides),
        unweighed=sides.start.settings.routing.unweighed,
        **await asyncio.to_thread(_key, Path(sides.start.settings.paths.key), sides.start.card),
        **_overlay(sides, mtus),
    )


def _overlay(sides: Sides, mtus: Mapping[str, int]) -> dict[str, Any]:
    overlay = sides.driver.engine.known.overlay
    if not overlay.enabled:
        return {}
    chosen = [channel for channel in sides.driver.engine.known.channels() if channel.handover.mode is DataPlane.OVERLAY]
    return {
        "overlay": f"overlayd {sides.overlay.version}, by {overlay.device}".replace(" ,", ","),
        "overlay_problem": overlay.down or "",
        "overlay_mtu": mtus.get(overlay.device) if sides.driver.engine.known.networks.device else None,
        "one_sided": _one_sided(sides),
        "without_ipv4": [channel.title for channel in chosen if channel.card and channel.card.ipv4],
    }


def _one_sided(sides: Sides) -> list[str]:
    """Return peers whose data plane differs from ours.

    Such a peer has made an SA although we are in mode ``overlay``, or its user data comes through the overlay although
    we are not. A session alone proves nothing, because neighbours have one to exchange paths.
    """
    engine, found = sides.driver.engine, []
    for channel in engine.known.channels():
        talks = channel.card is not None and channel.card.address in sides.overlay.talking
        if channel.handover.mode is DataPlane.OVERLAY:
            differs = (
                channel.handover.carried_since is not None
                and channel.established().complete
                and not channel.handover.superseded
            )
        else:
            differs = talks and channel.handover.carried_since is None and channel.established().complete
        if differs:
            found.append(channel.title)
    return found


async def _radios(sides: Sides) -> list[RadioFacts]:
    """Return the facts of all readable radios. A wireless stack that does not answer hides no other fact."""
    settings = sides.start.settings
    try:
        return await radios.facts(settings.routing.interfaces, settings.radios)
    except OSError as error:
        _log.warning("the radios could not be looked at: %s", error)
        return []


async def _access_point(sides: Sides) -> AccessPointFacts | None:
    try:
        return await radios.access_point(sides.start.settings)
    except OSError as error:
        _log.warning("the radio of the access point could not be looked at: %s", error)
        return None


async def _resolvers_lost(sides: Sides) -> list[str]:
    """Return the resolvers by which this node answers its clients, if it can ask none of them.

    Packets of its own into the tunnel need an IPv4 address in the mesh, or one in a network behind this node.
    """
    access = sides.start.settings.access
    found = resolv_conf.nameservers(RESOLV_CONF)
    if sides.start.card.ipv4 or not access.answers_names or any(one.version == 6 for one in found):
        return []
    ways, own = await netlink.ways_to(found), sides.driver.engine.known.networks.own
    behind = [one for one in own if one not in access.networks]
    usable = (
        way.interface and (way.interface != DEVICE or any(way.source in one for one in behind if way.source))
        for way in ways.values()
    )
    return [] if any(usable) else [*map(str, found)]


async def past_networks(sides: Sides) -> list[str]:
    """Return the routes of others that lead into networks of peers past the tunnel. Raises OSError."""
    return [*map(str, await sides.networks.others(sides.driver.engine.known.networks.tunnelled))]


async def _contested(sides: Sides) -> dict[str, Any]:
    contested = await sides.kernel.contested()
    found: dict[Contest | None, list[str]] = {}
    for one in sides.driver.engine.known.channels():
        if one.connection is not None:
            found.setdefault(contested.get(one.connection.remote_address), []).append(one.title)
    return {"contested": found.get(Contest.ANSWERED, []), "denied": found.get(Contest.REFUSED, [])}


def _strangers(sides: Sides) -> list[str]:
    """Return the nodes that asked for an SA in vain.

    A peer that starts before meshsecd asks before charon knows its card, and succeeds the next time.
    """
    own = [*sides.start.cards, *filter(None, [sides.start.ended])]
    peers = [channel.card for channel in sides.driver.engine.known.channels() if channel.card]
    asked = unknown(sides.ike.strangers, [*own, *peers])
    return [f"{one.address}: {one.reason} ({one.times} times)" for one in asked]


def unknown(asked: Iterable[Stranger], known: Iterable[Card]) -> list[Stranger]:
    """Return the askers whose address is on none of the cards."""
    addresses = {address for card in known for address in originators(card)}
    return [one for one in asked if ip_address(one.address) not in addresses]


def doubled(sides: Sides) -> list[str]:
    """Return the peers of which it was proved that two nodes have the key."""
    channels = sides.driver.engine.known.channels()
    return [one.title for one in channels if one.card and sides.twins.is_doubled(one.card)]


def clones(sides: Sides) -> list[str]:
    """Return what status reports about copied keys."""
    return copied_keys.found(_copied(sides), doubled(sides))


def _copied(sides: Sides) -> copied_keys.Own:
    """Return what shows that another node has this node's key."""
    if sides.twins.is_doubled(sides.start.card):
        return copied_keys.Own.PROVEN
    if copied_keys.SAME_ADDRESS in sides.routing.topology.warnings:
        return copied_keys.Own.ANNOUNCED
    if _is_taken(sides.routing.topology):
        return copied_keys.Own.TAKEN
    return copied_keys.Own.NONE


def _is_taken(topology: Topology) -> bool:
    """Return whether a neighbour that does not hear this node has a link to this node's address."""
    deaf = {one.originator for one in topology.neighbours if not one.symmetric}
    return any(edge.source in deaf and edge.target in topology.originators for edge in topology.edges)


def _failed(sides: Sides) -> list[str]:
    """Return the peers in reach with which every attempt has failed, each with the last reason."""
    failed = [
        one for one in sides.driver.engine.known.channels() if one.state is State.FAILED and not one.unauthenticated()
    ]
    return [f"{one.title} ({_last_reason(one)})" for one in failed]


def _last_reason(channel: Channel) -> str:
    failure = channel.attempt.last_failure
    return failure.diagnosis.meaning if failure else channel.reason


def _plain(title: str) -> str:
    """Return a peer's name without the marks of its and of this node's next key."""
    return title.removesuffix(OWN_NEXT).removesuffix(PEER_NEXT)


def _neighbours(sides: Sides) -> dict[str, bool]:
    return named(sides.routing.topology.neighbours, sides.driver.engine.known.channels())


def named(neighbours: Iterable[Neighbour], channels: Iterable[Channel]) -> dict[str, bool]:
    """Return whether the link with each neighbour is symmetric, by the peer's name or the neighbour's address.

    A neighbour of both IP versions is listed twice; it hears this node if it does so by one of them.
    """
    titles: dict[Address, str] = {}
    for channel in channels:
        if channel.card:
            titles.update(dict.fromkeys(originators(channel.card), channel.title))
    found: dict[str, bool] = {}
    for one in neighbours:
        name = titles.get(one.originator, str(one.originator))
        found[name] = found.get(name, False) or one.symmetric
    return found


def _announced_instead(sides: Sides) -> list[str]:
    """Return addresses that the routing daemon announces for this node although they are not its own."""
    announced = sides.routing.topology.originators
    own = routers.originators(sides.start.card, sides.start.esp.backend)
    return [] if set(announced) >= set(own) else [str(address) for address in announced]


async def _routes_missing(sides: Sides) -> list[str]:
    installed = await routing.kernel_destinations()
    return sorted(
        str(route.destination) for route in sides.driver.engine.known.routes if route.destination not in installed
    )


async def _addresses_missing(own: tuple[Address, ...]) -> list[str]:
    assigned = await netlink.assigned()
    return [str(address) for address in own if address not in assigned]


def _key(path: Path, own: Card) -> dict[str, Any]:
    try:
        found = key_store.load(path)
    except key_store.KeyStoreError as error:
        return {"key_problem": str(error)}
    if found.public_key == own.public_key:
        return {"key_problem": ""}
    problem = f"{path} holds another key than the one that meshsecd uses, whose address is {own.address}"
    return {"key_problem": problem, "key_changed": True}


def _is_on(path: Path) -> bool:
    return path.read_text().strip() not in ("0", "")
