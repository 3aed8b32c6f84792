"""``check`` judges a configuration before anything uses it."""

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Meshsec = Callable[..., Result]


def test_a_good_configuration_passes(meshsec: Meshsec, tmp_path: Path) -> None:
    result = meshsec("check")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'a/meshsec.toml'}: nothing is wrong\n")


def test_each_problem_has_a_line_with_file_and_field(meshsec: Meshsec, tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.toml"
    candidate.write_text('[node]\nname = "X y"\n[routing]\ninterfaces = ["mesh0"]\ndemon = 3\n')
    result = meshsec("check", str(candidate))
    assert result.exit_code == 1
    assert f"{candidate}:2: node.name: 'X y'" in result.stderr
    assert f"{candidate}:5: routing.demon" in result.stderr


def test_a_profile_that_does_not_exist_is_a_problem(meshsec: Meshsec, tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.toml"
    candidate.write_text('[node]\nname = "a"\n[routing]\ninterfaces = ["mesh0"]\n[policy]\nprofile = "none-such"\n')
    result = meshsec("check", str(candidate))
    assert result.exit_code == 1
    assert "none-such" in result.stderr
