"""One radio is mesh point and access point at once, where its driver can, and is refused where it cannot.

The radios are mac80211_hwsim's, in the guest's own network namespace. Like most drivers that one takes two beacon
intervals on one radio for a conflict, so that joining also shows that both have the same.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from meshsec.core.access.shared_address import DEVICE
from meshsec.radio import main
from tests.lab.basics import programs
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.radio import hwsim, meshsec_radio
from tests.lab.radio.meshsec_radio import OPEN, PASSWORD, SAE, SECONDS, Program, Ticks, configuration

AP = "ap7"
ACCESS: dict[str, object] = {"interface": AP, "ssid": "valley", "frequency": 2412, "shares": "mesh7"}


@pytest.fixture(autouse=True)
def guest() -> None:
    if obstacle := meshsec_radio.obstacle():
        pytest.skip(obstacle)
    if not programs.find("hostapd"):
        pytest.skip("not installed: hostapd")


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """Yield the interfaces of two radios that hear each other."""
    with hwsim.radio("msr7", "mesh7") as first, hwsim.radio("msr8", "mesh8") as second:
        yield first, second


def prepared(directory: Path, **changes: object) -> Result:
    """Do what the unit of hostapd does first."""
    path = configuration(directory, OPEN, {**ACCESS, **changes})
    return CliRunner().invoke(main, ["--config", str(path), "--access-point"])


@contextmanager
def hostapd(directory: Path) -> Iterator[None]:
    """Run hostapd as its unit does."""
    secret, written = directory / "meshsec.access-password", directory / "hostapd.conf"
    secret.write_text(PASSWORD, encoding="ascii")
    secret.chmod(0o600)
    config = configuration(directory, OPEN, ACCESS)
    argv = [programs.meshsec(), "--config", str(config), "export", "hostapd"]
    written.touch(mode=0o600)
    written.write_text(run(["env", f"CREDENTIALS_DIRECTORY={directory}", *argv]).stdout, encoding="utf-8")
    run(["ip", "link", "add", DEVICE, "type", "bridge"])
    log = directory / "hostapd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(["hostapd", str(written)], stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(SECONDS)
        run(["ip", "link", "del", DEVICE])
        print(log.read_text())


def shown(interface: str) -> str:
    return run(["iw", "dev", interface, "info"], check=False).stdout


@pytest.mark.parametrize(("radio", "password"), [(OPEN, ""), (SAE, PASSWORD)], ids=["open", "sae"])
def test_one_radio_is_mesh_point_and_access_point_at_once(
    pair: tuple[str, str], tmp_path: Path, radio: dict[str, object], password: str
) -> None:
    first, second = pair
    places = [tmp_path / name for name in ("first", "second", "access")]
    for place in places:
        place.mkdir(mode=0o700)
    made = prepared(places[2])
    assert (made.exit_code, f"make {AP} on" in made.output) == (0, True), made.output
    again = prepared(places[2])
    assert (again.exit_code, again.output) == (0, ""), "what exists is left alone"
    with (
        Ticks() as ticks,
        Program(first, places[0], radio, password, ACCESS) as one,
        Program(second, places[1], radio, password) as other,
    ):
        with hostapd(places[2]):
            wait_until("the access point", lambda: "channel 1 (2412 MHz)" in shown(AP), [ticks], SECONDS)
            one.wait_ready()
            other.wait_ready()
            ticks.wait_peered(first)
            assert "type AP" in shown(AP)
            assert "type mesh point" in shown(first)
            wait_until("the network in the air", lambda: "valley" in seen(second), [ticks], SECONDS)
        assert one.stop() == 0


def test_a_mesh_point_with_another_beacon_interval_would_be_refused(pair: tuple[str, str], tmp_path: Path) -> None:
    """What `shares` is good for: without it meshsec-radio leaves the mesh its usual interval."""
    place = tmp_path / "alone"
    place.mkdir(mode=0o700)
    assert prepared(tmp_path).exit_code == 0
    with Ticks() as ticks, hostapd(tmp_path):
        wait_until("the access point", lambda: "channel 1 (2412 MHz)" in shown(AP), [ticks], SECONDS)
        with Program(pair[0], place, OPEN) as alone:
            assert alone.process.wait(SECONDS) == 1
            assert f"the radio is shared with {AP} (AP)" in alone.log.read_text()


def seen(interface: str) -> str:
    """Return the networks that a radio finds."""
    return run(["iw", "dev", interface, "scan", "freq", "2412", "ap-force"], check=False).stdout


def test_a_radio_with_one_channel_is_refused_two_and_nothing_is_made(pair: tuple[str, str], tmp_path: Path) -> None:
    refused = prepared(tmp_path, frequency=2437)
    assert refused.exit_code == 1
    assert "access point and mesh point on one channel only" in refused.output
    assert "fix: [access] radio frequency = 2412" in refused.output
    assert not Path("/sys/class/net", AP).exists()


def test_a_radio_that_cannot_be_both_is_refused_and_those_that_can_are_named(tmp_path: Path) -> None:
    modes = hwsim.STATION | hwsim.AP
    with hwsim.radio("msr9", "mesh7", modes), hwsim.radio("msr8", "mesh8"):
        refused = prepared(tmp_path)
    assert refused.exit_code == 1
    assert "the radio of mesh7, cannot be access point and mesh point at once" in refused.output
    assert "(mesh8)" in refused.output
    assert not Path("/sys/class/net", AP).exists()
