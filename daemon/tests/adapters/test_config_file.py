"""Reading ``meshsec.toml``: recorded refusals, the lines they name, and profiles."""

import shutil
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from meshsec.adapters.files import config_file
from meshsec.adapters.files.config_file import ConfigError
from meshsec.core.scheduling.profiles import SchedulingClass

VECTORS = Path(__file__).parents[3] / "tests/vectors/config"
REFUSED = sorted((VECTORS / "refused").glob("*.toml"))
ACCEPTED = sorted((VECTORS / "accepted").glob("*.toml"))
MINIMAL = (VECTORS / "accepted/minimal.toml").read_text()


def refusal(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_file.load(path)
    assert all(line.startswith(f"{path}:") for line in caught.value.lines)
    return [line.removeprefix(f"{path}:") for line in caught.value.lines]


PAPER = Path(__file__).parents[3] / "policies/lab/paper-2007.toml"


@pytest.mark.parametrize("environment", [None, "", "1", "yes"])
def test_the_algorithms_of_2007_are_refused_outside_of_the_lab(
    environment: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(config_file.LAB, raising=False)
    if environment is not None:
        monkeypatch.setenv(config_file.LAB, environment)
    with pytest.raises(config_file.ConfigError) as caught:
        config_file.load_policy(PAPER)
    assert len(caught.value.lines) == 2
    for line, number, field in zip(caught.value.lines, (6, 7), ("ike", "esp"), strict=True):
        assert line.startswith(f"{PAPER}:{number}: {field}_proposals.0: '3des-sha1-modp1536' is not allowed; allowed: ")
    assert PAPER.stem not in config_file.policies(tmp_path / "meshsec.toml")


def test_in_the_lab_the_algorithms_of_2007_can_be_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(config_file.LAB, config_file.IN_LAB)
    assert config_file.policies(tmp_path / "meshsec.toml")[PAPER.stem] == PAPER
    assert config_file.load_policy(PAPER).ike_proposals == ("3des-sha1-modp1536",)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.stem)
def test_a_recorded_bad_file_is_refused_with_the_recorded_message(case: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(case, tmp_path / "meshsec.toml"))
    assert refusal(path) == case.with_suffix(".txt").read_text().splitlines()


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.stem)
def test_a_recorded_good_file_is_accepted(case: Path) -> None:
    assert config_file.load(case).node.name


def test_the_folder_of_recorded_cases_is_not_empty() -> None:
    assert len(REFUSED) > 10
    assert len(ACCEPTED) > 1


def test_relative_paths_start_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meshsec.toml").write_text(MINIMAL + '[paths]\npeers = "peers"\n')
    monkeypatch.chdir(tmp_path)
    assert config_file.load(Path("meshsec.toml")).paths.peers == str(tmp_path / "peers")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    assert refusal(path) == [f" there is no configuration; `meshsec --config {path} init` makes one"]
    path.mkdir()
    assert refusal(path) == [" Is a directory"]


def test_a_file_that_is_too_long_or_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    path.write_bytes(b"#" * 65537)
    assert refusal(path) == [" is longer than 65536 octets"]
    with pytest.raises(ConfigError, match="/dev/zero: is no regular file"):
        config_file.load(Path("/dev/zero"))


def test_a_profile_beside_the_file_is_found_and_comes_first(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/default.toml").write_text("hold_time = 11\n")
    (tmp_path / "policies/patient.toml").write_text("hold_time = 12\n")
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL)
    assert config_file.load(path).policy.hold_time == 11
    path.write_text(MINIMAL + '[policy]\nprofile = "patient"\n')
    settings = config_file.load(path)
    assert (settings.profile, settings.policy.hold_time) == ("patient", 12)


def test_an_unknown_profile_is_refused_with_a_list_of_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/patient.toml").touch()
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL + '[policy]\nprofile = "patent"\n')
    (line,) = refusal(path)
    assert line.startswith("7: policy.profile: 'patent' is not allowed; allowed: ")
    assert "default" in line
    assert "patient" in line


def test_a_bad_profile_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    profile = tmp_path / "policies/strict.toml"
    profile.write_text("# strict\nhold_time = -1\nconcurrency = 0\n")
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL + '[policy]\nprofile = "strict"\n')
    with pytest.raises(ConfigError) as caught:
        config_file.load(path)
    first, second = caught.value.lines
    assert first.startswith(f"{profile}:2: hold_time: -1 is not allowed; allowed: ")
    assert second.startswith(f"{profile}:3: concurrency: 0 is not allowed; allowed: ")


def test_scheduling_profiles_are_found_in_the_source_tree_and_beside_the_file_first(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL + '[scheduling]\nprofile = "nice"\n')
    assert config_file.load(path).scheduling.profile.class_of("charon") == SchedulingClass(nice=-15)
    (tmp_path / "scheduling").mkdir()
    (tmp_path / "scheduling/nice.toml").write_text('description = "mine"\n[charon]\nnice = -1\n')
    assert config_file.load(path).scheduling.profile.class_of("charon") == SchedulingClass(nice=-1)


def test_the_governor_is_in_force_when_the_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL)
    assert config_file.load(path).scheduling.profile.name == "governor"
    assert config_file.load(path).scheduling.profile.governed


def test_a_bad_scheduling_profile_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "scheduling").mkdir()
    profile = tmp_path / "scheduling/mine.toml"
    profile.write_text('description = "mine"\n[charon]\npolicy = "rr"\npriority = 50\n[[ladder]]\nnice = -30\n')
    path = tmp_path / "meshsec.toml"
    path.write_text(MINIMAL + '[scheduling]\nprofile = "mine"\n')
    with pytest.raises(ConfigError) as caught:
        config_file.load(path)
    assert caught.value.lines[0] == f"{profile}:4: charon.priority: 50 is not allowed; allowed: a whole number, 1 to 49"
    assert f"{profile}:6: ladder.0.nice: -30 is not allowed; allowed: a whole number, -20 to 19" in caught.value.lines


def test_a_first_configuration_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    config_file.create(path, "boat", ("mesh0", "mesh1"), IPv4Address("10.77.0.2"))
    settings = config_file.load(path)
    assert (settings.node.name, settings.node.ipv4) == ("boat", IPv4Address("10.77.0.2"))
    assert settings.routing.interfaces == ("mesh0", "mesh1")


def test_a_configuration_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "meshsec.toml"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="File exists; nothing was changed"):
        config_file.create(path, "boat", ("mesh0",), None)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(("name", "interface"), [("Boat", "mesh0"), ("boat", "a b")])
def test_a_first_configuration_that_would_be_refused_is_not_written(name: str, interface: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not allowed; allowed: "):
        config_file.create(tmp_path / "meshsec.toml", name, (interface,), None)
    assert list(tmp_path.iterdir()) == []
