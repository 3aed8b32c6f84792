"""Whether the uplink of a gateway leads outside."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from meshsec.core.values.gateway import Uplink
from meshsec.core.values.model import Address


class UplinkFacts(NamedTuple):
    """What was seen of the uplink."""

    exists: bool
    carrier: bool
    ways: Mapping[int, str]
    """By IP version: the interface by which packets to the outside leave now; empty without a route."""
    probes: Collection[Address] = ()
    """The addresses outside that are asked."""
    silent: Collection[Address] = ()
    """Those of them that do not answer."""


def problems(uplink: Uplink, facts: UplinkFacts) -> dict[int, str]:
    """Return for each IP version of the uplink why it does not lead outside; empty where it does."""
    return {version: _problem(uplink.interface, version, facts) for version in uplink.versions}


def _problem(interface: str, version: int, facts: UplinkFacts) -> str:
    if not facts.exists:
        return f"there is no interface {interface}"
    if not facts.carrier:
        return f"{interface} has no carrier"
    if facts.ways[version] != interface:
        other = f"; the one in use leads out by {facts.ways[version]}" if facts.ways[version] else ""
        return f"no IPv{version} default route leads out by {interface}{other}"
    asked = [one for one in facts.probes if one.version == version]
    if asked and all(one in facts.silent for one in asked):
        return f"no answer from {', '.join(map(str, asked))}"
    return ""
