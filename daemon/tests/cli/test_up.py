"""``meshsec up``. Only systemd is played: programs that write down their calls, and a server in meshsecd's place.

A booted machine shows the whole (tests/fleet/test_up.py).
"""

import asyncio
import json
import os
import stat
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters import systemd
from meshsec.adapters.files import credential, key_store
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.kernel import interfaces as kernel
from meshsec.adapters.kernel.interfaces import Interface
from meshsec.adapters.sockets.control import ControlServer
from meshsec.cli import applied, export, main, setup, up_answers
from meshsec.cli import fleet_options as shown
from meshsec.cli import up as command
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet, fleet_text
from meshsec.core.trust.identity import make_card, raw_public_key
from namespaces import ip, new_namespace

RADIO = Interface("wlan1", wireless=True, has_default_route=False, up=False)
CABLE = Interface("eth1", wireless=False, has_default_route=False, up=True)
OUTWARD = Interface("eth0", wireless=False, has_default_route=True, up=True)
PRESENT = [OUTWARD, CABLE, RADIO]
BY_CABLE = ("--name", "alpha", "--interface", "eth1")
SYSTEMCTL = """\
echo "systemctl $*" >>$CALLS
case $1 in
show)
    if [ ${2#--property=Id,} != $2 ]; then
        shift 2
        for unit in "$@"; do
            grep -qx "$unit" $STATE && known='active enabled' || known='inactive disabled'
            printf 'Id=%s\\nLoadState=loaded\\nActiveState=%s\\nUnitFileState=%s\\n\\n' $unit $known
        done
        exit
    fi
    if [ $2 = --property=LoadState ]; then grep -qx "masked $4" $STATE && echo masked || echo loaded; exit; fi
    case $2 in *UnitFileState) known=enabled ;; *) known=active ;; esac
    if grep -qx "$4" $STATE; then echo $known; else echo inactive; fi ;;
enable) shift 2; for unit in "$@"; do echo $unit >>$STATE; done ;;
disable) grep -vx $3 $STATE >$STATE.new; mv $STATE.new $STATE ;;
esac
"""
"""Units that are in the file are enabled and active, all others neither."""

Up = Callable[..., Result]

__all__ = ["new_namespace"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root sets up a node")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Give the file of the units that run; Debian's IKE daemon is among them."""
    (path := tmp_path / "state").write_text("strongswan.service\n")
    return path


@pytest.fixture
def calls(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play systemd, and give the file of the calls that change something or ask for it."""
    (programs := tmp_path / "programs").mkdir()
    record = 'echo "${0##*/} $*" >>$CALLS\n'
    for name, text in {"systemctl": SYSTEMCTL, "systemd-sysusers": record, "systemd-sysctl": record}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}")
        (programs / name).chmod(0o755)
    (path := tmp_path / "calls").touch()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(path))
    monkeypatch.setenv("STATE", str(state))
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    monkeypatch.setattr(command, "_SET_SYSCTLS", str(programs / "systemd-sysctl"))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "etc/meshsec.toml"


@pytest.fixture
def found() -> list[dict[str, str]]:
    """Give what meshsecd's doctor finds: nothing yet."""
    return []


@pytest.fixture
def meshsecd(tmp_path: Path, found: list[dict[str, str]]) -> Iterator[None]:
    """Answer at the control socket."""
    started, stop = threading.Event(), threading.Event()

    async def answer(_method: str, _params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"checks": found}

    async def serve() -> None:
        server = ControlServer(tmp_path / "control.sock", answer)
        await server.start()
        started.set()
        await asyncio.to_thread(stop.wait)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    yield
    stop.set()
    thread.join(60)


@pytest.fixture
def up(config: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Up:
    """Give a function that runs the command, with everything below a directory of the test."""
    monkeypatch.setattr(kernel, "present", lambda: PRESENT)
    monkeypatch.setattr(kernel, "exists", lambda name: name in {one.name for one in PRESENT})
    monkeypatch.setattr(credential, "STORE", tmp_path / "credstore")
    create = setup.write

    def write_below(path: Path, *arguments: Any) -> None:
        create(path, *arguments)
        path.write_text(f'{path.read_text()}\n[paths]\npeers = "peers"\nstate = "state"\nrun = "run"\n')

    monkeypatch.setattr(setup, "write", write_below)

    def run(*arguments: str, typed: str | None = None) -> Result:
        monkeypatch.setattr(up_answers, "is_at_a_terminal", lambda: typed is not None)
        places = ["--config", str(config), "--socket", str(tmp_path / "control.sock")]
        return CliRunner().invoke(main, [*places, "up", *arguments], input=typed and f"{typed}\n")  # no fleet

    return run


def changes(calls: Path) -> list[str]:
    """Return the calls but for those that only ask."""
    return [line for line in calls.read_text().splitlines() if not line.startswith("systemctl show")]


def files_of(config: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in config.parent.rglob("*") if path.is_file()}


def said(result: Result) -> str:
    """Return all that a failed command printed."""
    assert result.exit_code != 0
    return result.output + result.stderr


FLEET_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
FLEET = Fleet("rescue", raw_public_key(FLEET_KEY.public_key()))


def test_a_fleet_is_joined_by_its_card_alone(up: Up, config: Path, calls: Path, meshsecd: None) -> None:
    done = up(*BY_CABLE, "--join", fleet_text(FLEET))
    assert "alpha asks the fleet rescue over the mesh" in done.stdout
    assert shown.spoken(FLEET) in done.stdout
    joined = store.read(config.parent / "peers").memberships
    assert joined[FLEET.public_key].owns == ()
    assert up("--join", fleet_text(FLEET)).exit_code == 0
    assert store.read(config.parent / "peers").memberships == joined


def test_a_fleet_is_looked_for_by_its_six_words(up: Up, config: Path, calls: Path, meshsecd: None) -> None:
    done = up(*BY_CABLE, "--join", shown.spoken(FLEET))
    assert "alpha looks for the fleet over the mesh, and asks it" in done.stdout
    joined = store.read(config.parent / "peers")
    assert not joined.memberships
    assert joined.sought == FLEET.fingerprint[:8] + bytes([FLEET.fingerprint[8] & 0xC0])


def test_a_member_that_is_given_its_fleets_words_again_says_that_it_is_one(
    up: Up, config: Path, calls: Path, meshsecd: None
) -> None:
    up(*BY_CABLE, "--join", fleet_text(FLEET))
    done = up("--join", shown.spoken(FLEET))
    assert "alpha asks the fleet rescue over the mesh" in done.stdout
    own = key_store.load_public(config.parent / "state/node.key")
    signed = fleets.sign_card(FLEET_KEY, make_card("alpha", own, None), 1)
    store.join(config.parent / "peers", FLEET, fleets.card_text(signed), [signed.card])
    done = up("--join", shown.spoken(FLEET))
    assert "alpha is a member of the fleet rescue" in done.stdout
    assert "looks for the fleet" not in done.stdout
    assert store.read(config.parent / "peers").sought == b""


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ("police", "a fleet's card begins with 'meshsec-fleet1:'"),
        ("police random", "2 words; a fingerprint has 6"),
        ("police rendom one two three four", "'rendom' is not a word of the list; perhaps 'random'"),
    ],
)
def test_a_text_that_means_no_fleet_is_refused_before_anything_is_written(
    up: Up, config: Path, calls: Path, given: str, refusal: str
) -> None:
    assert refusal in said(up(*BY_CABLE, "--join", given))
    assert not config.exists()


def test_at_a_terminal_a_fleet_is_asked_for_until_the_answer_is_one(
    up: Up, config: Path, calls: Path, meshsecd: None
) -> None:
    done = up(*BY_CABLE, typed=f"police\npolice random\n@/absent\n{fleet_text(FLEET)}")
    assert "a fleet's card begins with" in done.stdout
    assert "2 words" in done.stdout
    assert "/absent" in done.stdout
    assert FLEET.public_key in store.read(config.parent / "peers").memberships


def test_options_make_a_node_that_runs(up: Up, config: Path, calls: Path, meshsecd: None) -> None:
    done = up(*BY_CABLE, "--ipv4", "10.77.0.1")
    assert done.exit_code == 0, done.output
    written = tomllib.loads(config.read_text())
    assert written["node"] == {"name": "alpha", "ipv4": "10.77.0.1"}
    assert written["routing"] == {"interfaces": ["eth1"]}
    assert "radio" not in written
    assert changes(calls) == [
        "systemd-sysusers ",
        "systemd-sysctl 60-meshsec.conf 60-meshsec-scheduling.conf",
        "systemctl daemon-reload",
        "systemctl disable --now strongswan.service",
        "systemctl enable --now meshsec.target",
    ]
    record = json.loads((config.parent / "state/.replaced-units.json").read_text())
    assert record == {"strongswan.service": {"enabled": True, "active": True}}, "`meshsec uninstall` enables it again"
    assert "alpha runs. Its card:" in done.stdout
    assert "\u2588" in done.stdout, "the QR code"
    assert "meshsec1" in done.stdout
    assert "meshsec peer add NAME CARD" in done.stdout
    assert stat.S_IMODE((config.parent / "state/node.key").stat().st_mode) == 0o600


def test_after_the_start_the_next_commands_fit_the_way_of_trusting(up: Up, config: Path, meshsecd: None) -> None:
    assert "meshsec fleet requests" not in up(*BY_CABLE).stdout
    done = up("--join", fleet_text(FLEET))
    assert "meshsec fleet requests" in done.stdout
    assert "peer add" not in done.stdout


def test_a_second_run_changes_nothing(up: Up, config: Path, calls: Path, meshsecd: None) -> None:
    up(*BY_CABLE)
    before = files_of(config)
    calls.write_text("")
    again = up()
    assert again.exit_code == 0, again.output
    assert files_of(config) == before
    assert changes(calls) == []
    assert "alpha runs" in again.stdout


def test_a_run_that_was_interrupted_is_completed(up: Up, config: Path, calls: Path, meshsecd: None) -> None:
    up(*BY_CABLE)
    (config.parent / "state/node.key").unlink()
    (config.parent / "state/node.pub").unlink()
    assert up().exit_code == 0
    assert (config.parent / "state/node.key").exists()


ACCESS = '[access]\nnetworks = ["10.130.0.0/16"]\n'
ACCESS_RADIO = 'radio = { interface = "wlan2", ssid = "valley", frequency = 5180, country = "DE" }\n'
_UNITS = (
    "meshsecd.service meshsec-page.service meshsec-clients.service meshsec-dnsmasq.service meshsec-dns-sd.service "
    "meshsec-zeroize.service"
)
RESTARTS = [
    "systemctl stop meshsec-hostapd.service",
    f"systemctl restart {_UNITS}",
    "systemctl reload olsrv2d.service",
]


@pytest.fixture
def running(up: Up, calls: Path, state: Path, meshsecd: None) -> Up:
    """Give the command on a node that runs with its router."""
    assert up(*BY_CABLE).exit_code == 0
    state.write_text(f"{state.read_text()}olsrv2d.service\n")
    calls.write_text("")
    return up


def test_a_changed_configuration_is_put_into_force(running: Up, calls: Path, found: list[dict[str, str]]) -> None:
    found.append({"name": "configuration", "level": "warn"})
    assert "The changed configuration is in force." in running().stdout
    assert changes(calls) == RESTARTS


def test_a_unit_that_somebody_has_masked_stays_as_it_is(
    running: Up, calls: Path, state: Path, found: list[dict[str, str]]
) -> None:
    state.write_text(f"{state.read_text()}masked meshsec-page.service\n")
    found.append({"name": "configuration", "level": "warn"})
    assert running().exit_code == 0
    assert changes(calls) == [RESTARTS[0], RESTARTS[1].replace("meshsec-page.service ", ""), RESTARTS[2]]


def test_what_a_restart_would_interrupt_is_named_with_its_command(
    running: Up, config: Path, calls: Path, found: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found.append({"name": "configuration", "level": "warn"})
    config.write_text(
        config.read_text().replace('["eth1"]', '["eth1", "wlan1"]')
        + '[radio]\nmesh_id = "valley"\nfrequency = 2412\nsecurity = "open"\n'
    )
    (ike := config.parent / "run/strongswan.conf").parent.mkdir(exist_ok=True)
    ike.write_text("as it is now")
    monkeypatch.setattr(export, "strongswan", lambda _app: "as it is now")
    state_of_radio = running().stdout
    assert "in force, except for what would interrupt the mesh" in state_of_radio
    assert "if you changed [radio]: `systemctl restart meshsec-radio@wlan1`" in state_of_radio
    assert "meshsec-ike" not in state_of_radio
    monkeypatch.setattr(export, "strongswan", lambda _app: "with a link")
    assert "`systemctl restart meshsec-ike`, which ends all SAs" in running().stdout
    assert not any(line.startswith("systemctl restart meshsec-") for line in changes(calls))


def test_what_is_started_has_read_the_configuration(
    up: Up, calls: Path, meshsecd: None, found: list[dict[str, str]]
) -> None:
    found.append({"name": "configuration", "level": "warn"})
    up(*BY_CABLE)
    assert changes(calls)[-1] == "systemctl enable --now meshsec.target"


def test_what_else_the_doctor_finds_restarts_nothing(running: Up, calls: Path, found: list[dict[str, str]]) -> None:
    found += [{"name": "configuration", "level": "ok"}, {"name": "neighbours", "level": "warn"}]
    assert running().exit_code == 0
    assert changes(calls) == []


def test_a_new_access_node_has_dnsmasqs_file_and_the_second_run_keeps_it(
    running: Up, config: Path, calls: Path, programs_of_access: Path
) -> None:
    config.write_text(config.read_text() + ACCESS)
    assert f"{config.parent / 'dnsmasq.conf'}: written" in running().stdout
    assert "dhcp-range=10.130.0.2," in (config.parent / "dnsmasq.conf").read_text()
    assert changes(calls) == RESTARTS
    calls.write_text("")
    assert "dnsmasq.conf" not in running().stdout
    assert changes(calls) == []


def test_the_access_point_of_a_node_with_a_radio_starts(
    running: Up, config: Path, calls: Path, programs_of_access: Path
) -> None:
    config.write_text(config.read_text() + ACCESS + ACCESS_RADIO)
    credential.store(credential.ACCESS_PASSWORD, b"the phones of the valley")
    assert running().exit_code == 0
    assert changes(calls)[0] == f"systemctl restart {_UNITS} meshsec-hostapd.service"


def test_dnsmasqs_file_follows_the_configuration_unless_somebody_wrote_it(
    running: Up, config: Path, programs_of_access: Path
) -> None:
    config.write_text(config.read_text() + ACCESS)
    running()
    config.write_text(config.read_text().replace("10.130", "10.131"))
    running()
    path = config.parent / "dnsmasq.conf"
    assert "dhcp-range=10.131.0.2," in path.read_text()
    path.write_text("# by hand\nport=53\n")
    assert f"{path}: kept, because it was not written by" in running().stdout
    assert path.read_text() == "# by hand\nport=53\n"


def test_a_node_that_serves_no_clients_any_more_has_no_file_of_dnsmasqs(
    running: Up, config: Path, calls: Path, programs_of_access: Path
) -> None:
    without = config.read_text()
    config.write_text(without + ACCESS)
    running()
    config.write_text(without)
    calls.write_text("")
    path = config.parent / "dnsmasq.conf"
    assert f"{path}: removed" in running().stdout
    assert not path.exists()
    assert changes(calls) == RESTARTS
    path.write_text("# by hand\n")
    assert f"{path}: kept" in running().stdout
    assert path.exists()


@pytest.fixture
def programs_of_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the directory in which the programs of an access node are looked for."""
    (path := tmp_path / "sbin").mkdir()
    for name in ("dnsmasq", "hostapd"):
        (path / name).write_text("#!/bin/sh\n")
        (path / name).chmod(0o755)
    monkeypatch.setattr(applied, "_ROOTS_PATH", str(path))
    return path


def test_what_an_access_node_lacks_is_named_with_the_command_that_brings_it(
    running: Up, config: Path, calls: Path, programs_of_access: Path
) -> None:
    config.write_text(config.read_text() + ACCESS + ACCESS_RADIO)
    assert "install -D -m 0600 /dev/stdin" in said(running())
    credential.store(credential.ACCESS_PASSWORD, b"the phones of the valley")
    (programs_of_access / "hostapd").unlink()
    assert "[access] needs hostapd: `apt install hostapd`" in said(running())
    (programs_of_access / "dnsmasq").unlink()
    assert "[access] needs dnsmasq: `apt install dnsmasq-base`" in said(running())
    assert changes(calls) == []
    assert not (config.parent / "dnsmasq.conf").exists()
    assert "[access] needs dnsmasq" in said(running("--join", fleet_text(FLEET)))
    assert not store.read(config.parent / "peers").memberships


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(up: Up, config: Path, calls: Path) -> None:
    refusal = said(up("--name", "alpha", "--interface", "eth1", "--interface", "eht2"))
    assert "this machine has no 'eht2'; it has: wlan1, eth1, eth0." in refusal
    assert "`meshsec init --interface eht2`" in refusal
    assert "this machine has no 'mesh9'" in said(up("--name", "alpha", typed="mesh9"))
    assert not config.exists()
    assert changes(calls) == []


def test_options_that_an_existing_configuration_would_ignore_are_refused(up: Up, config: Path, meshsecd: None) -> None:
    up(*BY_CABLE)
    assert f"{config} exists; change" in said(up("--frequency", "2412"))


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (("--interface", "eth1"), "--name is missing"),
        (
            ("--name", "alpha"),
            "--interface is missing, and without a terminal nobody can be asked; this machine has:",
        ),
        (("--name", "alpha", "--interface", "wlan1"), "--mesh-id is missing"),
        (("--name", "alpha", "--interface", "wlan1", "--mesh-id", "rescue"), "--frequency is missing"),
        ((*BY_CABLE, "--mesh-id", "rescue", "--frequency", "2412"), "--security is missing"),
        (
            (*BY_CABLE, "--mesh-id", "rescue", "--frequency", "2412", "--security", "sae"),
            "the password of the mesh is missing, and without a terminal nobody can be asked: `install -D -m 0600",
        ),
    ],
)
def test_without_a_terminal_what_is_missing_is_named_and_nothing_is_written(
    up: Up, config: Path, calls: Path, given: tuple[str, ...], missing: str
) -> None:
    refused = up(*given)
    assert refused.exit_code == 2
    assert missing in said(refused)
    assert not config.exists()
    assert changes(calls) == []


def test_a_value_that_the_configuration_refuses_is_named_and_nothing_starts(up: Up, config: Path, calls: Path) -> None:
    assert "node.name" in said(up("--name", "no name!", "--interface", "eth1"))
    assert "radio.frequency" in said(up(*BY_CABLE, "--mesh-id", "x", "--frequency", "1", "--security", "open"))
    assert not config.exists()
    assert changes(calls) == []


def test_at_a_terminal_radios_come_first_and_the_way_out_last(
    up: Up, config: Path, calls: Path, tmp_path: Path, meshsecd: None
) -> None:
    typed = "alpha\n\nrescue\n\n\nopen sesame\nopen sesame\n"
    done = up(typed=typed)
    assert done.exit_code == 0, done.output
    offered = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  ") and line[2].isdecimal()]
    assert offered == ["wlan1", "eth1", "eth0"]
    assert tomllib.loads(config.read_text())["routing"]["interfaces"] == ["wlan1"]
    assert tomllib.loads(config.read_text())["radio"] == {"mesh_id": "rescue", "frequency": 2412, "security": "sae"}
    password = tmp_path / "credstore/meshsec.sae-password"
    assert (password.read_text(), stat.S_IMODE(password.stat().st_mode)) == ("open sesame\n", 0o600)
    assert "open sesame" not in done.output
    assert changes(calls)[-1] == "systemctl enable --now meshsec.target meshsec-radio@wlan1.service"


def test_the_interface_with_the_default_route_is_no_default_and_is_confirmed(up: Up, config: Path) -> None:
    assert "Aborted" in said(up("--name", "alpha", typed="3\nn\n"))
    assert not config.exists()
    assert up_answers.in_order([OUTWARD, CABLE]) == [CABLE, OUTWARD]


def test_an_option_that_takes_the_default_route_is_confirmed_or_warned_of(up: Up, config: Path, meshsecd: None) -> None:
    outward = ("--name", "alpha", "--interface", "eth0")
    assert "Aborted" in said(up(*outward, typed="n\n"))
    assert not config.exists()
    assert "warning: this machine reaches the internet, and perhaps you, through eth0" in up(*outward).stderr
    assert tomllib.loads(config.read_text())["routing"]["interfaces"] == ["eth0"]
    assert "warning" not in up(*BY_CABLE).stderr


def test_a_password_that_no_radio_takes_is_refused(up: Up, config: Path) -> None:
    refused = up("--name", "alpha", "--interface", "wlan1", typed="rescue\n\n\nshort\nshort\n")
    assert "the password: 5 octets are not allowed; allowed: 8 to 63" in said(refused)
    assert not config.exists()


def test_a_password_that_is_stored_is_not_asked_for(up: Up, config: Path, tmp_path: Path, meshsecd: None) -> None:
    credential.store(credential.SAE_PASSWORD, b"another one")
    radio = ("--name", "alpha", "--interface", "wlan1", "--mesh-id", "x", "--frequency", "5180", "--security", "sae")
    assert up(*radio).exit_code == 0
    assert (tmp_path / "credstore/meshsec.sae-password").read_text() == "another one\n"


def test_without_systemd_the_node_is_made_and_the_way_to_start_it_is_named(
    up: Up, config: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "absent")
    assert "this system has no systemd: docs/guide/systemd.md" in said(up(*BY_CABLE))
    assert (config.parent / "state/node.key").exists()
    assert calls.read_text() == ""


def test_a_meshsecd_that_does_not_answer_is_reported(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_ANSWER_SECONDS", 0.5)
    assert "`journalctl --unit=meshsecd --lines=20` says why" in said(up(*BY_CABLE))


def test_a_meshsecd_that_has_failed_is_not_waited_for(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "has_failed", lambda unit: unit == "meshsecd.service")
    assert "meshsecd has failed; `journalctl --unit=meshsecd --lines=20` says why" in said(up(*BY_CABLE))


def test_a_command_of_systemds_that_fails_is_named_with_its_reason(up: Up, tmp_path: Path) -> None:
    (tmp_path / "programs/systemd-sysusers").write_text("#!/bin/sh\necho no room >&2; exit 1\n")
    assert "`systemd-sysusers`: no room" in said(up(*BY_CABLE))


def test_an_interface_that_networkmanager_has_is_named(up: Up, tmp_path: Path, meshsecd: None) -> None:
    assert "NetworkManager" not in up(*BY_CABLE).stdout
    (nmcli := tmp_path / "programs/nmcli").write_text("#!/bin/sh\necho '100 (connected)'\n")
    nmcli.chmod(0o755)
    assert "NetworkManager manages eth1, too" in up().stdout


def test_a_cable_that_is_down_comes_with_the_commands_that_bring_it_up(
    up: Up, meshsecd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is down" not in up(*BY_CABLE).stdout
    monkeypatch.setattr(kernel, "present", lambda: [replace(CABLE, up=False)])
    said_now = up().stdout
    assert "`ip link set eth1 up`" in said_now
    assert "`printf 'auto eth1\\niface eth1 inet manual\\n' >/etc/network/interfaces.d/eth1`" in said_now


def test_only_root_may(up: Up, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "`sudo meshsec up`" in said(up(*BY_CABLE))
    assert not config.exists()


def test_the_interfaces_of_this_machine_are_those_of_the_kernel(new_namespace: Callable[[], str]) -> None:
    """In a network namespace: a cable, the way out, a bridge with a port, and a tunnel."""
    name = new_namespace()
    for device, other in (("mesh0", "port0"), ("out0", "port1")):
        ip("-n", name, "link", "add", device, "type", "veth", "peer", "name", other)
    ip("-n", name, "link", "add", "bridge0", "type", "bridge")
    for port in ("port0", "port1"):
        ip("-n", name, "link", "set", port, "master", "bridge0")
    ip("-n", name, "tuntap", "add", "tunnel0", "mode", "tun")
    ip("-n", name, "link", "set", "out0", "up")
    ip("-n", name, "-6", "route", "add", "default", "dev", "out0")
    print_them = "from meshsec.adapters.kernel import interfaces; print(interfaces.present())"
    found = ip("netns", "exec", name, sys.executable, "-c", print_them)
    mesh = Interface("mesh0", wireless=False, has_default_route=False, up=False)
    assert found.strip() == repr([mesh, Interface("out0", wireless=False, has_default_route=True, up=True)])
