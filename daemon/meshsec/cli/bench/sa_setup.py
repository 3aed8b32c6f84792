"""``bench sa-setup``: how long the set-up of the SA with a peer takes."""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from meshsec.cli.app import App, peer_names
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option
from meshsec.cli.bench.planes import entry, named, not_protected
from meshsec.cli.bench.steps import Step, finished, measure
from meshsec.cli.client import Client, DaemonError
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench.record import Record, Taken

_SCHEMA = "meshsec-bench-1"
_LOOK = 0.02
"""Seconds between two looks at the state; the times themselves are meshsecd's."""
_LINES = 0.5
"""Seconds after a new SA in which the lines of charon's log come that have the times of its phases."""
_PROTECTED = "protected"
"""The state of a channel with an SA and a route."""
_REFUSED = "refused"
"""meshsecd's code for a channel that is not protected at the moment."""

PHASES = {
    "ike_sa_init": "IKE_SA_INIT (RFC 7296, section 1.2)",
    "ike_auth": "IKE_AUTH with the first CHILD_SA",
    "ready": "from the end of the old SA to user data protected again",
}


@click.command("sa-setup")
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
@into_option
@json_option
@click.pass_obj
def sa_setup(  # noqa: PLR0913, PLR0917  # one for each option
    app: App,
    peer: str,
    count: int,
    interval: float,
    timeout: float,
    yes: bool,
    into: Path,
    resume: Path | None,
    as_json: bool,
) -> None:
    """Measure how long the set-up of the SA with PEER takes.

    The SA is closed and negotiated from the beginning, COUNT times, under whatever load the nodes have. User data with
    PEER waits meanwhile, and none of it leaves in the clear. Ask on the end that initiates: its times are whole.
    """
    with Client(app.socket) as client:
        status = _measurable(client, peer)
        if not yes:
            click.confirm(f"Close the SA with {peer} {count} times? User data waits meanwhile", abort=True, err=True)
        facts = {**about(), "peer": peer, "hops": status["hops"], "initiator": status["initiator"]}
        new = Record("sa-setup", {"peer": peer, "count": count, "interval": interval}, facts, _SCHEMA)
        record, place = begin(new, into, resume)
        take = partial(_set_up, client, peer, interval, timeout)
        measure(record, [Step(f"set-ups with {peer}", interval, take)] * count, place)
    if not status["initiator"]:
        record.note(f"{peer} initiates: a set-up that it began was measured here only as far as this node took part.")
    if record.cells:
        _print(record, as_json=as_json)
    finished(record, place, count)


def _measurable(client: Client, peer: str) -> Mapping[str, Any]:
    """Return what the status says of the peer. Raises ClickException unless it is one with which an SA can be closed.

    Later in the run a channel may wait for a moment, and is waited for.
    """
    found = named(client.call("status"), peer)
    if found["state"] != _PROTECTED:
        raise not_protected(found)
    return found


def _print(record: Record, *, as_json: bool) -> None:
    if as_json:
        print_json(record.document(again()))
        return
    print_table(
        ("WHAT", "N", "MEDIAN", "P95", "P99", "MAX"),
        (
            (
                PHASES[str(cell.key["what"])],
                len(cell.samples),
                spread(cell, "{:.1f}".format, " ms"),
                *(f"{cell.figures()[figure]:.1f} ms" for figure in ("p95", "p99", "max")),
            )
            for cell in record.cells
        ),
    )
    explain(record.cells)


def _set_up(client: Client, peer: str, interval: float, timeout: float) -> Iterator[Taken]:
    """Negotiate again, and yield the times of ``status``. Raises ClickException."""
    begun = time.monotonic()
    try:
        _renegotiate(client, peer, begun + timeout)
        status = _timed(client, peer, _protected(client, peer, begun + timeout))
    except DaemonError as error:
        raise click.ClickException(str(error)) from error
    times = {**(status["setup_ms"] or {}), "ready": status["route_to_protected_ms"]}
    for what in PHASES:
        if times.get(what) is not None:
            yield Taken({"what": what}, "ms", [times[what]])
    time.sleep(max(0.0, begun + interval - time.monotonic()))


def _renegotiate(client: Client, peer: str, end: float) -> None:
    """Begin a set-up; a channel that waits for something else meanwhile is waited for."""
    while True:
        _protected(client, peer, end)
        try:
            client.call("renegotiate", {"peer": peer})
        except DaemonError as error:
            # It was protected a moment ago, and may be again by now: another look would prove nothing.
            if error.code != _REFUSED or time.monotonic() > end:
                raise
            time.sleep(_LOOK)
        else:
            return


def _timed(client: Client, peer: str, status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``status`` with the times of the phases, or without them when they do not come."""
    end = time.monotonic() + _LINES
    while status["setup_ms"] is None and time.monotonic() < end:
        time.sleep(_LOOK)
        status = _status(client, peer)
    return status


def _protected(client: Client, peer: str, end: float) -> Mapping[str, Any]:
    while (status := _status(client, peer))["state"] != _PROTECTED:
        if time.monotonic() > end:
            raise click.ClickException(
                f"no new SA with {peer} in time: it is {status['state']} ({status['reason']}): "
                f"`meshsec explain {peer}` says why"
            )
        time.sleep(_LOOK)
    return status


def _status(client: Client, peer: str) -> Mapping[str, Any]:
    found = entry(client.call("status"), peer)
    if found is None:
        raise click.ClickException(f"{peer} is not a peer any more")
    return found
