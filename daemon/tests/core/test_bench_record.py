"""The record of a benchmark: figures, order, and going on with a run that ended early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.bench.record import Record, RecordError, Taken, continued


def record(**changes: object) -> Record:
    one = Record("crypto", {"rounds": 2, **changes}, {"machine": {"cpu": "x"}, "versions": {"meshsec": "1"}})
    one.take(Taken({"algorithm": "a", "bytes": 50}, "Mbit/s", [3.0]))
    one.take(Taken({"algorithm": "b", "bytes": 50}, "Mbit/s", [1.0]))
    one.take(Taken({"algorithm": "a", "bytes": 50}, "Mbit/s", [5.0]))
    one.steps, one.cut_short = 3, "interrupted"
    return one


def test_samples_of_one_thing_are_one_cell_in_the_order_of_their_first() -> None:
    cells = record().cells
    assert [(one.key["algorithm"], list(one.samples)) for one in cells] == [("a", [3.0, 5.0]), ("b", [1.0])]


def test_two_units_of_one_thing_are_two_cells() -> None:
    one = record()
    one.take(Taken({"algorithm": "a", "bytes": 50}, "1/s", [9.0]))
    assert len(one.cells) == 3


def test_each_sample_has_a_row() -> None:
    rows = [*record().rows()]
    assert rows[1] == {"algorithm": "a", "bytes": 50, "unit": "Mbit/s", "sample": 2, "value": 5.0}
    assert len(rows) == 3


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_figures_are_in_order_and_within_the_samples(samples: list[float]) -> None:
    figures = Taken({"what": "x"}, "ms", samples).figures()
    least, *_, most = (min(samples), *figures.values(), max(samples))
    assert figures["median"] <= figures["p95"] * (1 + 1e-9)
    assert figures["p95"] <= figures["p99"] * (1 + 1e-9)
    assert least * (1 - 1e-9) <= figures["median"]
    assert figures["max"] == most


def test_the_document_has_the_interval_of_each_median() -> None:
    document = Taken({"what": "x"}, "ms", [*range(20)]).document()
    assert (document["n"], document["median"], document["interval"]) == (20, 9.5, [5, 14])


def test_a_run_that_ended_early_goes_on_where_it_was() -> None:
    old = record()
    new = continued(old.document("meshsec bench crypto"), record())
    assert (new.steps, new.cells, new.about) == (3, old.cells, old.about)
    new.take(Taken({"algorithm": "b", "bytes": 50}, "Mbit/s", [2.0]))
    assert list(new.cells[1].samples) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cut_short": ""}, "came to its end"),
        ({"name": "latency"}, "a record of 'latency'"),
        ({"schema": "meshsec-bench-0"}, "meshsec-bench-0"),
        ({"params": {"rounds": 3}}, "rounds was 3 then and is 2 now"),
        ({"params": {"rounds": 2, "seconds": 1}}, "seconds was 1 then and is None now"),
        ({"cells": [{"key": 1}]}, "no record"),
        ({"cells": None}, "no record"),
    ],
)
def test_another_run_is_not_gone_on_with(change: dict[str, object], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        continued({**record().document(""), **change}, record())


@pytest.mark.parametrize("document", [None, [], "x", {}, {"schema": "meshsec-measurement-1"}])
def test_what_is_no_record_is_refused(document: object) -> None:
    with pytest.raises(RecordError, match="no record"):
        continued(document, record())
