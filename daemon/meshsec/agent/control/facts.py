"""Collects what doctor judges."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshsec.adapters.files import key_store
from meshsec.adapters.ike import strongswan_conf
from meshsec.adapters.kernel import netlink
from meshsec.agent.sides import radios, routing
from meshsec.core.explain.doctor import Facts, RadioFacts
from meshsec.core.values.model import Address, DataPlane, IkeDaemon

if TYPE_CHECKING:
    from meshsec.agent.agent import Agent

_log = logging.getLogger(__name__)

_SYSCTLS = {
    "net.ipv6.conf.all.forwarding": Path("/proc/sys/net/ipv6/conf/all/forwarding"),
    "net.ipv4.ip_forward": Path("/proc/sys/net/ipv4/ip_forward"),
}


async def collect(agent: "Agent") -> Facts:
    """Look at everything once; nothing is changed."""
    esp, ike, topology = agent.start.esp, agent.ike.facts, agent.routing.topology
    mtus = await netlink.mtus()
    await agent.ports.look(is_up=ike is not None)
    daemon = agent.start.settings.ike.daemon
    needed = strongswan_conf.plugins_for(esp.ground) if daemon is IkeDaemon.STRONGSWAN else ()
    return Facts(
        ground=esp.ground,
        ground_reason=esp.reason,
        ground_problem=esp.problem,
        ike_daemon=daemon,
        ike_version=ike.version if ike else "",
        ike_problem="" if ike else agent.ike.down_reason,
        plugins_missing=[name for name in needed if name not in ike.plugins] if ike else [],
        ports_problem=agent.ports.problem,
        left_out=len(agent.left_out()),
        router_software=topology.software,
        router_problem=agent.routing.down_reason,
        router_warnings=topology.warnings,
        refusals=await agent.routing.refusals(),
        routes_missing=await _routes_missing(agent),
        rules_stand=await agent.ground.rules_stand(),
        rules_disturbed=agent.ground.disturbed,
        dropped=await agent.ground.counters(),
        addresses_missing=await _addresses_missing(agent.ground.own_addresses),
        address_problem=agent.ground.address_problem,
        key_problem=await asyncio.to_thread(_key_problem, Path(agent.start.settings.paths.key)),
        next_address=str(agent.start.cards[1].address) if agent.start.cards[1:] else "",
        forwarding={name: _is_on(path) for name, path in _SYSCTLS.items() if path.exists()},
        mtus={name: mtus.get(name) for name in agent.start.settings.routing.interfaces},
        trust_problems=agent.trust.problems,
        ipv4_doubts=agent.trust.ipv4_doubts,
        bypass=[f"{one} ({one.reason})" for one in agent.driver.engine.known.policy.bypass],
        closed_by_doubt=agent.driver.engine.known.rules.closed_by_doubt,
        config_problem=agent.config_problem,
        unauthenticated=[one.title for one in agent.driver.engine.known.channels() if one.unauthenticated()],
        strangers=_strangers(agent),
        lost=[one.title for one in agent.driver.engine.known.channels() if one.quiet and not one.quiet.answers],
        guard_problem=agent.ground.guard_problem,
        guarded=await agent.ground.guard_counters(),
        contested=await _contested(agent),
        radios=await _radios(agent),
        unweighed=agent.start.settings.routing.unweighed,
        **_overlay(agent),
    )


def _overlay(agent: "Agent") -> dict[str, Any]:
    overlay = agent.driver.engine.known.overlay
    if not overlay.enabled:
        return {}
    chosen = [channel for channel in agent.driver.engine.known.channels() if channel.mode is DataPlane.OVERLAY]
    return {
        "overlay": f"overlayd {agent.overlay.version}, by {overlay.device}".replace(" ,", ","),
        "overlay_problem": overlay.down or "",
        "one_sided": _one_sided(agent),
        "without_ipv4": [channel.title for channel in chosen if channel.card and channel.card.ipv4],
    }


def _one_sided(agent: "Agent") -> list[str]:
    """An SA that a peer made although we are in mode ``overlay``, or its user data by the overlay although we are not.

    A session alone is no sign: neighbours have one to tell each other of ways.
    """
    engine, found = agent.driver.engine, []
    for channel in engine.known.channels():
        talks = channel.card is not None and channel.card.address in agent.overlay.talking
        if channel.mode is DataPlane.OVERLAY:
            differs = channel.carried_since is not None and channel.standing().complete and not channel.replaced
        else:
            differs = talks and channel.carried_since is None and channel.standing().complete
        if differs:
            found.append(channel.title)
    return found


async def _radios(agent: "Agent") -> list[RadioFacts]:
    """Those that can be looked at: a wireless stack that does not answer hides nothing else."""
    settings = agent.start.settings
    try:
        return await radios.facts(settings.routing.interfaces, settings.radios)
    except OSError as error:
        _log.warning("the radios could not be looked at: %s", error)
        return []


async def _contested(agent: "Agent") -> list[str]:
    addresses = await agent.ground.contested()
    return [
        one.title
        for one in agent.driver.engine.known.channels()
        if one.connection and one.connection.remote_address in addresses
    ]


def _strangers(agent: "Agent") -> list[str]:
    """Without the peers: one that starts before us asks before charon knows its card, and is let in the next time."""
    cards = [channel.card for channel in agent.driver.engine.known.channels() if channel.card]
    trusted = {str(address) for card in cards for address in (card.address, card.locator)}
    asked = (one for one in agent.ike.strangers.values() if one.address not in trusted)
    return [f"{one.address}: {one.reason} ({one.times} times)" for one in asked]


async def _routes_missing(agent: "Agent") -> list[str]:
    standing = await routing.kernel_destinations()
    return sorted(
        str(route.destination) for route in agent.driver.engine.known.routes if route.destination not in standing
    )


async def _addresses_missing(own: tuple[Address, ...]) -> list[str]:
    standing = await netlink.assigned()
    return [str(address) for address in own if address not in standing]


def _key_problem(path: Path) -> str:
    try:
        key_store.load(path)
    except key_store.KeyStoreError as error:
        return str(error)
    return ""


def _is_on(path: Path) -> bool:
    return path.read_text().strip() not in ("0", "")
