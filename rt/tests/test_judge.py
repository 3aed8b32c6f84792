"""A claim of more or of less needs intervals that do not overlap."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from rt.papers import judge
from rt.papers.form import Claim, Entry, Selector, Value
from rt.papers.kept import Results

SLOW, FAST, LIKE_FAST = [30.0, 31, 32, 33, 34, 35, 36], [10.0, 11, 12, 13, 14, 15, 16], [12.0, 13, 14, 15, 16, 17, 18]


def failures(tmp_path: Path, claim: Claim, *, unit: str = "ms") -> list[str]:
    """Return what is said against a claim about three cells: slow, fast, and one whose interval overlaps with it."""
    cells = [
        {"key": {"of": name}, "unit": unit, "samples": samples}
        for name, samples in (("slow", SLOW), ("fast", FAST), ("like", LIKE_FAST), ("ones", [0.9, 1.0, 1.3]))
    ]
    result = {"schema": 1, "params": {}, "cells": cells}
    (tmp_path / "x.json").write_text(json.dumps(result), encoding="utf-8")
    named = [Value(name, "-", "s", name=name, ours=Selector("x", {"of": name}, unit)) for name in ("slow", "fast")]
    named += [Value("like", "-", "s", name="like", ours=Selector("x", {"of": "like"}, unit))]
    named += [Value("ones", "-", "s", name="ones", ours=Selector("x", {"of": "ones"}, unit))]
    for name, of, over in (("slow_over_fast", "slow", "fast"), ("like_over_fast", "like", "fast")):
        named.append(Value(name, "-", "s", name=name, ours=Selector("x", {"of": of}, unit, over={"of": over})))
    named.append(
        Value("d", "-", "s", name="like_less_fast", ours=Selector("x", {"of": "like"}, unit, less={"of": "fast"}))
    )
    entry = Entry("figure", "1", "T", "s", "It shows.", value=tuple(named), claim=(claim,))
    return list(judge.failed(entry, Results.measured(tmp_path)))


@pytest.mark.parametrize(
    "claim",
    [
        Claim("slow", "fast", at_least=2),
        Claim("fast", "slow", at_most=0.5),
        Claim("slow_over_fast", at_least=1),
        Claim("like", "fast", same=True),
        Claim("like_over_fast", same=True),
        Claim("like_less_fast", same=True),
        # A bound that says neither more nor less is one of medians.
        Claim("like", "fast", at_most=1.5),
        Claim("like_over_fast", at_least=0.5),
        Claim("like", at_least=10),
    ],
)
def test_a_claim_that_medians_and_intervals_support_holds(tmp_path: Path, claim: Claim) -> None:
    assert failures(tmp_path, claim) == []


@pytest.mark.parametrize(
    "claim",
    [
        Claim("like", "fast", at_least=1),
        Claim("fast", "like", at_most=1),
        Claim("like_over_fast", at_least=1.1),
        Claim("like_less_fast", at_least=0),
    ],
)
def test_medians_alone_do_not_support_more_or_less(tmp_path: Path, claim: Claim) -> None:
    (found,) = failures(tmp_path, claim)
    assert found.endswith("its intervals overlap: there is no difference beyond the interval")


def test_a_quotient_of_each_round_is_compared_with_one(tmp_path: Path) -> None:
    (found,) = failures(tmp_path, Claim("ones", at_least=1), unit="times")
    assert "no difference beyond the interval" in found
    assert failures(tmp_path, Claim("ones", same=True), unit="times") == []


def test_a_difference_is_not_the_same(tmp_path: Path) -> None:
    assert failures(tmp_path, Claim("slow", "fast", same=True)) == [
        "slow / fast is 2.54, and its intervals do not overlap: there is a difference"
    ]
    assert failures(tmp_path, Claim("slow", same=True)) == ["slow is 33, and it compares nothing, so it is not `same`"]


def test_a_claim_that_claims_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="claims nothing"):
        Claim("slow", "fast")
    assert structs.replace(Claim("slow", "fast", at_least=1), at_least=None, same=True).same
