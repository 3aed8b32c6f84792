"""A result that was measured in a guest says what the guest was, and none without that is kept."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rt.measure import in_guest
from rt.measure.results import MeasurementError, Result
from rt.papers import form, kept, page
from rt.papers.form import Entry, Made, Selector, Value, Work
from rt.papers.kept import KeptError, Results

BEFORE = {"sa-setup-guest"}
"""Kept before guests were asked. Whoever measures it again takes it out."""
GUEST = {"kernel": "6.12.118+deb13-amd64", "system": "Debian GNU/Linux 13 (trixie)", "strongswan": "6.0.1-6"}


def test_every_kept_result_of_a_guest_says_what_the_guest_was() -> None:
    of_guests = {name for name, made in form.results().items() if made.guest}
    silent = {name for name in of_guests if (result := Results.kept().get(name)) and not result.get("guest")}
    assert silent == BEFORE
    assert all(form.results()[name].guest_then for name in silent), "what the guest was then is said in words"


def test_the_guest_is_asked_in_the_guest(tmp_path: Path) -> None:
    """This machine stands in for one: it has the same programs."""
    command = in_guest.asking("base-files").replace("/results/", f"{tmp_path}/")
    subprocess.run(["sh", "-c", command], check=False)
    found = in_guest.asked(tmp_path)
    assert found["kernel"]
    assert found["system"].startswith("Debian")
    assert found["base-files"]


@pytest.mark.parametrize("text", ["", "kernel 6.12\n", "kernel \nsystem Debian\n"])
def test_a_guest_that_does_not_say_what_it_is_gives_no_measurement(tmp_path: Path, text: str) -> None:
    (tmp_path / "versions").write_text(text, encoding="utf-8")
    with pytest.raises(MeasurementError, match="is missing"):
        in_guest.asked(tmp_path)
    assert in_guest.left(tmp_path / "nothing") == {}


def test_several_guests_of_one_result_are_all_named() -> None:
    rt = {**GUEST, "kernel": "6.12.118+deb13-rt-amd64"}
    assert in_guest.merged([rt, GUEST, rt]) == {**GUEST, "kernel": "6.12.118+deb13-rt-amd64 and 6.12.118+deb13-amd64"}


def result(**more: Any) -> dict[str, Any]:
    """Return a result with one cell."""
    cells = [{"key": {"what": "v"}, "unit": "ms", "samples": [1.0]}]
    machine = {"cpu": "c", "cores": 2, "kernel": "6.18", "system": "Debian 12"}
    versions = {"meshsec": "0.1.0", "strongswan": "5.9.8"}
    common = {"schema": 1, "machine": machine, "versions": versions, "params": {"quick": False}}
    return {**common, "cells": cells, "peers": {}, **more}


@pytest.mark.parametrize("guest", [{}, {"kernel": "6.12"}, {"kernel": "", "system": "Debian 13"}])
def test_a_result_that_does_not_say_it_is_not_kept(tmp_path: Path, guest: dict[str, str]) -> None:
    path = tmp_path / "congestion.json"
    path.write_text(json.dumps(result(guest=guest)), encoding="utf-8")
    with pytest.raises(KeptError, match=r"guest: .* is missing"):
        kept.keep(path, tmp_path / "kept")
    path.write_text(json.dumps(result(guest=GUEST)), encoding="utf-8")
    assert kept.keep(path, tmp_path / "kept").exists()


def shown(tmp_path: Path, made: Made, **more: Any) -> str:
    """Return the row of a result on the page."""
    (tmp_path / "x.json").write_text(json.dumps(result(**more)), encoding="utf-8")
    value = Value("v", 1, "s", ours=Selector("x", {}, "ms"))
    work = Work("A 2000", "A.", "B.", (Entry("figure", "1", "T", "s", "It shows.", value=(value,)),))
    page.write({"w": work}, {"x": made}, Results.measured(tmp_path), tmp_path)
    (row,) = (line for line in (tmp_path / "papers.md").read_text(encoding="utf-8").splitlines() if "x.json" in line)
    return row


def test_the_page_shows_the_guests_versions_and_not_the_hosts(tmp_path: Path) -> None:
    row = shown(tmp_path, Made("make bench-x", 1, guest=True), guest=GUEST)
    assert "a guest: Linux 6.12.118+deb13-amd64, Debian GNU/Linux 13 (trixie). The host around it: c, 2 cores" in row
    assert "| meshsec 0.1.0, strongswan 6.0.1-6 |" in row
    before = shown(tmp_path, Made("make bench-x", 1, guest=True, guest_then="Debian 13, not asked."))
    assert "a guest: Debian 13, not asked. The host around it: c" in before
    assert "5.9.8" not in before
    partly = shown(tmp_path, Made("make bench-x", 1), guest=GUEST)
    assert "strongswan 5.9.8, in a guest kernel 6.12.118+deb13-amd64" in partly


def test_a_result_has_the_guest_beside_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rt.measure.results.DIRECTORY", tmp_path)
    for guest in ({}, GUEST):
        written = json.loads(Result("x", {}, guest=guest).write().read_text(encoding="utf-8"))
        assert written.get("guest", {}) == guest
