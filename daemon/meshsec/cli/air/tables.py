"""Print what was seen on the air for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from meshsec.cli.output import print_prose, print_table
from meshsec.core.air.exchange import Exchange
from meshsec.core.air.summary import Names

_NEIGHBOURS = ("NEIGHBOUR", "EXCHANGES", "FRAMES", "RETRIED", "AIR", "RATE")
_TIMES = ("NEIGHBOUR", "ACCESS", "RTS/CTS", "DATA", "ACK", "RETRIES")
_PARTS = ("access", "rts_cts", "data", "ack", "retries")
_LINE = "{:>12} {:<17} {:<17} {:>9} {:>8} {:>8} {:>8} {:>6} {:>9}  {}"
_PATTERNS = 16
"""Patterns that are shown; --json has all."""


def print_air(view: Mapping[str, Any]) -> None:
    """Print neighbours and patterns, and what limits the figures."""
    busy = "" if view["busy_share"] is None else f", the medium was busy {_percent(view['busy_share'])} of it"
    click.secho(f"{view['frames']} frames in {view['seconds']:.3f} s{busy}", bold=True)
    if view["lost"]:
        print_prose(f"{view['lost']} more frames were lost, because this machine was too slow.", "red")
    click.echo()
    print_table(_NEIGHBOURS, _neighbours(view["neighbours"]), breakable=_NEIGHBOURS[:1])
    click.echo("\nMicroseconds, median/95th percentile, of exchanges with one receiver:\n")
    print_table(_TIMES, _parts(view["neighbours"]), breakable=_TIMES[:1])
    if patterns := view["patterns"][:_PATTERNS]:
        click.echo()
        print_table(("EXCHANGE", "COUNT", "DELAY", "WITH ACCESS"), _patterns(patterns))
    for warning in view["warnings"]:
        print_prose(f"Note: {warning}", "yellow")
    if view["cut"]:
        click.secho(f"Only a part: {view['cut']}", fg="red")


def heading() -> str:
    """Return the line above those of exchanges."""
    return _LINE.format("START", "FROM", "TO", "ACCESS", "RETRIES", "RTS/CTS", "DATA", "ACK", "TOTAL", "EXCHANGE")


def line(one: Exchange, names: Names) -> str:
    """Return one exchange as a line; times in microseconds. A star is an access in which there was nothing to send."""
    access = "-" if one.access is None else f"{one.access:.0f}{'*' if one.idle else ''}"
    retries = f"{one.retries:.0f}" if one.attempts > 1 else "-"
    times = f"{one.attempts} attempts: " if one.attempts > 1 else ""
    return _LINE.format(
        f"{one.start:.0f}",
        names.get(one.transmitter, one.transmitter)[:17],
        names.get(one.receiver, one.receiver)[:17],
        access,
        retries,
        f"{one.rts_cts:.0f}" if one.protection else "-",
        f"{one.data:.0f}" if one.units else "-",
        f"{one.ack:.0f}" if one.answer else "-",
        f"{one.total:.0f}",
        f"{times}{one.pattern}",
    )


def _neighbours(found: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[object]]:
    for one in found:
        yield (
            one["name"] or one["address"],
            one["exchanges"],
            one["frames"],
            _percent(one["retry_share"]),
            _percent(one["airtime_share"]),
            one["rates"][0]["rate"] if one["rates"] else None,
        )


def _parts(found: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[object]]:
    for one in found:
        if any(one["parts"].values()):
            yield one["name"] or one["address"], *(_times(one["parts"][part]) for part in _PARTS)


def _patterns(found: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[object]]:
    for one in found:
        yield one["pattern"], one["exchanges"], _times(one["delay"]), _times(one["total"])


def _times(part: Mapping[str, float] | None) -> str | None:
    return None if part is None else f"{part['median_us']:.0f}/{part['p95_us']:.0f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"
