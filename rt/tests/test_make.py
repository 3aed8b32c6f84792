"""Each benchmark has a target of make with the name that the documents use."""

import importlib.util
import os
import re
import subprocess

import pytest

from tests.lab.basics.places import REPOSITORY


def test_make_bench_names_every_benchmark_with_hyphens_and_finds_its_module() -> None:
    shown = subprocess.run(["make", "-n", "bench"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    modules = re.findall(r"-m (rt\.bench_\w+)", shown)
    assert len(modules) == len(list((REPOSITORY / "rt").glob("bench_*.py")))
    assert all(importlib.util.find_spec(module) for module in modules)


@pytest.mark.parametrize("name", ["sa-setup", "sa_setup"])
def test_the_target_of_the_documents_is_there(name: str) -> None:
    argv = ["make", "-n", f"bench-{name}"]
    shown = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert "-m rt.bench_sa_setup" in shown


def test_make_papers_draws_what_is_kept_and_measures_only_when_it_is_asked_to() -> None:
    argv = ["make", "-n", "papers"]
    for quick, verb, builds in (("", "draw", False), ("0", "draw", False), ("1", "measure", True)):
        environment = {**os.environ, "QUICK": quick}
        shown = subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout
        assert f"-m rt.papers {verb}" in shown
        assert ("cargo build" in shown) is builds
