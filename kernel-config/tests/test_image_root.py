"""The definition of the vehicle's root: its files agree, and its scripts parse."""

import subprocess
from pathlib import Path

import pytest

from image import __main__ as build
from image import root
from image.shell import StepError

FILES = root.HERE / "files"
LIBRARY = FILES / "usr/lib/meshsec-image"
PROVISION = FILES / "usr/lib/systemd/system/meshsec-provision.service"


def test_a_bind_mount_has_its_folder_and_comes_before_its_writers() -> None:
    lines = [line.split() for line in (FILES / "etc/fstab").read_text(encoding="ascii").splitlines()]
    bound = {target for _, target, _, options, *_ in (line for line in lines if len(line) == 6) if options == "bind"}
    assert bound == {"/etc/meshsec", "/etc/olsrv2d", "/etc/overlayd"}
    assert bound <= {f"/{folder}" for folder in root.MOUNTED}
    unit = dict(line.split("=", 1) for line in PROVISION.read_text(encoding="ascii").splitlines() if "=" in line)
    for setting in ("RequiresMountsFor", "ReadWritePaths"):
        assert bound <= set(unit[setting].split()), setting


def test_the_name_of_an_image_changes_with_every_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "REPOSITORY", tmp_path)
    programs = tmp_path / "build/bin"
    programs.mkdir(parents=True)
    base = tmp_path / "base"
    base.touch()
    monkeypatch.setattr(build, "_INPUTS", ())
    keys = set()
    for content in ("one", "two"):
        for name in ("olsrv2d", "overlayd"):
            if content == "one":
                with pytest.raises(StepError, match="is missing"):
                    build._key(base)
            (programs / name).write_text(content, encoding="ascii")
            if len(list(programs.iterdir())) == 2:
                keys.add(build._key(base))
    assert len(keys) == 3


@pytest.mark.parametrize("script", sorted(LIBRARY.iterdir()), ids=lambda script: script.name)
def test_scripts_parse(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("text", "asked", "answer"),
    [
        ("[radio]\n", "radio", True),
        ("", "radio", False),
        ("[overlay]\nenabled = true\n", "overlay.enabled", True),
        ("[overlay]\nenabled = false\n", "overlay.enabled", False),
        ("[overlay]\n", "overlay.enabled", False),
        ("", "overlay.enabled", False),
    ],
)
def test_provision_understands_the_configuration(tmp_path: Path, text: str, asked: str, *, answer: bool) -> None:
    config = tmp_path / "meshsec.toml"
    config.write_text(text, encoding="ascii")
    script = (LIBRARY / "provision").read_text(encoding="ascii")
    function = script[script.index("says() {") :].partition("\n}\n")[0] + "\n}\n"
    told = subprocess.run(["sh", "-c", f'CONFIG="$0"; {function} says "$1"', str(config), asked], check=False)
    assert (told.returncode == 0) is answer
