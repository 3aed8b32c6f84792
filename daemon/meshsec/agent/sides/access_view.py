"""What people and programs are shown of an access node."""

import asyncio
from collections.abc import Callable
from typing import Any

from meshsec.agent.sides.access import AccessSide
from meshsec.core.config.access_settings import CLIENTS_MAX
from meshsec.core.explain.findings import Check, Level
from meshsec.core.values.model import Address

SILENT = 15.0
"""Seconds without a sign of life after which nobody hears clients."""
_DEAF = "nobody hears clients: `systemctl start meshsec-clients` starts the program that does"


def problems(side: AccessSide) -> list[str]:
    """Return why clients are not served as they ought to be."""
    silence = asyncio.get_running_loop().time() - side.heard_at
    deaf = _DEAF if side.enabled and silence > SILENT else ""
    lacking = (f"there is no interface {one}" for one in side.kernel.lacking)
    return [*dict.fromkeys(filter(None, (side.kernel.problem, *side.failures.values(), deaf, *lacking)))]


def checks(side: AccessSide) -> list[Check]:
    """Return doctor's check; none of a node that is no access node."""
    if not side.enabled:
        return []
    if found := problems(side):
        return [Check("clients", Level.WARN, "; ".join(found), "`meshsec clients`, docs/guide/access.md")]
    here, most = len(side.clients.served), side.settings.clients
    if here >= most:
        fix = f"raise `clients` of [access], at most {CLIENTS_MAX}, or add an access node"
        return [Check("clients", Level.WARN, f"{here} here, and this node serves no more: who comes is refused", fix)]
    return [Check("clients", Level.OK, f"{here} here, {most} at most")]


def view(side: AccessSide, name_of: Callable[[Address], str]) -> dict[str, Any]:
    """Return the answer of the method ``clients``. ``name_of`` says which name an address has here, if any."""
    own = side.known.node.address
    names = {channel.card.address: channel.title for channel in side.known.channels() if channel.card}
    clients = [
        {
            "mac": one.mac,
            "name": next(filter(None, map(name_of, one.addresses)), None),
            "addresses": [str(address) for address in one.addresses],
            "here": one.node == own,
            "node": None if one.node == own else names.get(one.node, str(one.node)),
        }
        for one in side.clients
        if one.addresses
    ]
    return {
        "schema": "meshsec-clients-1",
        "networks": [str(one) for one in side.settings.networks],
        "most": side.settings.clients,
        "clients": sorted(clients, key=lambda one: (not one["here"], one["mac"])),
        "refused": [{"mac": mac, "reason": why, "count": n} for (mac, why), n in sorted(side.refused.items())],
        "nodes": sorted(names.get(one, str(one)) for one in side.talk.peers),
        "problems": problems(side),
    }
