"""What doctor says of refused messages: in whose name they were, and who passed them on."""

from types import SimpleNamespace
from typing import cast

from meshsec.core.explain.findings import Check, Facts
from meshsec.core.explain.input_doctor import refusals
from meshsec.core.values.refusals import Refusal, Source


def judged(refusal: Refusal) -> Check:
    """Return what doctor says of the refusal alone."""
    (check,) = refusals(cast("Facts", SimpleNamespace(refusals=[refusal])))
    return check


def test_the_originator_of_unsigned_messages_is_named_beside_the_relay_that_is_not_at_fault() -> None:
    claims = (Source("mesh-m", "fe80::9", 5, "fd00::7"), Source("mesh-m", "fe80::9", 2, "fd00::8"))
    check = judged(Refusal("not_signed", 7, (Source("mesh-m", "fe80::9", 7),), 0, claims))
    assert check.found == (
        "7 messages were not signed and were ignored in the last two minutes; most came from fe80::9 on mesh-m (7); "
        "most are in the name of fd00::7 (through fe80::9 on mesh-m: 5), fd00::8 (through fe80::9 on mesh-m: 2)"
    )
    assert "the routers in whose name they are do not sign" in check.fix
    assert "Who only passed the messages on is not at fault" in check.fix


def test_of_many_claims_three_are_named() -> None:
    claims = tuple(Source("mesh-m", "fe80::9", 9 - n, f"fd00::{n}") for n in range(1, 6))
    check = judged(Refusal("forged", 30, (Source("mesh-m", "fe80::9", 30),), 0, claims))
    assert check.found.endswith("fd00::3 (through fe80::9 on mesh-m: 6)")
    assert "fd00::4" not in check.found
