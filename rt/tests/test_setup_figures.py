"""The pictures of bench-sa-setup: the paper's figures 8 and 9 with the place of its captions, and each on one page."""

from dataclasses import replace
from pathlib import Path

import pytest

from rt.measure import plot
from rt.measure.results import Cell, Result
from rt.sa_setup.figures import draw
from rt.sa_setup.plan import LOADS, NICE, PLACES, Wanted, cells
from tests.lab.basics.places import REPOSITORY

pytestmark = pytest.mark.thorough


def whole() -> list[Cell]:
    """Return a cell of each kind that a whole run has: the most that is drawn."""
    found = []
    for number, (key, _) in enumerate(cells(Wanted())):
        if key.part == "stream":
            found.append(Cell(key.of(what="frames missing"), "% of frames", [1.0 + number]))
            continue
        times = [5.0, 7.0 + number, 90.0]
        found.append(Cell(key.of(what="total", source="capture"), "ms", times))
        if key.place == "none":
            found.append(Cell(key.of(what="total beyond two round trips", source="capture"), "ms", times))
        elif key.load == "downloads":
            found.append(Cell(key.of(what="served"), "Mbit/s", [4000.0]))
        else:
            found.append(Cell(key.of(what="frames missing"), "%", [3.0]))
    return found


def _comments(drawn: str) -> list[str]:
    """Return the texts of a picture, line by line, which matplotlib writes as comments."""
    return [part.partition(" -->")[0] for part in drawn.split("<!-- ")[1:]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plot, "DIRECTORY", tmp_path)
    return tmp_path


def test_a_whole_run_is_drawn_on_pages_that_can_be_read(folder: Path) -> None:
    draw(Result("sa-setup", {"given_up_after_s": 30}, whole()))
    heights = {path.stem: int.from_bytes(path.read_bytes()[20:24], "big") for path in folder.glob("*.png")}
    assert {"sa-setup-figure-8-relay", "sa-setup-figure-9-receiver", "sa-setup-figure-9-receiver-on-demand"} < set(
        heights
    )
    assert {"sa-setup-profiles", "sa-setup-frames", "sa-setup-served", "sa-setup-idle"} < set(heights)
    assert {"sa-setup-suites", "sa-setup-loss", "sa-setup-streams"} < set(heights)
    assert {name: height for name, height in heights.items() if height > plot.TALLEST} == {}


@pytest.mark.parametrize(
    ("figure", "place", "other"), [("figure-8-relay", "relay", "receiver"), ("figure-9-receiver", "receiver", "relay")]
)
def test_each_of_the_papers_figures_has_the_load_where_its_caption_says(
    folder: Path, figure: str, place: str, other: str
) -> None:
    """Its captions: "the response time in the case when the relay node B has a load", and "the receiver C"."""
    draw(Result("sa-setup", {}, whole()))
    drawn = (folder / f"sa-setup-{figure}.svg").read_text(encoding="utf-8")
    comments = _comments(drawn)
    title = " ".join(comments)
    assert f"Figure {figure.split('-')[1]} of 2007" in title
    assert f"the {place} loaded" in title
    assert f"the {other} loaded" not in title
    for text in ("nice value of the load", "3DES, MODP-1536, IKE daemon at nice 10", "our suite, governed"):
        assert text in comments
    assert any(text.startswith("response time, s (log scale") for text in comments)
    assert "n = 3" in title


def test_set_ups_that_were_given_up_are_named_beside_the_figure(folder: Path) -> None:
    (cell,) = (
        one
        for one in whole()
        if one.key.get("nice") == -20
        and one.key["part"] == "priority"
        and (one.key["profile"], one.key["suite"], one.key["place"], one.key["load"], one.key["what"])
        == ("paper-2007", "paper-2007", "receiver", "saturating", "total")
    )
    draw(Result("sa-setup", {"given_up_after_s": 30}, [replace(cell, samples=[5.0, 3e4, 3e4], given_up=2)]))
    drawn = (folder / "sa-setup-figure-9-receiver.svg").read_text(encoding="utf-8")
    assert "given up after 30 s: what reaches this line took at least so long" in drawn
    assert "given up: 3DES, MODP-1536, IKE daemon at nice 10, -20: 2 of 3" in " ".join(_comments(drawn))
    draw(Result("sa-setup", {"given_up_after_s": 30}, [cell]))
    assert "given up" not in (folder / "sa-setup-figure-9-receiver.svg").read_text(encoding="utf-8")


def test_what_was_not_measured_is_not_drawn(folder: Path) -> None:
    draw(Result("sa-setup", {}, [one for one in whole() if one.key.get("place") == "relay"]))
    names = {path.stem for path in folder.glob("*.png")}
    assert "sa-setup-figure-8-relay" in names
    assert "sa-setup-figure-9-receiver" not in names


def test_the_plan_has_every_case_of_the_paper_with_its_suite_and_ours() -> None:
    keys = [key for key, _ in cells(Wanted())]
    assert len(keys) == len(set(keys))
    for suite in ("paper-2007", "ours"):
        for profile in ("paper-2007", "stock", "governor"):
            loaded = {
                (key.place, key.nice)
                for key in keys
                if key.part == "priority" and (key.profile, key.suite, key.load) == (profile, suite, "saturating")
            }
            assert loaded == {(place, nice) for place in PLACES for nice in NICE}
    assert {key.load for key in keys if key.place == "receiver" and key.part == "priority"} == set(LOADS)


def test_the_pictures_that_the_documents_show_can_be_read() -> None:
    pictures = [*(REPOSITORY / "docs").rglob("images/*.png"), *(REPOSITORY / "docs/papers").glob("*.png")]
    of_results = [path for path in pictures if not path.stem.startswith(("page", "map"))]
    heights = {str(path): int.from_bytes(path.read_bytes()[20:24], "big") for path in of_results}
    assert heights, "there is one at least"
    assert {path: height for path, height in heights.items() if height > plot.TALLEST} == {}
