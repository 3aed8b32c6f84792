"""``dnsmasq.conf`` of an access node: addresses for clients, and names (dnsmasq(8) since 2.85)."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from meshsec.core.access.clients import Client
from meshsec.core.access.shared_address import DEVICE
from meshsec.core.config.access_settings import AccessSettings

LEASE = "1h"
_ADVERTISED_SECONDS = 60, 1800
"""Interval and lifetime of router advertisements (RFC 4861, section 6.2.1): all nodes are the same router."""


def render(access: AccessSettings, hosts: str, run: str, comment: str) -> str:
    """Return the text. ``hosts`` is the directory with the clients' addresses, ``run`` that for dnsmasq's leases."""
    return "\n".join([f"# {comment}", *_common(access), *_ipv4(access, hosts, run), *_ipv6(access)]) + "\n"


def hosts(clients: Iterable[Client]) -> str:
    """Return which IPv4 address is whose, for ``dhcp-hostsdir``: a client keeps it, and nobody else gets it."""
    ipv4 = ((client.mac, one) for client in clients for one in client.addresses if one.version == 4)
    return "".join(f"{mac},{address}\n" for mac, address in sorted(ipv4))


def _common(access: AccessSettings) -> Iterator[str]:
    yield from ("conf-file=", f"interface={DEVICE}", "except-interface=lo", "bind-dynamic", "localise-queries")
    yield from ("bogus-priv", "domain-needed", "stop-dns-rebind", "rebind-localhost-ok", "cache-size=1000")
    yield from ("no-hosts", "no-ping", "quiet-dhcp", "quiet-dhcp6", "quiet-ra", "log-facility=-")
    yield f"dns-forward-max={4 * access.clients}"


def _ipv4(access: AccessSettings, hosts: str, run: str) -> Iterator[str]:
    """All nodes give out all addresses: which one a client gets follows from its MAC address."""
    network = access.ipv4
    if network is None:
        return
    first, last = network.network_address + 2, network.broadcast_address - 1
    yield f"dhcp-range={first},{last},{network.netmask},{LEASE}"
    yield from ("dhcp-authoritative", f"dhcp-lease-max={_leases(access, network)}", "dhcp-rapid-commit")
    # A client is known by its MAC address: one that says it is many takes one lease.
    yield "dhcp-ignore-clid"
    yield from (f"dhcp-hostsdir={hosts}", f"dhcp-leasefile={run}/leases")
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


def _resolvers(access: AccessSettings, version: int, own: str) -> str:
    found = [one for one in access.resolvers if one.version == version]
    return ",".join(str(one) if version == 4 else f"[{one}]" for one in found) or own
