"""Links and proofs in the documents exist, and prose for users fits a terminal."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*.md")])

_ADR = ROOT / "docs/development/adr"
PROSE = [page for page in PAGES if page.parent not in (_ADR, ROOT / "tests")]
COLUMNS = 100
"""Greatest length of a line of prose: longer ones are hard to read in a terminal and in a diff."""

_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PROOF = re.compile(r"\b(test_\w+\.py|[a-z_]+\.rs)\b")


def _anchors(page: Path) -> set[str]:
    """Return the headings as GitHub names them: lower case, without punctuation, hyphens for spaces."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(page.read_text()))
    return {heading.strip().replace(" ", "-") for heading in plain}


def _leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    file = page.parent / target if target else page
    return file.exists() and (not anchor or anchor in _anchors(file))


def _names(page: Path) -> set[str]:
    return set(_PROOF.findall(page.read_text()))


def _files() -> set[str]:
    places = ("tests", "daemon/tests", "daemon/crates", "daemon/fuzz/fuzz_targets", "rt")
    return {file.name for place in places for file in (ROOT / place).rglob("*.[pr][ys]")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_is_on_one_line(page: Path) -> None:
    assert not re.findall(r"\]\([^)\n]*\n[^)\n]*\)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_links_to_pages_that_are_there(page: Path) -> None:
    gone = [found for found in _LINK.findall(page.read_text()) if any(found) and not _leads_somewhere(page, *found)]
    assert not gone


def test_every_proof_that_a_page_names_is_there() -> None:
    files = _files()
    gone = {str(page.relative_to(ROOT)): names for page in PAGES if (names := _names(page) - files)}
    assert not gone


def _wide(text: str) -> list[str]:
    """Return the lines that are too long; those of tables and code blocks may be."""
    return [line for line in _CODE.sub("", text).splitlines() if len(line) > COLUMNS and not line.startswith("|")]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_for_users_fits_a_terminal(page: Path) -> None:
    assert not _wide(page.read_text())


def test_only_prose_is_measured() -> None:
    long = "word " * COLUMNS
    assert not _wide(f"short\n| {long} |\n```\n{long}\n```\n")
    assert _wide(f"```\nshort\n```\n{long}\n") == [long]
