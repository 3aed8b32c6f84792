"""``bench path``: what each hop on the way to a peer adds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError
from meshsec.cli.app import App, peer_names
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option
from meshsec.cli.bench.planes import named
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import echoes
from meshsec.core.bench.record import Key, Record, Taken
from meshsec.core.page.graph import graph

_INTERVAL = 0.2
"""Seconds from one echo request to the next."""
_WAIT = 2
"""Seconds that ping waits for the last answer."""


@dataclass(frozen=True)
class Hop:
    """A node on the way."""

    number: int
    name: str
    address: str | None
    """The address inside its protected channel; None: it has none now, or it is a stranger."""


@click.command
@click.argument("peer", shell_complete=peer_names)
@click.option(
    "--count", type=click.IntRange(1, 1000), default=20, show_default=True, help="Echo requests to each node and round."
)
@rounds_option(3)
@into_option
@json_option
@click.pass_obj
def path(  # noqa: PLR0913, PLR0917  # one for each option
    app: App, peer: str, count: int, rounds: int, into: Path, resume: Path | None, as_json: bool
) -> None:
    """Measure round trips and loss to each node on the way to PEER, as the router goes now.

    Each node is asked inside its own protected channel with this node, alternately. A stranger on the way is left out:
    nothing is sent to it in the clear. A way that changes meanwhile is reported.
    """
    need("ping", "iputils-ping")
    with Client(app.socket) as client:
        hops = _hops(client, peer)
        steps = in_rounds([_step(one, count) for one in hops], rounds)
        params = {"peer": peer, "way": [one.name for one in hops], "count": count, "rounds": rounds}
        record, place = begin(Record("path", params, about()), into, resume)
        for one in hops:
            if one.address is None:
                record.note(f"{one.name} (hop {one.number}) was not asked: it has no protected channel with this node.")
        measure(record, steps, place)
        if [one.name for one in hops] != [one.name for one in _hops(client, peer)]:
            record.note(f"The way to {peer} has changed meanwhile: repeat the measurement.")
    if as_json:
        print_json(record.document(again()))
    elif record.cells:
        _print(record)
    finished(record, place, len(steps))


def _hops(client: Client, peer: str) -> list[Hop]:
    """Return the way to a peer. Raises ClickException if there is none."""
    status, topology = client.call("status"), client.call("topology")
    inside = {one["name"]: one["address"] for one in status["peers"] if one["data_plane"] in {"ipsec", "overlay"}}
    named(status, peer)
    way: Mapping[str, Any] = graph(status, topology)["routes"]
    if peer not in way:
        raise click.ClickException(f"no route leads to {peer} now: `meshsec explain {peer}` says why")
    return [Hop(number, name, inside.get(name)) for number, name in enumerate(way[peer], start=1)]


def _step(hop: Hop, count: int) -> Step:
    return Step(f"hop {hop.number}, {hop.name}", count * _INTERVAL, partial(_echo, hop, count))


def _echo(hop: Hop, count: int) -> Iterator[Taken]:
    """Send echo requests. Raises ClickException if ping cannot."""
    if hop.address is None:
        return
    argv = ["ping", "-n", "-c", str(count), "-i", str(_INTERVAL), "-W", str(_WAIT), hop.address]
    try:
        text = measuring.run(argv, count * _INTERVAL + _WAIT + 10, allowed=(0, 1))
        trips, lost = echoes.read(text)
    except (MeasuringError, ValueError) as error:
        raise click.ClickException(f"{hop.name}: {error}") from error
    key: Key = {"hop": hop.number, "node": hop.name}
    if trips:
        yield Taken(key, "ms", trips)
    yield Taken(key, "% lost", [lost])


def _print(record: Record) -> None:
    trips = {cell.key["hop"]: cell for cell in record.cells if cell.unit == "ms"}
    before = 0.0
    rows = []
    for cell in record.cells:
        if cell.unit != "% lost":
            continue
        found, lost = trips.get(cell.key["hop"]), f"{sum(cell.samples) / len(cell.samples):.3g} %"
        if found is None:
            rows.append((*cell.key.values(), lost, None, None, None, None))
            continue
        middle, late = median(found.samples), found.figures()["p95"]
        shown = (len(found.samples), spread(found, "{:.2f}".format, " ms"), f"{late:.2f} ms")
        rows.append((*cell.key.values(), lost, *shown, f"{middle - before:+.2f} ms"))
        before = middle
    print_table(("HOP", "NODE", "LOST", "N", "MEDIAN", "P95", "ADDS"), rows)
    explain(trips.values())
