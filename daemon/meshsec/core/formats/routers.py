"""The routing daemon's configuration that follows from ours: ``olsrv2d.toml`` and olsrd2's ``olsrd2.conf``."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

import msgspec

from meshsec.core.channels.desired import endpoint, host
from meshsec.core.config.link_settings import LinkSettings, Timing, Weighing
from meshsec.core.config.routing_settings import AttachedNetwork, Endpoint, RoutingSettings, Signatures
from meshsec.core.config.settings import Settings
from meshsec.core.formats import toml
from meshsec.core.values.model import Address, Card, EspBackend, Network

_PRIVATE_IPV4 = tuple(map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")))
"""Addresses that are nobody's in the internet (RFC 1918, RFC 6598)."""

_TC_INTERVAL, _TCS_VALID = 5.0, 6
"""Interval in seconds of olsrd2's TC messages where nothing else is set, and intervals for which one is valid."""

_WRITTEN = "# Written by `meshsec export {}`: changes made here are lost."


def originators(card: Card, backend: EspBackend) -> tuple[Address, ...]:
    """Return the addresses that this node announces: address or locator, by where ESP runs, and its IPv4.

    See docs/development/architecture.md.
    """
    ipv6 = card.address if backend is EspBackend.KERNEL else card.locator
    return (ipv6, card.ipv4) if card.ipv4 else (ipv6,)


def with_next(routing: RoutingSettings, card: Card | None, backend: EspBackend) -> RoutingSettings:
    """Return the addresses of a node whose key is being changed: the next key's are announced, too (ADR 0041).

    At distance 0: an address of this router itself. The originator stays until the present key ends.
    """
    if card is None:
        return routing
    network = AttachedNetwork(host(endpoint(card, backend)), distance=0)
    return msgspec.structs.replace(routing, attached=(*routing.attached, network))


def olsrv2d(
    settings: Settings, card: Card, backend: EspBackend, accepted: Mapping[Network, tuple[Address, ...]] | None = None
) -> str:
    """Return the text of ``olsrv2d.toml``; ``accepted`` are the originators from whom a network is taken."""
    routing = settings.routing
    lines = [
        _WRITTEN.format("olsrv2d"),
        f"originators = [{', '.join(toml.encode(str(address)) for address in originators(card, backend))}]",
        *_toml(metric=routing.metric, willingness=routing.willingness),
        *_signed(routing),
        *_section("[tc]", _toml_timing(routing.tc)),
        *_section(
            "[management]",
            [*_telnet(routing.telnet), f"socket = {toml.encode(routing.socket)}"],
        ),
    ]
    for interface in routing.interfaces:
        own = _links(routing, interface)
        lines += _section("[[interface]]", [f"name = {toml.encode(interface)}", *_toml_timing(own.hello, "hello_")])
        lines += _toml(metric=own.metric)
    for network in routing.attached:
        lines += _section("[[attached]]", [f"prefix = {toml.encode(str(network.prefix))}"])
        lines += _toml(distance=network.distance, metric=network.metric)
    lines += _section("[accept]", [f"hosts = [{', '.join(toml.encode(str(one)) for one in _hosts(settings))}]"])
    for prefix, senders in (accepted or {}).items():
        names = ", ".join(toml.encode(str(address)) for address in senders)
        lines += _section("[[accept.network]]", [f"prefix = {toml.encode(str(prefix))}", f"from = [{names}]"])
    return "\n".join(lines) + "\n"


def _signed(routing: RoutingSettings) -> list[str]:
    if routing.signing is Signatures.OFF:
        return []
    return [f"signatures = {toml.encode(routing.signing.value)}", f"signer = {toml.encode(routing.signer)}"]


def _telnet(endpoint: Endpoint | None) -> list[str]:
    """olsrv2d's TCP port, which any account may use: only where the operator asks for it."""
    if endpoint is None:
        return []
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return [f"telnet = {toml.encode(f'{host}:{endpoint.port}')}"]


def olsrd2(settings: Settings, card: Card, backend: EspBackend) -> str:
    """Return the text of ``olsrd2.conf`` for olsrd2 0.15 in the foreground.

    Without the list of originators olsrd2 picks any address of ``lo``, which holds the address and the locator. It sets
    routes to addresses of nodes and to networks that the policy opens: a route to any other would lead past the tunnel.
    """
    routing = settings.routing
    allowed = [f"originator {address}/{address.max_prefixlen}" for address in originators(card, backend)]
    allowed += ["originator default_reject"]
    routable = [f"routable_acl {one}" for one in (*_hosts(settings), *settings.policy.open_networks)]
    routable += ["routable_acl first_reject", "routable_acl default_reject"]
    lines = [
        _WRITTEN.format("olsrd2"),
        *_section("[global]", ["lockfile -", "fork no"]),
        *_section("[log]", ["stderr true"]),
        *_section("[telnet]", [f"port {(routing.telnet or Endpoint()).port}", "allowed_sessions 32"]),
        *_section("[olsrv2]", [*allowed, *routable, *_tc(routing.tc)]),
        *_section("[interface=lo]", []),
    ]
    for interface in routing.interfaces:
        hello = _links(routing, interface).hello
        lines += _section(f"[interface={interface}]", _olsrd2_timing(hello, "hello_"))
    for index, network in enumerate(routing.attached):
        lines += _section(f"[olsrv2_lan=attached{index}]", _lan(network))
    return "\n".join(lines) + "\n"


def _hosts(settings: Settings) -> tuple[Network, ...]:
    """Return where addresses of nodes may lie: in the mesh prefixes, and for IPv4 without any in private networks."""
    prefixes = settings.policy.mesh_prefixes
    has_ipv4 = any(prefix.version == 4 for prefix in prefixes)
    return prefixes if has_ipv4 else (*prefixes, *_PRIVATE_IPV4)


def _links(routing: RoutingSettings, interface: str) -> LinkSettings:
    return routing.links.get(interface, LinkSettings(routing.hello))


def _section(header: str, lines: list[str]) -> list[str]:
    return ["", header, *lines]


def _toml(**values: int | Weighing | None) -> list[str]:
    """Return the lines of the keys that are set."""
    shown = {key: toml.encode(value) if isinstance(value, Weighing) else value for key, value in values.items()}
    return [f"{key} = {value}" for key, value in shown.items() if value is not None]


def _toml_timing(timing: Timing, prefix: str = "") -> list[str]:
    return [f"{prefix}{name} = {value}" for name, value in _given(timing)]


def _olsrd2_timing(timing: Timing, prefix: str) -> list[str]:
    return [f"{prefix}{name} {value}" for name, value in _given(timing)]


def _tc(timing: Timing) -> list[str]:
    """Return the keys of TC messages: six intervals are how long one is valid, and how long its number is remembered.

    That is how long olsrd2 must be down so that others believe it when it comes back (ADR 0064); by its own settings it
    is 300 s.
    """
    six = round(_TCS_VALID * (timing.interval or _TC_INTERVAL), 3)  # olsrd2 takes milliseconds
    valid = timing.validity or six
    holding = [f"{what}_hold_time {valid}" for what in ("processing", "forward")]
    return [*_olsrd2_timing(Timing(timing.interval, valid), "tc_"), *holding]


def _given(timing: Timing) -> Iterator[tuple[str, float]]:
    if timing.interval is not None:
        yield "interval", timing.interval
    if timing.validity is not None:
        yield "validity", timing.validity


def _lan(network: AttachedNetwork) -> list[str]:
    """Return the keys of a section ``olsrv2_lan``, whose smallest distance is 1; olsrv2d knows 0, too."""
    metric = network.metric or 1
    return [f"prefix {network.prefix}", f"metric {metric}", f"distance {max(network.distance, 1)}"]
