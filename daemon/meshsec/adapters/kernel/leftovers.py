"""What meshsec's daemons have left in the kernel of this network namespace.

It is found by what nobody else uses: protocol numbers of routes and rules, names of tables and devices, priorities of
policies, and this node's own addresses.
"""

import asyncio
import json
import subprocess
from collections.abc import Callable, Collection
from ipaddress import IPv6Address, ip_network
from typing import Any

from meshsec.adapters.kernel import clients, islands, tunnel, xfrm
from meshsec.adapters.kernel.nftables import BLOCK_PRIORITY, OPEN_PRIORITY
from meshsec.core.ike.drift_kernel import XfrmPolicy, XfrmState
from meshsec.core.islands import paths
from meshsec.core.values.model import Address

PROTOCOLS = (tunnel.PROTOCOL, clients.PROTOCOL, islands.PROTOCOL)
"""Protocol numbers of meshsecd's own routes and rules, without those of the router and the overlay."""
_KINDS = ("vxlan", "bridge")
"""Kinds of the devices that meshsecd makes."""
_FAMILIES = ("-4", "-6")
_SECONDS = 60.0


class LeftoversError(Exception):
    """The kernel does not say what it has. The message names the command and why."""


def routes(protocols: Collection[int]) -> tuple[tuple[str, int], ...]:
    """Return family (option of ip(8)) and protocol number of all routes with one of these numbers.

    Raises LeftoversError.
    """
    return _by_protocol(protocols, "route", "show", "table", "all")


def rules(protocols: Collection[int]) -> tuple[tuple[str, int], ...]:
    """Return the same of all rules of ip-rule(8). Raises LeftoversError."""
    return _by_protocol(protocols, "rule", "show")


def devices(names: Collection[str]) -> tuple[str, ...]:
    """Return meshsecd's devices: those with one of these names, and those of links' paths. Raises LeftoversError."""
    listed = _listed("ip", "-json", "-details", "link", "show")
    own = (one for one in listed if one.get("linkinfo", {}).get("info_kind") in _KINDS)
    found = (str(one["ifname"]) for one in own)
    return tuple(sorted(name for name in found if name in names or paths.is_path(name)))


def addresses(own: Collection[Address], mesh_interfaces: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return interface and address, with prefix length, of this node's addresses. Raises LeftoversError.

    They are on the loopback device, with the addresses of links' paths. On a mesh interface only an IPv4 address counts
    that has no network, as meshsecd gives it.
    """
    texts = {str(one) for one in own}
    found = []
    for link in _listed("ip", "-json", "address", "show"):
        name = link.get("ifname", "")
        for one in link.get("addr_info", []):
            is_host = one["prefixlen"] == (32 if one["family"] == "inet" else 128)
            is_own = one.get("local") in texts or (name == "lo" and _is_of_path(one.get("local", "")))
            is_given = one["family"] == "inet" and name in mesh_interfaces and one.get("noprefixroute", False)
            if is_host and is_own and (name == "lo" or is_given):
                found.append((name, f"{one['local']}/{one['prefixlen']}"))
    return tuple(found)


def tables(names: Collection[str]) -> tuple[str, ...]:
    """Return those of the tables of the family inet that exist, in this order. Raises LeftoversError."""
    listed = _listed("nft", "--json", "list", "tables", pick=lambda said: said["nftables"])
    present = {one["table"]["name"] for one in listed if "table" in one and one["table"]["family"] == "inet"}
    return tuple(name for name in names if name in present)


def translators(own: Collection[str]) -> tuple[str, ...]:
    """Return the other tables that translate addresses, as Docker, libvirt and NetworkManager have: family and name.

    Somebody forwards where there is one. Raises LeftoversError.
    """
    listed = _listed("nft", "--json", "list", "chains", pick=lambda said: said["nftables"])
    chains = (one["chain"] for one in listed if one.get("chain", {}).get("type") == "nat")
    found = {(one["family"], one["table"]) for one in chains}
    return tuple(f"{family} {name}" for family, name in sorted(found) if family != "inet" or name not in own)


def policies_and_ends(own: Collection[Address]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the priorities of meshsecd's own policies, and which of these addresses SAs and other policies have.

    Raises XfrmError.
    """
    states, policies = asyncio.run(_xfrm())
    ours = {one.priority for one in policies} & {BLOCK_PRIORITY, OPEN_PRIORITY}
    others = [one for one in policies if one.priority not in ours]
    ends = {ip_network(end) for one in states for end in (one.source, one.destination)}
    ends |= {network for one in others for network in (one.source, one.destination)}
    return tuple(sorted(ours)), tuple(sorted(str(one) for one in own if ip_network(one) in ends))


async def _xfrm() -> tuple[tuple[XfrmState, ...], tuple[XfrmPolicy, ...]]:
    return await xfrm.states(), await xfrm.policies()


def _is_of_path(text: str) -> bool:
    return ":" in text and IPv6Address(text) in paths.PREFIX


def _by_protocol(protocols: Collection[int], *command: str) -> tuple[tuple[str, int], ...]:
    found = []
    for family in _FAMILIES:
        listed = _listed("ip", "-json", "-Numeric", family, *command)
        present = {int(one.get("protocol", 0)) for one in listed}
        found += [(family, number) for number in sorted(present & set(protocols))]
    return tuple(found)


def _listed(*argv: str, pick: Callable[[Any], Any] = list) -> list[dict[str, Any]]:
    """Return what a program lists as JSON."""
    command = " ".join(argv)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
        if done.returncode:
            raise LeftoversError(f"{command}: {done.stderr.strip()}")
        found: list[dict[str, Any]] = pick(json.loads(done.stdout or "[]"))
    except OSError as error:
        raise LeftoversError(f"{command}: {error.strerror}") from error
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        raise LeftoversError(f"{command}: no valid answer ({error})") from error
    return found
