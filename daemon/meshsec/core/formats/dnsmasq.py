"""``dnsmasq.conf`` of an access node: addresses for clients, and names (dnsmasq(8) since 2.85)."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from typing import NamedTuple

from meshsec.core.access.clients import Client
from meshsec.core.access.shared_address import DEVICE
from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.names.names import DOMAIN

LEASE = "1h"
_NODES_REVERSE = "c.f.ip6.arpa"
"""Where the addresses of all nodes are looked up (fc00::/8; RFC 3596, section 2.5)."""
_ADVERTISED_SECONDS = 60, 1800
"""Interval and lifetime of router advertisements (RFC 4861, section 6.2.1): all nodes are the same router."""


class Places(NamedTuple):
    """Where dnsmasq finds and keeps what changes. All are directories."""

    hosts: str
    """The clients' addresses, which meshsecd writes."""
    names: str
    """The names of nodes and of their clients, which meshsecd writes."""
    run: str
    """dnsmasq's leases."""


def render(access: AccessSettings, places: Places, comment: str) -> str:
    """Return the text."""
    parts = (_common(access), _names(places.names), _ipv4(access, places), _ipv6(access))
    return "\n".join([f"# {comment}", *(line for part in parts for line in part)]) + "\n"


def hosts(clients: Iterable[Client]) -> str:
    """Return which IPv4 address is whose, for ``dhcp-hostsdir``: a client keeps it, and nobody else gets it."""
    ipv4 = ((client.mac, one) for client in clients for one in client.addresses if one.version == 4)
    return "".join(f"{mac},{address}\n" for mac, address in sorted(ipv4))


def _common(access: AccessSettings) -> Iterator[str]:
    yield from ("conf-file=", f"interface={DEVICE}", "except-interface=lo", "bind-dynamic", "localise-queries")
    yield from ("bogus-priv", "domain-needed", "stop-dns-rebind", "rebind-localhost-ok", "cache-size=1000")
    yield from ("no-hosts", "no-ping", "quiet-dhcp", "quiet-dhcp6", "quiet-ra", "log-facility=-")
    yield f"dns-forward-max={4 * access.clients}"


def _names(names: str) -> Iterator[str]:
    """Nodes have names, both ways (ADR 0071). Nobody outside is asked for one, so nobody outside can give one."""
    yield from (f"hostsdir={names}", f"local=/{DOMAIN}/", f"local=/{_NODES_REVERSE}/")


def _ipv4(access: AccessSettings, places: Places) -> Iterator[str]:
    """All nodes give out all addresses: which one a client gets follows from its MAC address."""
    network = access.ipv4
    if network is None:
        return
    first, last = network.network_address + 2, network.broadcast_address - 1
    yield f"dhcp-range={first},{last},{network.netmask},{LEASE}"
    yield from ("dhcp-authoritative", f"dhcp-lease-max={_leases(access, network)}", "dhcp-rapid-commit")
    # A client is known by its MAC address: one that says it is many takes one lease.
    yield "dhcp-ignore-clid"
    yield from (f"dhcp-hostsdir={places.hosts}", f"dhcp-leasefile={places.run}/leases")
    # meshsecd writes how clients call themselves, for both IP versions, below this node's name. Clients search where
    # nodes are, and not among each other.
    yield from ("dhcp-ignore-names", f"dhcp-option=option:domain-name,{DOMAIN}")
    yield f"dhcp-option=option:router,{network.network_address + 1}"
    yield f"dhcp-option=option:dns-server,{_resolvers(access, 4, str(network.network_address + 1))}"


def _leases(access: AccessSettings, network: IPv4Network) -> int:
    """Return the bound of leases. A client that left keeps its own for its time."""
    return min(4 * access.clients, network.num_addresses - 3)


def _ipv6(access: AccessSettings) -> Iterator[str]:
    """Clients make their addresses themselves, and send everything to the router: the prefix is not on the link."""
    network = access.ipv6
    if network is None:
        return
    interval, lifetime = _ADVERTISED_SECONDS
    yield from ("enable-ra", f"dhcp-range={network.network_address},ra-stateless,off-link,{network.prefixlen},{LEASE}")
    yield f"ra-param={DEVICE},{interval},{lifetime}"
    yield f"dhcp-option=option6:dns-server,{_resolvers(access, 6, '[::]')}"
    yield f"dhcp-option=option6:domain-search,{DOMAIN}"


def _resolvers(access: AccessSettings, version: int, own: str) -> str:
    found = [one for one in access.resolvers if one.version == version]
    return ",".join(str(one) if version == 4 else f"[{one}]" for one in found) or own
