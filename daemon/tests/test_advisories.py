"""tools/advisories: which exceptions it takes."""

import datetime
import tomllib
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = run_path(str(ROOT / "tools/advisories"))
TODAY = datetime.date(2026, 12, 1)
ENTRY = '[[ignore]]\nid = "GHSA-1"\nreason = "Not called."\nuntil = 2026-12-31\n'


def test_an_exception_holds_to_its_last_day() -> None:
    assert TOOL["exceptions"](ENTRY, TODAY) == {"GHSA-1": "Not called."}
    assert TOOL["exceptions"](ENTRY, datetime.date(2026, 12, 31)) == {"GHSA-1": "Not called."}
    assert TOOL["exceptions"]("# none\n", TODAY) == {}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('reason = "Not called."', "", "GHSA-1: reason is missing or empty"),
        ('"Not called."', '""', "GHSA-1: reason is missing or empty"),
        ("until = 2026-12-31", "", "GHSA-1: until is missing or empty"),
        ("2026-12-31", '"2026-12-31"', "GHSA-1: until is missing or empty"),
        ('id = "GHSA-1"', "", "an entry without id: id is missing or empty"),
        ("until", "why = 1\nuntil", "GHSA-1: unknown key why; an entry has id, reason, until"),
        ("2026-12-31", "2026-11-30", "GHSA-1: it held until 2026-11-30"),
        ("2026-12-31", "2027-06-04", "GHSA-1: until 2027-06-04 is more than 184 days ahead"),
    ],
)
def test_an_exception_without_reason_or_end_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(TOOL["ExceptionsError"], match=said):
        TOOL["exceptions"](ENTRY.replace(old, new, 1), TODAY)


def test_the_list_of_the_repository_has_the_form() -> None:
    """Dates that have passed are found by `make advisories`, not by an unrelated change's tests."""
    text = (ROOT / "tools/advisories.toml").read_text(encoding="utf-8")
    ends = [entry["until"] for entry in tomllib.loads(text).get("ignore", [])]
    TOOL["exceptions"](text, min(ends, default=TODAY))


def test_an_unknown_database_is_named() -> None:
    with pytest.raises(SystemExit, match="unknown: ruby; allowed are rust, python, page"):
        TOOL["main"](["ruby"])
