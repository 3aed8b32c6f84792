"""bench-air: the places that it runs, and what its program says of them."""

import subprocess
from pathlib import Path

import pytest

from rt import bench_air
from rt.measure.results import Cell

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def program() -> Path:
    return bench_air.built()


def test_each_place_has_a_key_of_its_own_and_arguments_that_the_program_takes(program: Path) -> None:
    places = bench_air.places()
    assert len({tuple(key.items()) for key, _ in places}) == len(places)
    for key, arguments in places:
        argv = [str(program), *arguments, "--seconds", "0.05"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{key}: {done.stderr}"


def test_the_same_seed_gives_the_same_run_and_another_one_another(program: Path) -> None:
    arguments = ["line", "--hops", "3", "--senses", "1"]
    first = bench_air.run(program, 0, arguments)
    assert first == bench_air.run(program, 0, arguments)
    assert first["mbit_s"] != bench_air.run(program, 1, arguments)["mbit_s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["line", "--rate", "7"], "--rate 7 is refused; allowed: 1, 2, 5.5, 11"),
        (["line", "--phy", "ac"], "--phy ac is refused; allowed: b, g, a"),
        (["line", "--seconds", "0"], "--seconds 0 is refused; allowed: more than 0"),
        (["line", "--hops", "0"], "0 is not in 1..=250"),
    ],
)
def test_what_cannot_be_run_is_refused(program: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr


def test_lines_of_a_legend_hold_the_samples_of_their_place_alone() -> None:
    cells = [
        Cell({"place": bench_air.LINE, "what": "a", "at": 2}, "Mbit/s", [9.0, 9.1]),
        Cell({"place": bench_air.HIDDEN, "what": "a", "at": 2}, "Mbit/s", [1.0]),
    ]
    assert bench_air.series(cells, bench_air.LINE) == {"a": {2: [9.0, 9.1]}}
