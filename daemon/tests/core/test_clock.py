"""Reading chronyd's answers, doctor's verdict on the clock, and how far two clocks may be apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.explain.clock import UnboundedError, apart, judged, parse
from meshsec.core.explain.findings import Level

# Recorded from chrony 4.3: a client of a master in orphan mode, that master, and a node that reaches nobody.
CLIENT = (
    "1F2D0B4C,fc00::a,11,1795398000.123456789,-0.000004321,0.000001,0.000002,0.000,0.000,1.500,"
    "0.000200000,0.000300000,1.0,Normal"
)
OWN = "7F7F0101,,10,1795398000.1,0.000000000,0.0,0.0,0.0,0.0,0.0,0.000000000,0.000000000,0.0,Normal"
LOST = "00000000,,0,0.000000000,0.0,0.0,0.0,0.0,0.0,0.0,1.000000000,1.000000000,0.0,Not synchronised"
RECEIVER = "47505330,GPS0,1,1795398000.1,0.0,0.0,0.0,0.0,0.0,0.0,0.000000001,0.000010000,16.0,Normal"


def test_the_error_is_offset_dispersion_and_half_the_round_trip() -> None:
    found = parse(CLIENT + "\n")
    assert (found.source, found.stratum, found.synchronised, found.is_own) == ("fc00::a", 11, True, False)
    assert found.error == pytest.approx(0.000004321 + 0.0003 + 0.0001)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "506 Cannot talk to daemon",
        CLIENT.replace("Normal", "Maybe"),
        CLIENT.replace("0.000300000", "nan"),
        CLIENT.replace("0.000300000", "-1"),
        CLIENT.replace(",11,", ",x,"),
        CLIENT + ",more",
    ],
)
def test_a_malformed_answer_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(line)


@given(st.text())
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    try:
        assert parse(text).error >= 0
    except ValueError as error:
        assert str(error)  # noqa: PT017 - most texts are refused


@pytest.mark.parametrize(
    ("line", "level", "found"),
    [
        (CLIENT, Level.OK, "by fc00::a, stratum 11; offset -4.321 us, error at most 404.321 us"),
        (OWN, Level.OK, "this node's own clock, which others follow, stratum 10;"),
        (RECEIVER, Level.OK, "by GPS0, stratum 1;"),
        (LOST, Level.WARN, "not synchronised"),
        (CLIENT.replace("0.000300000", "1.5"), Level.WARN, "error at most 1.500 s"),
    ],
)
def test_doctor_reports_source_stratum_and_error(line: str, level: Level, found: str) -> None:
    check = judged(parse(line))
    assert (check.name, check.level) == ("time", level)
    assert found in check.found
    assert bool(check.fix) == (level is not Level.OK)


def test_clocks_with_the_same_root_are_apart_by_at_most_both_errors() -> None:
    by_b = CLIENT.replace("fc00::a", "fc00::b")
    clocks = {name: parse(line) for name, line in {"fc00::a": OWN, "fc00::b": CLIENT, "fc00::c": by_b}.items()}
    error = clocks["fc00::b"].error
    assert apart("fc00::b", "fc00::c", clocks) == pytest.approx(2 * error)
    assert apart("fc00::a", "fc00::c", clocks) == pytest.approx(error)
    assert apart("fc00::c", "fc00::c", clocks) == 0
    receivers = {"fc00::a": parse(RECEIVER), "fc00::b": parse(CLIENT), "fc00::d": parse(RECEIVER)}
    assert apart("fc00::b", "fc00::d", receivers) > 0


def test_clocks_that_follow_each_other_in_a_circle_have_no_root() -> None:
    clocks = {"fc00::a": parse(CLIENT.replace("fc00::a", "fc00::b")), "fc00::b": parse(CLIENT)}
    with pytest.raises(UnboundedError, match="follows itself"):
        apart("fc00::a", "fc00::b", clocks)
