"""What bench-ccm reads back, and what it says of it."""

import pytest

from rt import bench_ccm
from rt.ccm import kernel, paper, programs
from rt.measure.results import Cell

pytestmark = pytest.mark.thorough


def test_the_paper_is_quoted_with_its_figures() -> None:
    assert {row.figure for row in paper.ROWS} == {13, 14, 15, 16}
    assert paper.curve("bare", "sending, sealed") == {50: [11.5, 24], 1000: [66.5, 79.75]}
    assert all(row.shortest < row.longest for row in paper.ROWS)


def test_half_a_line_of_a_machine_that_was_ended_is_left_out() -> None:
    assert programs.parsed('SeaBIOS\n{"cycles": 1}\n{"cyc') == [{"cycles": 1}]


def test_ratios_compare_the_samples_of_one_round_with_ours() -> None:
    def cell(by: str, samples: list[float], where: str = "here") -> Cell:
        return Cell({"where": where, "what": "encryption", "by": by, "octets": 50}, "ns", samples)

    cells = [cell(bench_ccm.OURS, [100, 200]), cell("other", [300, 400]), cell("other", [1, 1], where="elsewhere")]
    (ratio,) = bench_ccm.ratios(cells)
    assert (ratio["min"], ratio["max"]) == (2, 3)
    assert ratio["key"] == dict(cells[1].key)


def test_the_kernel_makes_packet_vector_1_or_is_said_to_lack_ccm() -> None:
    lacks = kernel.obstacle()
    if lacks:
        assert lacks.startswith("this kernel gives no ccm(aes) by AF_ALG: ")
        pytest.skip(lacks)
    assert kernel.nanoseconds(50).keys() == {"encryption", "decryption"}


def test_the_bare_machine_makes_packet_vector_1_and_ends() -> None:
    if lacks := programs.bare_obstacle():
        pytest.skip(lacks)
    for soft in (False, True):
        lines = programs.lines_on_bare_machine(soft=soft)
        assert [line["octets"] for line in lines if line["what"] == "encryption"] == list(bench_ccm.SIZES)
        assert all(line["cycles"] > 0 for line in lines)
