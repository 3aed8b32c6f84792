"""Each set-up has the times of its own packets, and what belongs to none is counted."""

import json

from rt.bench_sa_setup import Taken, _cells, _median
from rt.loads.stream import Delivered
from rt.sa_setup import plan
from rt.sa_setup.block import Block, Sample, paired
from rt.sa_setup.rig import SAMPLE_TIMEOUT
from rt.sa_setup.times import SetupTimes


def seen(begin: float, total: float = 0.01) -> SetupTimes:
    return SetupTimes(begin, 0.001, 0.002, total, None)


def asked(begin: float, end: float) -> Sample:
    return Sample(begin, end, {"ike_sa_init": 1.0, "ike_auth": None})


def test_a_set_up_has_the_packets_of_its_own_span() -> None:
    found, others = paired([asked(10, 11), asked(12, 13)], [seen(10.2), seen(12.5)])
    assert [one.times and one.times.begin for one in found] == [10.2, 12.5]
    assert others == 0


def test_a_set_up_that_came_after_it_was_given_up_is_that_of_no_other() -> None:
    found, others = paired([asked(10, 11), asked(45, 46)], [seen(10.2), seen(41.0, 3.0), seen(45.1)])
    assert [one.times and one.times.begin for one in found] == [10.2, 45.1]
    assert others == 1


def test_of_several_in_a_span_the_one_that_brought_the_sa_counts() -> None:
    found, others = paired([asked(10, 15)], [seen(10.1), seen(14.0)])
    assert found[0].times == seen(14.0)
    assert others == 1


def test_a_set_up_without_its_packets_has_no_time() -> None:
    block = Block(*paired([asked(10, 11), asked(12, 13)], [seen(12.1)]))
    assert (block.unseen, len(block.timed)) == (1, 1)


def test_a_set_up_that_was_given_up_took_at_least_so_long() -> None:
    """Else the median of the others would say that few set-ups are slow, because the slow ones are missing."""
    block = Block(*paired([asked(10, 11)], [seen(10.2)]), overdue=2)
    found = {cell.key["what"]: cell for cell in _cells(plan.Key("priority", "stock"), Taken([block]))}
    assert (list(found["total"].samples), found["total"].given_up) == ([10.0, 1000 * SAMPLE_TIMEOUT, 3e4], 2)
    assert list(found["ike_auth"].samples) == [2.0]
    assert list(found["given up"].samples) == [2]
    assert found["total"].as_dict()["given_up"] == 2
    assert "given_up" not in found["ike_auth"].as_dict()


def test_a_visit_that_gave_up_all_set_ups_is_no_fast_one() -> None:
    (cell, _) = _cells(plan.Key("priority", "stock"), Taken([Block(overdue=3)]))
    assert (cell.samples, cell.given_up) == ([3e4] * 3, 3)
    assert _median(Block(overdue=3)) == SAMPLE_TIMEOUT
    assert _median(Block()) is None


def test_what_is_kept_of_a_visit_is_read_as_it_was() -> None:
    block = Block(paired([asked(10, 11), asked(12, 13)], [seen(10.2)])[0], 2, 1, [0.001], Delivered(3.0, 180, 60.0))
    assert Block.from_dict(json.loads(json.dumps(block.as_dict()))) == block
    assert Block.from_dict(json.loads(json.dumps(Block().as_dict()))) == Block()


def test_what_is_missing_of_a_stream_is_said_only_where_it_has_a_rate() -> None:
    assert Delivered(10.0, 450, 60.0).missing_percent == 25.0
    assert Delivered(10.0, 700, 60.0).missing_percent == 0.0
    assert Delivered(10.0, 450, 60.0).mbit_per_second is None
    assert Delivered(2.0, 1e6, 0.0).missing_percent is None
    assert Delivered(2.0, 1e6, 0.0).mbit_per_second == 4.0
