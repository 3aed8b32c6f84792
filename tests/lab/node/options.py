"""What scenarios vary from node to node, and the meshsec.toml that says it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

IPV4_MESH = "10.77.0.0/16"

PolicyValue = str | float | list[str] | Mapping[str, str | int] | Sequence[Mapping[str, str | int]]


@dataclass(frozen=True)
class Options:
    """What scenarios vary from node to node."""

    routing_daemon: str = "olsrv2d"
    signatures: str = ""
    """The setting ``signatures`` of the router; empty: the default. A node whose router signs has a signer."""
    ipv4: bool = False
    policy: Mapping[str, PolicyValue] = field(default_factory=dict)
    scheduling: str = "stock"
    """The scheduling profile. By default no priority is raised, because many nodes share this machine's processors."""
    overlay: bool = False
    """Whether the node has the overlay besides ESP."""
    libreswan: str = ""
    """The Debian suite whose libreswan speaks IKE (``libreswan.suites``); empty: strongSwan."""
    attached: Sequence[str] = ()
    """Networks behind the node."""
    accept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Networks of others, with the peers that may speak for each."""
    selectors: bool = False
    """Whether those networks are in traffic selectors."""
    gateway: Mapping[str, PolicyValue] = field(default_factory=dict)
    """The table ``[gateway]``."""
    access: Mapping[str, PolicyValue] = field(default_factory=dict)
    """The table ``[access]``; with it the node has dnsmasq."""
    links: Sequence[Mapping[str, PolicyValue]] = ()
    """The tables ``[[link]]``."""
    page: Mapping[str, PolicyValue | bool] | None = None
    """The table ``[page]``; with it the node serves its page."""
    esp: str = "auto"
    """Where ESP is to run: the setting ``esp``."""


def configuration(name: str, number: int, options: Options, interfaces: Sequence[str], sockets: Path) -> str:
    """Return the text of the meshsec.toml of the node with this number."""
    lines = ["[node]", f'name = "{name}"']
    lines += [f'ipv4 = "10.77.{number >> 8}.{number & 255}"'] if options.ipv4 else []
    lines += ["", "[routing]", f'daemon = "{options.routing_daemon}"', f"interfaces = {json.dumps(interfaces)}"]
    lines += [f'socket = "{sockets}/changes.sock"', f'signer = "{sockets}/sign.sock"']
    lines += [f'signatures = "{options.signatures}"'] if options.signatures else []
    lines += [f"attached = {_toml([{'prefix': one} for one in options.attached])}"] if options.attached else []
    by = {"by": "selectors"} if options.selectors else {}
    accepted = [{"prefix": prefix, "from": list(peers), **by} for prefix, peers in options.accept.items()]
    lines += [f"accept = {_toml(accepted)}"] if accepted else []
    lines += ["", "[paths]", 'peers = "peers"', 'state = "../var"', f'run = "{sockets}"']
    lines += ["", "[ike]", f'esp = "{options.esp}"', *(['daemon = "libreswan"'] if options.libreswan else [])]
    lines += [f'pluto = "{sockets}/pluto.ctl"']
    lines += ["", "[scheduling]", f'profile = "{options.scheduling}"']
    if options.overlay:
        lines += ["", "[overlay]", "enabled = true", f'socket = "{sockets}/overlayd.sock"']
    if options.gateway:
        lines += ["", "[gateway]", *(f"{key} = {_toml(value)}" for key, value in options.gateway.items())]
    if options.page:
        lines += ["", "[page]", *(f"{key} = {_toml(value)}" for key, value in options.page.items())]
    if options.access:
        lines += ["", "[access]", *(f"{key} = {_toml(value)}" for key, value in options.access.items())]
    for link in options.links:
        lines += ["", "[[link]]", *(f"{key} = {_toml(value)}" for key, value in link.items())]
    mesh_prefixes = ["fc00::/7", IPV4_MESH] if options.ipv4 else ["fc00::/7"]
    policy = {"mesh_prefixes": mesh_prefixes, **options.policy}
    lines += ["", "[policy]", *(f"{key} = {_toml(value)}" for key, value in policy.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
