"""Choose how what was seen on the air is drawn: the parts of an exchange, the backoff, and bursts by their length."""

from collections.abc import Mapping

from meshsec.core.air.summary import Names, Summary
from meshsec.core.bench import svg

_NEIGHBOURS = len(svg.COLOURS)
"""Stations in a picture: those with the most airtime."""
_PARTS = {"backoff": "backoff", "retries": "retries", "rts_cts": "RTS/CTS", "data": "data", "ack": "ack"}
_STEPS = 20
"""Points of a distribution."""


def pictures(summary: Summary, names: Names, seconds: float) -> Mapping[str, str]:
    """Return the pictures as SVG, by the names of their files. There is none of what was not seen."""
    most = sorted(summary.neighbours.items(), key=lambda item: -item[1].airtime)[:_NEIGHBOURS]
    shown = [(names.get(address, address), one) for address, one in most]
    exchanges = sum(one.exchanges for one in summary.neighbours.values())
    about = f"{exchanges} exchanges in {svg.number(seconds)} s"
    drawn = {}
    parts = [
        svg.Bar(f"{label}: {text}", one.parts[part].quantile(0.5))
        for label, one in shown
        for part, text in _PARTS.items()
        if one.parts and one.parts[part].n
    ]
    if parts:
        drawn["air-parts.svg"] = svg.bars(f"The parts of an exchange; {about}", "microseconds, median", parts)
    backoff = {
        label: [
            svg.Point(one.parts["backoff"].quantile(step / _STEPS), 100 * step / _STEPS)
            for step in range(1, _STEPS + 1)
        ]
        for label, one in shown
        if one.parts and one.parts["backoff"].n > 1
    }
    if backoff:
        title = f"Access delay where there was something to send; {about}"
        drawn["air-backoff.svg"] = svg.lines(title, "microseconds", "percent of exchanges that began by then", backoff)
    if bursts := _bursts(summary):
        title = f"Delay of an exchange by its MPDUs, with the access delay; {about}"
        drawn["air-bursts.svg"] = svg.lines(title, "MPDUs in the exchange", "microseconds, median", bursts)
    return drawn


def _bursts(summary: Summary) -> svg.Lines:
    """Return the delay of acknowledged data by its MPDUs, as Agosto-Padilla's Table 3 has it."""
    drawn: dict[str, list[svg.Point]] = {}
    for text, one in summary.patterns.items():
        if one.total.n and text.endswith(("data, ack", "data, BA")):
            label = "with RTS/CTS" if one.protected else "without RTS/CTS"
            drawn.setdefault(label, []).append(svg.Point(float(one.units), one.total.quantile(0.5)))
    return drawn
