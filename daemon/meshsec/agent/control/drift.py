"""Collect what ``meshsec drift`` compares in the IKE daemon and in the kernel. Nothing is changed."""

import asyncio
from collections.abc import Mapping, Sequence

from meshsec.adapters.kernel import netlink, nftables, xfrm
from meshsec.agent.control.sides import Sides
from meshsec.core.explain.wall_doctor import TABLES_FIX
from meshsec.core.ike import drift, drift_kernel, drift_networks
from meshsec.core.ike.drift import Configured, Credentials, Difference, Note, Report, Wanted, Where
from meshsec.core.ike.drift_kernel import Kernel
from meshsec.core.ike.drift_networks import Ways
from meshsec.core.ike.port import IkeError
from meshsec.core.islands.paths import parts
from meshsec.core.values.model import EspBackend, IkeSa

LOOKS = 3
PAUSE = 0.7
"""Seconds between two rounds of comparison; differences that only one round sees are changes in progress."""

_LOG = "the log of meshsecd says why"


async def examine(sides: Sides) -> Report:
    """Return the differences that every round has found. A round without any is the last."""
    report = await _look(sides)
    for _ in range(LOOKS - 1):
        if not report.differences and not report.unexamined:
            break
        await asyncio.sleep(PAUSE)
        report = drift.lasting(report, await _look(sides))
    return report


async def _look(sides: Sides) -> Report:
    wanted = _wanted(sides)
    parts = await _ike(sides, wanted), await _rules(sides), await _addresses(sides), await _networks(sides)
    return _joined(*parts)


def _joined(*parts: Report) -> Report:
    return Report(
        differences=tuple(one for part in parts for one in part.differences),
        unexamined=tuple(one for part in parts for one in part.unexamined),
        notes=tuple(one for part in parts for one in part.notes),
    )


def _wanted(sides: Sides) -> Wanted:
    channels = [channel for channel in sides.driver.engine.known.channels() if channel.connection]
    links = sides.islands.connections.wanted
    own = {channel.name: channel.connection for channel in channels if channel.connection}
    return Wanted(
        connections={**own, **links},
        titles={channel.name: channel.title for channel in channels} | {name: parts(name)[0] for name in links},
        public_keys=tuple(card.public_key for card in sides.start.cards),
    )


async def _ike(sides: Sides, wanted: Wanted) -> Report:
    """Compare the IKE daemon, and the kernel as far as it depends on the SAs."""
    try:
        loaded, sas = await sides.ike.loaded_configuration(), await sides.ike.sas()
    except IkeError as error:
        unknown = tuple(Note(where, str(error)) for where in (Where.CONNECTION, Where.IKE_SA, Where.XFRM_STATE))
        return Report(unexamined=unknown)
    judged = [_configuration(sides, wanted, loaded), await _kernel(sides, wanted, sas)]
    return _joined(Report(tuple(drift.sas(wanted, sas, sides.driver.now))), *judged)


def _configuration(sides: Sides, wanted: Wanted, loaded: tuple[tuple[Configured, ...], Credentials]) -> Report:
    configured, credentials = loaded
    found = drift.connections(wanted, configured, sides.ike.configured_by_others)
    return Report((*found, *drift.credentials(wanted, credentials)))


async def _kernel(sides: Sides, wanted: Wanted, sas: Mapping[str, Sequence[IkeSa]]) -> Report:
    rules = sides.driver.engine.known.rules.wanted()
    try:
        kernel = Kernel(
            rules=rules,
            block_priority=nftables.BLOCK_PRIORITY,
            blocks=frozenset(nftables.block_selectors(rules)),
            endpoints=frozenset({*sides.kernel.own_addresses, *rules.protected, *rules.locators}),
            states=await xfrm.states(),
            policies=await xfrm.policies(),
            esp=sides.start.esp.backend is EspBackend.KERNEL,
            sas=sas,
        )
    except xfrm.XfrmError as error:
        return Report(unexamined=(Note(Where.XFRM_STATE, str(error)),))
    return Report(tuple(drift_kernel.differences(wanted, kernel)))


async def _rules(sides: Sides) -> Report:
    """Report changed rules. meshsecd restores rules within milliseconds; what remains is what it could not restore."""
    found = [_rule("rules", text, "as applied") for text in await sides.kernel.altered_rules()]
    found += [_rule("tables", text, "as applied", TABLES_FIX) for text in await sides.altered_tables()]
    if not sides.driver.engine.known.rules.met():
        found.append(_rule("rules", "not those wanted now", "those that trust store and policy ask for"))
    if sides.kernel.held_problem:
        found.append(_rule("second copy of the rules", f"none: {sides.kernel.held_problem}", "held by meshsecd"))
    text = "{} may rewrite addresses: look that no mesh address is among them"
    chains = await nftables.rewriting_chains()
    return Report(tuple(found), notes=tuple(Note(Where.RULES, text.format(chain)) for chain in chains))


def _rule(what: str, is_: str, should: str, fix: str = _LOG) -> Difference:
    return Difference(Where.RULES, None, what, is_, should, fix)


async def _addresses(sides: Sides) -> Report:
    try:
        present = await netlink.assigned()
        stale = sorted(await sides.kernel.stale_addresses())
    except netlink.NetlinkError as error:
        return Report(unexamined=(Note(Where.ADDRESS, str(error)),))
    missing = (str(own) for own in sides.kernel.own_addresses if own not in present)
    lacking = [Difference(Where.ADDRESS, None, own, "not there", "on lo", _LOG) for own in missing]
    fix = "ip -6 addr del {}/128 dev lo"
    left = [Difference(Where.ADDRESS, None, str(one), "on lo", "another key's", fix.format(one)) for one in stale]
    return Report((*lacking, *left))


async def _networks(sides: Sides) -> Report:
    """Compare the tunnel's routes and what the router announces; routes of others into a network lead past it."""
    networks = sides.driver.engine.known.networks
    try:
        ways = Ways(
            wanted=networks.wanted,
            installed=await sides.networks.present(),
            foreign=await sides.networks.foreign(),
            past=await sides.networks.others(networks.tunnelled),
            unannounced=sides.routing.unannounced(),
        )
    except OSError as error:
        return Report(unexamined=(Note(Where.NETWORK, str(error)),))
    return Report(tuple(drift_networks.differences(ways)))
