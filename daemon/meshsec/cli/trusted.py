"""The peers as commands use them.

A card's IPv4 address counts only when it is believed (core/channels/ipv4_claims.py).
"""

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import NamedTuple

import click

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import Problem
from meshsec.adapters.files.trust_store.fleets import MEMBER_SUFFIX
from meshsec.cli.app import App
from meshsec.core.channels import ipv4_claims
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.config.networks import beginning, configured_networks
from meshsec.core.networks import networks
from meshsec.core.values.model import Network, Peer


class Trusted(NamedTuple):
    """What the trust store says."""

    peers: Mapping[str, Peer]
    """In force, without IPv4 addresses that are not believed."""
    cards: Mapping[str, Peer]
    """The same with their cards as they are."""
    problems: tuple[Problem, ...]
    directory: Path


def load(app: App) -> Trusted:
    """Read the trust store where only the configuration counts, as for a file that is loaded later or elsewhere."""
    return _judged(app, Surroundings(_mesh(app)))


def load_here(app: App) -> Trusted:
    """Read the trust store and judge IPv4 addresses by this node's own networks, too."""
    return _judged(app, around(app))


def around(app: App) -> Surroundings:
    """Return what IPv4 addresses on cards are judged by on this node now."""
    from meshsec.agent.sides.surroundings import Around  # noqa: PLC0415 - rtnetlink takes a quarter of a second to import

    return asyncio.run(Around(app.settings, [app.card]).poll())


def tell_problems(trusted: Trusted) -> None:
    """Print what is refused, for people."""
    for problem in trusted.problems:
        click.echo(f"refused: {problem}", err=True)
    for problem in doubts(trusted):
        click.echo(f"not believed: {problem}", err=True)


def doubts(trusted: Trusted) -> tuple[Problem, ...]:
    """Return the cards whose IPv4 address is not believed; their IPv6 part is in force."""
    doubted = (peer for peer in trusted.peers.values() if peer.ipv4_doubt)
    message = "the IPv4 address is not believed"
    return tuple(Problem(trusted.directory / _file(peer), f"{message}: {peer.ipv4_doubt}") for peer in doubted)


def selectors(app: App, peer: Peer) -> tuple[tuple[Network, Network], ...]:
    """Return the pairs of networks that have CHILD_SAs of their own with a peer."""
    configured = configured_networks(app.settings.routing, app.settings.policy, app.settings.access)
    return networks.selectors(beginning(configured), peer.name, peer.card)


def _file(peer: Peer) -> str:
    if peer.fleet:
        return f"{peer.card.fingerprint.hex()}{MEMBER_SUFFIX}"
    suffix = trust_store.NEXT_SUFFIX if peer.name.endswith(trust_store.NEXT) else trust_store.SUFFIX
    return f"{peer.name.removesuffix(trust_store.NEXT)}{suffix}"


def _mesh(app: App) -> tuple[IPv4Network, ...]:
    return ipv4_claims.mesh_networks(app.settings.policy.mesh_prefixes, app.settings.node.ipv4)


def _judged(app: App, surroundings: Surroundings) -> Trusted:
    cards, problems = trust_store.load(app.peers_directory, app.card)
    return Trusted(ipv4_claims.believed(cards, app.card, surroundings), cards, problems, app.peers_directory)
