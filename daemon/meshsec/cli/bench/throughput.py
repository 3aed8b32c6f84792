"""``bench throughput``: what each data plane carries between this node and a peer, and what limits it."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from meshsec.adapters.sockets.bench_talk import TalkError
from meshsec.cli.app import App, peer_names
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.flows import Flows, PlaneAbsentError, connect
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option, run
from meshsec.cli.bench.planes import named, not_protected
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import iperf3, usage
from meshsec.core.bench.record import Record, Taken
from meshsec.core.bench.svg import number
from meshsec.core.values.bench import CLEAR_PORT
from meshsec.core.values.model import DataPlane

_ANSWER = 30.0
"""Seconds that meshsecd may take to change rules."""
_OVERHEAD = 2.0
"""Seconds of a step beside its flow: connecting, and changing the plane."""

_STREAM = ("Mbit/s", "segments sent again in a second", "kB of congestion window")
_LOAD = ("Mbit/s", "% lost", "ms of jitter")


@click.command
@click.argument("peer", shell_complete=peer_names)
@click.option("--seconds", type=click.IntRange(1, 600), default=5, show_default=True, help="How long each flow lasts.")
@click.option(
    "--rate",
    "rates",
    type=click.FloatRange(0.1, 100_000),
    multiple=True,
    default=(1.0, 10.0, 100.0),
    show_default=True,
    help="Load of UDP in Mbit/s; may be repeated.",
)
@click.option(
    "--plain",
    is_flag=True,
    help=f"Measure the way in the clear, too, through port {CLEAR_PORT}: PEER must serve with --plain.",
)
@rounds_option(3)
@into_option
@json_option
@click.pass_obj
def throughput(  # noqa: PLR0913, PLR0917  # one for each option
    app: App,
    peer: str,
    seconds: int,
    rates: tuple[float, ...],
    plain: bool,
    rounds: int,
    into: Path,
    resume: Path | None,
    as_json: bool,
) -> None:
    """Measure what IPsec and the overlay carry between this node and PEER, alternately, in both directions.

    PEER must serve meanwhile: `meshsec bench serve` there. iperf3 measures a TCP stream by the second, with segments
    sent again and the congestion window; and UDP at fixed loads, with loss and jitter. Small probes beside the stream
    show the latency, and /proc what the processors of this node do: the last lines say what the limit is.

    Applications may notice: the streams take what the way has, and the data plane with PEER changes to and fro.
    """
    need("iperf3", "iperf3")
    version = iperf3.version(run(["iperf3", "--version"], _ANSWER))
    with Client(app.socket, _ANSWER) as client:
        status = client.call("status")
        _refuse_nonsense(status, peer)
        session = client.call("bench_begin", {"peer": peer, "serves": False})
        planes = [*([DataPlane.PLAIN] if plain else []), DataPlane.IPSEC, DataPlane.OVERLAY]
        params = {"peer": peer, "planes": planes, "seconds": seconds, "rates": [*rates], "rounds": rounds}
        with connect(session, peer, status["node"]["name"]) as talk:
            facts = about(iperf3=version, iperf3_of_peer=_hello(Flows(client, talk, session, peer, Record("", {}))))
            record, place = begin(Record("throughput", params, facts), into, resume)
            flows = Flows(client, talk, session, peer, record)
            steps = in_rounds([step for plane in planes for step in _steps(flows, plane, seconds, rates)], rounds)
            measure(record, steps, place)
            if not record.cut_short:
                flows.end()
    _note_limits(record)
    if as_json:
        print_json(record.document(again()))
    elif record.cells:
        _print(record)
    finished(record, place, len(steps))


def _refuse_nonsense(status: Mapping[str, Any], peer: str) -> None:
    """Raise ClickException for this node itself, for nobody, and for a peer that is not protected."""
    found = named(status, peer)
    if found["data_plane"] not in {DataPlane.IPSEC, DataPlane.OVERLAY}:
        raise not_protected(found)


def _hello(flows: Flows) -> str:
    """Return the version of the peer's iperf3. Raises ClickException."""
    try:
        return str(flows.ask({"do": "hello"}).get("iperf3", ""))[:32]
    except (TalkError, PlaneAbsentError) as error:
        raise click.ClickException(f"{flows.peer} serves somebody else, or not as expected: {error}") from error


def _steps(flows: Flows, plane: DataPlane, seconds: int, rates: Sequence[float]) -> list[Step]:
    """Return the steps of one plane in a round."""
    lasting = seconds + _OVERHEAD
    steps = [Step(f"{plane}, at rest", lasting, partial(flows.rest, plane, seconds))]
    for reverse in (False, True):
        way = f"{plane}, {'from' if reverse else 'to'} {flows.peer}"
        steps.append(Step(f"{way}, TCP", lasting, partial(flows.stream, plane, seconds, reverse=reverse)))
        steps += [
            Step(f"{way}, UDP {rate:g} Mbit/s", lasting, partial(flows.load, plane, seconds, rate, reverse=reverse))
            for rate in rates
        ]
    return steps


def _note_limits(record: Record) -> None:
    """Note for each plane and direction what limited the TCP stream."""
    ways = dict.fromkeys((one.key["plane"], one.key["direction"]) for one in record.cells if "flow" in one.key)
    for plane, direction in ways:
        here = [one for one in record.cells if (one.key["plane"], one.key.get("direction")) == (plane, direction)]
        if said := usage.limit(one for one in here if "flow" in one.key):
            record.note(f"{plane} {direction}: the limit is {said}.")


def _print(record: Record) -> None:
    cells: dict[tuple[object, ...], Taken] = {(*one.key.values(), one.unit): one for one in record.cells}

    def shown(*place: object) -> str | None:
        found = cells.get((*place,))
        return None if found is None else spread(found)

    def count(*place: object) -> int:
        return len(cells[(*place, "Mbit/s")].samples)

    def trips(plane: object, beside: str) -> tuple[object, ...]:
        found = cells.get((plane, beside, "ms"))
        return (None,) * 3 if found is None else (len(found.samples), spread(found), number(found.figures()["p95"]))

    rests = [key[0] for key in cells if key[1:] == ("nothing", "ms")]
    streams = [key[:2] for key in cells if len(key) == 3 and key[2] == "Mbit/s"]
    loads = [key[:3] for key in cells if len(key) == 4 and key[3] == "Mbit/s"]
    rows: list[tuple[object, ...]] = [(plane, "at rest", *[None] * 4, *trips(plane, "nothing")) for plane in rests]
    rows += [
        (*way, count(*way), *(shown(*way, unit) for unit in _STREAM), *trips(way[0], f"TCP {way[1]}"))
        for way in streams
    ]
    rows.sort(key=lambda row: rests.index(row[0]) if row[0] in rests else -1)
    print_table(("PLANE", "TCP", "N", "MBIT/S", "AGAIN/S", "CWND KB", "PROBES", "ROUND TRIP MS", "P95"), rows)
    click.echo()
    print_table(
        ("PLANE", "UDP", "OFFERED", "N", "MBIT/S", "% LOST", "JITTER MS"),
        ((*way[:2], f"{way[2]:g}", count(*way), *(shown(*way, unit) for unit in _LOAD)) for way in loads),
    )
    explain(one for one in record.cells if one.unit in {*_STREAM, *_LOAD, "ms"})
