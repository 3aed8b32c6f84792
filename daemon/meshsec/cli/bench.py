"""``bench``: measure on the running node."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

import click

from meshsec.cli.app import App, peer_names
from meshsec.cli.client import Client, DaemonError
from meshsec.cli.output import json_option, print_json, print_table

_LOOK = 0.02
"""Seconds between two looks at the state; the times themselves are meshsecd's."""

PHASES = {
    "ike_sa_init": "IKE_SA_INIT (RFC 7296, section 1.2)",
    "ike_auth": "IKE_AUTH with the first CHILD_SA",
    "ready": "from the end of the old SA to user data protected again",
}


@click.group
def bench() -> None:
    """Measure this node."""


@bench.command("sa-setup")
@click.argument("peer", shell_complete=peer_names)
@click.option("--count", type=click.IntRange(1, 10000), default=20, show_default=True, help="How many set-ups.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=0.5,
    show_default=True,
    help="Seconds from one to the next; how many may begin in a second is bounded by the policy too.",
)
@click.option(
    "--timeout", type=click.FloatRange(1, 600), default=60, show_default=True, help="Seconds to wait for each."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def sa_setup(  # noqa: PLR0913, PLR0917  # one for each option
    app: App, peer: str, count: int, interval: float, timeout: float, yes: bool, as_json: bool
) -> None:
    """Measure how long the set-up of the SA with PEER takes.

    The SA is closed and negotiated from the beginning, COUNT times, under whatever load the nodes have. User data with
    PEER waits meanwhile, and none of it leaves in the clear. Ask on the end that initiates: its times are whole.
    """
    if not yes:
        click.confirm(f"Close the SA with {peer} {count} times? User data waits meanwhile", abort=True, err=True)
    with Client(app.socket) as client:
        taken, problem = _measured(_set_ups(client, peer, count, interval, timeout))
    if not taken:
        raise click.ClickException(problem)
    _print(_view(peer, taken[-1], taken), as_json=as_json)
    if problem:
        raise click.ClickException(f"{problem}; the figures are those of {len(taken)} of {count} set-ups")


def _measured(set_ups: Iterator[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """Take all set-ups, or those until one failed or somebody interrupted, with what ended them."""
    taken: list[Mapping[str, Any]] = []
    try:
        taken.extend(set_ups)
    except KeyboardInterrupt:
        return taken, "interrupted"
    except (click.ClickException, DaemonError) as error:
        return taken, str(error)
    return taken, ""


def _print(view: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    print_table(
        ("WHAT", "N", "MEDIAN", "P95", "P99", "MAX"),
        (
            (PHASES[cell["key"]["what"]], cell["n"], *(f"{cell[name]:.1f} ms" for name in _FIGURES))
            for cell in view["cells"]
        ),
    )
    if not view["initiator"]:
        click.echo(
            f"{view['peer']} initiates: a set-up that it began was measured here only as far as this node took part."
        )


_FIGURES = ("median", "p95", "p99", "max")


def _set_ups(client: Client, peer: str, count: int, interval: float, timeout: float) -> Iterator[Mapping[str, Any]]:
    """Return the peer's entry of ``status`` after each set-up."""
    with click.progressbar(length=count, label=f"set-ups with {peer}", file=sys.stderr) as progress:
        for _ in range(count):
            begun = time.monotonic()
            _renegotiate(client, peer, begun + timeout)
            yield _protected(client, peer, begun + timeout)
            progress.update(1)
            time.sleep(max(0.0, begun + interval - time.monotonic()))


def _renegotiate(client: Client, peer: str, end: float) -> None:
    """Begin a set-up; a channel that waits for something else meanwhile is waited for."""
    _protected(client, peer, end)
    while not _begun(client, peer):
        _protected(client, peer, end)


def _begun(client: Client, peer: str) -> bool:
    """Ask for a set-up. False when the channel is not protected any more."""
    try:
        client.call("renegotiate", {"peer": peer})
    except DaemonError:
        if _status(client, peer)["state"] == "protected":
            raise
        return False
    return True


def _protected(client: Client, peer: str, end: float) -> Mapping[str, Any]:
    while (status := _status(client, peer))["state"] != "protected":
        if time.monotonic() > end:
            raise click.ClickException(f"no new SA with {peer} in time: it is {status['state']} ({status['reason']})")
        time.sleep(_LOOK)
    return status


def _status(client: Client, peer: str) -> Mapping[str, Any]:
    found = [entry for entry in client.call("status")["peers"] if entry["name"] == peer]
    if not found:
        raise click.ClickException(f"{peer} is not a peer any more")
    entry: Mapping[str, Any] = found[0]
    return entry


def _view(peer: str, status: Mapping[str, Any], taken: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    samples = {
        **{name: [(entry["setup_ms"] or {}).get(name) for entry in taken] for name in ("ike_sa_init", "ike_auth")},
        "ready": [entry["route_to_protected_ms"] for entry in taken],
    }
    known = {name: [value for value in values if value is not None] for name, values in samples.items()}
    return {
        "schema": "meshsec-bench-1",
        "name": "sa-setup",
        "peer": peer,
        "hops": status["hops"],
        "initiator": status["initiator"],
        "cells": [_cell(name, values) for name, values in known.items() if values],
    }


def _cell(what: str, samples: Sequence[float]) -> dict[str, Any]:
    many = quantiles(samples, n=100, method="inclusive") if len(samples) > 1 else [samples[0]] * 99
    return {
        "key": {"what": what},
        "unit": "ms",
        "n": len(samples),
        "median": median(samples),
        "p95": many[94],
        "p99": many[98],
        "max": max(samples),
        "samples": list(samples),
    }
