"""One-way times are given with their error, or not at all."""

import json
from pathlib import Path

import pytest

from meshsec.core.explain.clock import UnboundedError, parse
from rt.measure.one_way import main, one_way

A, B, C = "fc00::a", "fc00::b", "fc00::c"
OWN = "7F7F0101,,10,1763860000.1,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,Normal"
LOST = "00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised"


def following(source: str, *, reference: str = "1A2B3C4D", error: float = 0.001) -> str:
    return f"{reference},{source},11,1763860000.1,-0.0,0.0,0.0,0.0,0.0,0.0,{error},{error / 2},1.0,Normal"


CLOCKS = {node: parse(line) for node, line in {A: OWN, B: following(A), C: following(A)}.items()}
LATER = {**CLOCKS, C: parse(following(A, error=0.002))}
SAMPLES = [(100.0, 100.005), (101.0, 101.0005)]


def test_times_have_the_greater_of_the_errors_before_and_after() -> None:
    found = one_way((B, C), SAMPLES, CLOCKS, LATER)
    assert found.error == pytest.approx(0.001 + 0.002)
    assert found.times == pytest.approx([0.005, 0.0005])
    cell = found.cell({"from": B, "to": C})
    assert (cell.unit, cell.key["error_ms"]) == ("ms", pytest.approx(3.0))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({C: LOST}, f"the clock of {C} is not synchronised"),
        ({A: LOST}, f"the clock of {A} is not synchronised"),
        ({C: OWN}, f"{B} has its time from {A}, {C} from {C}"),
        ({C: following("fc00::d")}, "nothing is known of the clock of fc00::d"),
        ({C: following(A, error=1.1)}, "may be off by 1.1 s, more than 1 s"),
        ({C: following(A, reference="0BADCAFE")}, f"the clock of {C} changed its source"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True], ids=["after", "before"])
def test_without_a_bound_there_are_no_times(changed: dict[str, str], why: str, swapped: bool) -> None:
    clocks = {**CLOCKS, **{node: parse(line) for node, line in changed.items()}}
    pair = (clocks, CLOCKS) if swapped else (CLOCKS, clocks)
    with pytest.raises(UnboundedError) as refused:
        one_way((B, C), SAMPLES, *pair)
    assert why in str(refused.value)


def test_a_bound_that_the_samples_refute_is_refused() -> None:
    with pytest.raises(UnboundedError, match="before it was sent"):
        one_way((B, C), [(100.0, 99.99)], CLOCKS, CLOCKS)
    assert one_way((B, C), [(100.0, 99.999)], CLOCKS, CLOCKS).times  # less than the clocks may be apart


def test_the_program_prints_times_or_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = {A: OWN, B: following(A), C: following(A)}
    document = {"from": B, "to": C, "before": lines, "after": lines, "samples": SAMPLES}
    path = tmp_path / "times.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["median"] == pytest.approx(2.75)
    path.write_text(json.dumps({**document, "after": {**lines, C: LOST}}), encoding="utf-8")
    assert main([str(path)]) == 1
    assert "no one-way times: the clock of fc00::c is not synchronised" in capsys.readouterr().err
    path.write_text(json.dumps({**document, "before": {**lines, C: "nonsense"}}), encoding="utf-8")
    assert main([str(path)]) == 2
