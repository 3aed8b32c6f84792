"""How far a trust list has come, and where a node was last whose key it revokes."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import duration
from meshsec.core.trust.fleets import Fleet

WITHIN = 10.0
"""Seconds for which a list is waited for at the peers in reach. They have it within 2 s where processors are free."""
_PAUSE = 0.02


def check_member(app: App, known: Fleet) -> None:
    """Raise ClickException if this node does not pass on what the fleet's key signs."""
    if known.public_key not in store.read(app.peers_directory).keys:
        raise click.ClickException(
            f"--stolen is for a node that has joined the fleet {known.name}, and this one has not. Nothing is revoked. "
            "Without --stolen the list is printed; `meshsec fleet take` on a member takes it"
        )


def last_seen(app: App, revoked: Collection[bytes]) -> Sequence[str]:
    """Return for each peer with one of these keys where it was last, as far as it has said."""
    peers, _ = trust_store.load(app.peers_directory, app.card)
    lost = {str(peer.card.address): peer.card.name for peer in peers.values() if peer.card.fingerprint in revoked}
    try:
        with Client(app.socket) as client:
            known = {one["address"]: one for one in client.call("positions")["positions"]}
    except DaemonAbsentError:
        known = {}
    return [_seen(name, known.get(address)) for address, name in lost.items()]


def _seen(name: str, place: Mapping[str, Any] | None) -> str:
    if place is None:
        return f"{name} has not said where it is"
    accuracy = "" if place["accuracy"] is None else f", within {place['accuracy']:.0f} m"
    where = f"{place['latitude']:.6f} {place['longitude']:.6f}{accuracy}"
    return f"{name} was last at {where}, {duration(place['age'])} ago"


def tell(app: App, known: Fleet, seen: Sequence[str]) -> None:
    """Wait until all members in reach have the present list, at most ``WITHIN`` seconds, and say who has not.

    Exits with ``DEGRADED`` if one has not.
    """
    for sentence in seen:
        click.echo(sentence)
    peers, _ = trust_store.load(app.peers_directory, app.card)
    members = {name for name, peer in peers.items() if peer.fleet == known.name}
    began = time.monotonic()
    try:
        with Client(app.socket) as client:
            late, count = _spread(client, known, members)
            while late and time.monotonic() - began < WITHIN:
                time.sleep(_PAUSE)
                late, count = _spread(client, known, members)
    except DaemonAbsentError:
        sys.exit(DEGRADED)  # who took the list has said that meshsecd does not run
    took = time.monotonic() - began
    click.echo(f"in force here and on {count - len(late)} of {count} members in reach, after {took:.1f} s")
    if late:
        click.echo(f"not yet on: {', '.join(late)}. They get it as soon as they answer")
        sys.exit(DEGRADED)


def _spread(client: Client, known: Fleet, members: Collection[str]) -> tuple[list[str], int]:
    """Return the members in reach that have an older list than this node, and how many members are in reach.

    A peer whose card no fleet has signed is one if it has said so.
    """
    view, fleet = client.call("fleets"), known.public_key.hex()
    number = view["lists"].get(fleet, 0)
    has = {one["peer"]: one["lists"].get(fleet, 0) for one in view["peers"]}
    reached = {name: newest for name, newest in has.items() if newest or name in members}
    return [name for name, newest in reached.items() if newest < number], len(reached)
