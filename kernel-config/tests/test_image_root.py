"""The definition of the vehicle's root: its files agree, and its scripts parse."""

import os
import subprocess
import sys
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


def test_what_etc_links_to_is_made_at_each_boot() -> None:
    """The names of nodes are kept behind one of the links, by a unit that may write there and nowhere else."""
    made = (FILES / "usr/lib/tmpfiles.d/vehicle.conf").read_text(encoding="ascii")
    found = {line.split()[1]: line.split()[6:] for line in made.splitlines() if line.startswith("f ")}
    assert set(found) == set(root.LINKS.values())
    assert not any((FILES / name).exists() for name in root.LINKS)
    assert found[root.LINKS["etc/hosts"]][:2] == ["127.0.0.1", "localhost"]
    drop_in = FILES / "usr/lib/systemd/system/meshsec-names.service.d/50-vehicle.conf"
    folder = root.LINKS["etc/hosts"].rpartition("/")[0]
    settings = drop_in.read_text(encoding="ascii").splitlines()
    assert {f"RequiresMountsFor={folder}", f"ReadWritePaths={folder}", "ConditionPathIsReadWrite="} <= set(settings)


def test_the_name_of_an_image_changes_with_every_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "REPOSITORY", tmp_path)
    programs = tmp_path / "build/bin"
    programs.mkdir(parents=True)
    (tmp_path / "daemon/meshsec").mkdir(parents=True)
    (tmp_path / "daemon/meshsec/__init__.py").write_text('__version__ = "1.2.3"\n', encoding="ascii")
    base = tmp_path / "base"
    base.touch()
    monkeypatch.setattr(build, "_INPUTS", ())
    keys = set()
    for content in ("one", "two"):
        for name in ("olsrv2d", "olsrv2-signer", "overlayd"):
            if content == "one":
                with pytest.raises(StepError, match="is missing"):
                    build._key(base, programs, None)
            (programs / name).write_text(content, encoding="ascii")
            if len(list(programs.iterdir())) == 3:
                keys.add(build._key(base, programs, None))
    assert len(keys) == 4


@pytest.mark.parametrize("script", sorted(LIBRARY.iterdir()), ids=lambda script: script.name)
def test_scripts_parse(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)


def test_every_unit_of_the_target_is_enabled() -> None:
    preset = (FILES / "usr/lib/systemd/system-preset/10-vehicle.preset").read_text(encoding="ascii").splitlines()
    target = (root.REPOSITORY / "daemon/systemd/meshsec.target").read_text(encoding="ascii")
    wanted = next(line for line in target.splitlines() if line.startswith("Wants=")).removeprefix("Wants=").split()
    assert {f"enable {unit}" for unit in wanted if unit != "meshsec-pluto.service"} <= set(preset)


def test_an_access_point_has_its_programs_and_its_units_are_enabled() -> None:
    assert {"hostapd", "dnsmasq-base", "wireless-regdb"} <= set(root.PACKAGES)
    preset = (FILES / "usr/lib/systemd/system-preset/10-vehicle.preset").read_text(encoding="ascii").splitlines()
    for name in ("meshsec-clients", "meshsec-dns-sd", "meshsec-dnsmasq", "meshsec-hostapd"):
        assert f"enable {name}.service" in preset
        assert (root.REPOSITORY / f"daemon/systemd/{name}.service").is_file()
    assert "enable hostapd.service" not in preset


@pytest.mark.parametrize(
    ("access", "written"),
    [("", False), ("[access]\nnetworks = []\n", False), ("[access]\nnetworks = ['10.130.0.0/16']\n", True)],
)
def test_what_clients_need_is_made_of_the_configuration(tmp_path: Path, access: str, *, written: bool) -> None:
    config, clients, store = tmp_path / "meshsec.toml", tmp_path / "dnsmasq.conf", tmp_path / "credstore"
    config.write_text(f"[node]\nname = 'a'\n[routing]\ninterfaces = ['mesh0']\n{access}", encoding="ascii")
    clients.write_text("of an earlier boot", encoding="ascii")
    functions = "".join(map(_function, ("says", "configure_access", "store")))
    given = 'given() { [ "$1" = access-password ] && echo "only the crew"; }\n'
    variables = f"CONFIG={config} CLIENTS={clients} STORE={store}\n"
    environment = {
        "MESHSEC_CONFIG": str(config),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    script = f"set -eu; umask 077\n{variables}{given}{functions}configure_access\n"
    subprocess.run(["sh", "-c", script], check=True, env=environment)
    assert clients.exists() is written
    assert (store / "meshsec.access-password").exists() is written
    if written:
        assert "dhcp-range=10.130.0.2" in clients.read_text(encoding="ascii")
        assert (clients.stat().st_mode & 0o777, (store / "meshsec.access-password").stat().st_mode & 0o777) == (
            0o644,
            0o600,
        )


def _function(name: str) -> str:
    script = (LIBRARY / "provision").read_text(encoding="ascii")
    return script[script.index(f"\n{name}() {{") :].partition("\n}\n")[0] + "\n}\n"


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
    told = subprocess.run(["sh", "-c", f'CONFIG="$0"; {_function("says")} says "$1"', str(config), asked], check=False)
    assert (told.returncode == 0) is answer
