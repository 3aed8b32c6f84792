"""The record of one benchmark on one node: every sample, under which circumstances, and how to take them again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from meshsec.core.bench.interval import interval

SCHEMA = "meshsec-measurement-1"

Key = Mapping[str, str | int | float]
"""What was measured, and under which circumstances: names and values, in the order in which people read them."""


class RecordError(ValueError):
    """A kept record cannot be continued. The message says why."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Samples of one thing, in one unit."""

    key: Key
    unit: str
    samples: Sequence[float]

    def figures(self) -> dict[str, float]:
        """Return the figures that are reported: median, 95th and 99th percentile, and the largest."""
        ordered = sorted(self.samples)
        many = quantiles(ordered, n=100, method="inclusive") if len(ordered) > 1 else ordered * 99
        return {"median": median(ordered), "p95": many[94], "p99": many[98], "max": ordered[-1]}

    def document(self) -> dict[str, Any]:
        """Return the cell of the JSON document."""
        return {
            "key": dict(self.key),
            "unit": self.unit,
            "n": len(self.samples),
            **self.figures(),
            "interval": list(interval(self.samples)),
            "samples": list(self.samples),
        }


@dataclass
class Record:
    """What a run has measured so far. The order of its steps is fixed, so that a number says where to go on."""

    name: str
    params: Mapping[str, Any]
    """What was asked for. A run with other parameters is another run."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where it was measured: the machine, the versions, the peer."""
    schema: str = SCHEMA
    steps: int = 0
    """Steps that are done."""
    cut_short: str = ""
    """Why the run ended early; empty: it did not."""
    notes: list[str] = field(default_factory=list)
    """What was left out, and why; what the figures say."""
    _taken: dict[tuple[tuple[str, Any], ...], Taken] = field(default_factory=dict)

    @property
    def cells(self) -> Sequence[Taken]:
        """What was measured, in the order in which it was first measured."""
        return tuple(self._taken.values())

    def take(self, new: Taken) -> None:
        """Add samples to those with the same key and unit."""
        place = (*new.key.items(), ("unit", new.unit))
        old = self._taken.get(place)
        self._taken[place] = Taken(new.key, new.unit, (*(old.samples if old else ()), *new.samples))

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def document(self, again: str) -> dict[str, Any]:
        """Return the JSON document. ``again`` is the command that measures again."""
        return {
            "schema": self.schema,
            "name": self.name,
            **self.about,
            "params": dict(self.params),
            "steps": self.steps,
            "cut_short": self.cut_short,
            "again": again,
            "notes": list(self.notes),
            "cells": [one.document() for one in self.cells],
        }

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each sample, for tables of other programs (CSV)."""
        for cell in self.cells:
            for number, value in enumerate(cell.samples, start=1):
                yield {**cell.key, "unit": cell.unit, "sample": number, "value": value}


def continued(document: object, new: Record) -> Record:
    """Return the record of a run that ended early, to go on with it in the place of a new one.

    Raises RecordError if it is none, if it came to its end, or if something else was to be measured.
    """
    try:
        return _continued(document, new)
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"it is no record of `meshsec bench`: {type(error).__name__}: {error}") from error


def _continued(document: Any, new: Record) -> Record:
    params = new.params
    if document["schema"] != new.schema or document["name"] != new.name:
        raise RecordError(f"it is a record of {document['name']!r} ({document['schema']}), not of {new.name!r}")
    if not document["cut_short"]:
        raise RecordError("that run came to its end; without --resume a new one begins")
    for key in {*document["params"], *params}:
        if document["params"].get(key) != params.get(key):
            found, wanted = document["params"].get(key), params.get(key)
            raise RecordError(
                f"{key} was {found!r} then and is {wanted!r} now; give it as it was, or leave --resume out"
            )
    about = {key: document[key] for key in new.about}
    record = Record(new.name, params, about, new.schema, int(document["steps"]))
    record.notes = [str(one) for one in document["notes"]]
    for cell in document["cells"]:
        record.take(Taken(dict(cell["key"]), str(cell["unit"]), [float(value) for value in cell["samples"]]))
    return record
