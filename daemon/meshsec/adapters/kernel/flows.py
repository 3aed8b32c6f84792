"""Read the flows that have a gateway's mark from the kernel's connection tracking (ctnetlink)."""

import asyncio
import socket
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from pyroute2.netlink.nfnetlink.nfctsocket import AsyncNFCTSocket

from meshsec.core.access.messages import Flow
from meshsec.core.networks.flow_marks import BASE
from meshsec.core.values.model import Address

_OURS = 0xFFFF0000
"""The bits that all marks of flows share."""
_PROTOCOLS = (6, 17)
_PORTION, _READ_MAX = 64, 16384
"""Entries that are read in one turn of the loop, and at most. A gateway that is an access node, too, reads all of its
flows, because those that leave here have no mark."""


class FlowsError(OSError):
    """The kernel refused; the text says why."""


async def flows_of(clients: Collection[Address], gateways: Mapping[int, IPv6Address]) -> list[Flow]:
    """Return the flows that these clients began. ``gateways``: by mark; 0: of flows without one. Raises
    ``FlowsError``.
    """
    wanted = frozenset(clients)
    try:
        return [flow for flow in await _read(gateways) if flow.source in wanted]
    except Exception as error:  # pyroute2's are of many kinds
        raise FlowsError(f"connection tracking: {error}") from error


async def _read(gateways: Mapping[int, IPv6Address]) -> list[Flow]:
    """Return the flows with a gateway, of both IP versions at once: a client's packets wait for each reading. The
    kernel leaves out those without a mark, as far as none of them counts.
    """
    match = {} if 0 in gateways else {"mark": BASE, "mark_mask": _OURS}
    found, seen = list[Flow](), 0
    async with AsyncNFCTSocket(nfgen_family=socket.AF_UNSPEC) as tracking:  # type: ignore[no-untyped-call]
        async for entry in await tracking.dump(**match):
            seen += 1
            if seen % _PORTION == 0:
                await asyncio.sleep(0)  # others have their turn while a gateway's thousands of flows are read
            if seen > _READ_MAX:
                break
            gateway = gateways.get(entry.get_attr("CTA_MARK") or 0)
            flow = _flow(entry.get_attr("CTA_TUPLE_ORIG"), gateway) if gateway else None
            if flow is not None:
                found.append(flow)
    return found


def _flow(ends: Any, gateway: IPv6Address) -> Flow | None:
    addresses, ports = ends.get_attr("CTA_TUPLE_IP"), ends.get_attr("CTA_TUPLE_PROTO")
    protocol = ports.get_attr("CTA_PROTO_NUM")
    if protocol not in _PROTOCOLS:
        return None
    version = "V4" if addresses.get_attr("CTA_IP_V4_SRC") else "V6"
    source, target = (ip_address(addresses.get_attr(f"CTA_IP_{version}_{end}")) for end in ("SRC", "DST"))
    source_port, target_port = (ports.get_attr(f"CTA_PROTO_{end}_PORT") for end in ("SRC", "DST"))
    return Flow(source, target, protocol, source_port, target_port, gateway)
