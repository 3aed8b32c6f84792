"""meshsec-radio brings a mesh point up from meshsec.toml, keeps it in the mesh, and leaves the interface as it was.

The radios are mac80211_hwsim's, plugged in and out by the test, in the guest's own network namespace.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from meshsec.adapters.files import config_file, rts_note
from meshsec.adapters.radio import nl80211
from meshsec.agent.sides import radios
from meshsec.core.radio.observed import RTS_OFF, Observed, Phy
from meshsec.radio import main
from meshsec.radio.keeper import JoinError, Keeper
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.radio import hwsim, meshsec_radio
from tests.lab.radio.meshsec_radio import (
    OPEN,
    PASSWORD,
    SAE,
    SECONDS,
    Ending,
    Program,
    Ticks,
    children,
    configuration,
    stations,
)

TRIES = 4
"""Tries of wpa_supplicant with one neighbour before it ignores that neighbour."""
REFUSING, FORGIVEN, SILENCE = 200.0, 150.0, 90.0
"""Seconds: for so many tries, until it tries again, and longer than a neighbour may be silent."""


@pytest.fixture(autouse=True)
def guest() -> None:
    if obstacle := meshsec_radio.obstacle():
        pytest.skip(obstacle)


def kind(interface: str) -> str:
    info = run(["iw", "dev", interface, "info"]).stdout
    return next(line.strip() for line in info.splitlines() if line.strip().startswith("type"))


def parameter(interface: str, name: str) -> str:
    return run(["iw", "dev", interface, "get", "mesh_param", name]).stdout.strip()


def is_up(interface: str) -> bool:
    return bool(int(Path("/sys/class/net", interface, "flags").read_text(), 16) & 1)


def has_carrier(interface: str) -> bool:
    return Path("/sys/class/net", interface, "carrier").read_text() == "1\n"


def block(phy: str, *, blocked: bool) -> None:
    """Block the radio as `rfkill block` does."""
    switches = Path("/sys/class/rfkill").glob("rfkill*")
    (own,) = (switch for switch in switches if (switch / "name").read_text().strip() == phy)
    (own / "soft").write_text("1" if blocked else "0")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Return a function that starts meshsec-radio on an interface."""
    with ExitStack() as stack:

        def start(interface: str, radio: dict[str, object], password: str = "") -> Program:
            directory = tmp_path / f"{interface}-{len(list(tmp_path.iterdir()))}"
            directory.mkdir(mode=0o700)
            return stack.enter_context(Program(interface, directory, radio, password))

        yield start


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """Yield the interfaces of two radios that hear each other."""
    with hwsim.radio("msr7", "mesh7") as first, hwsim.radio("msr8", "mesh8") as second:
        yield first, second


def test_an_open_mesh_is_joined_joined_again_and_left(pair: tuple[str, str], started: Callable[..., Program]) -> None:
    first, second = pair
    with Ticks() as ticks:
        hwsim.unplug("msr8")
        one, other = started(first, OPEN), started(second, OPEN)
        one.wait_ready()
        other.wait_reported(f"there is no interface {second}")
        other.wait_ready()
        hwsim.plug_in("msr8", second)
        other.wait_reported("in the mesh 'rescue net'")
        ticks.wait_peered(first)
        assert parameter(first, "mesh_fwding") == "0"
        assert parameter(first, "mesh_rssi_threshold") == "-90 dBm"

        block("msr7", blocked=True)
        one.wait_reported("lost the mesh")
        block("msr7", blocked=False)
        one.wait_reported("in the mesh 'rescue net'")
        ticks.wait_peered(first)

        run(["iw", "dev", first, "mesh", "leave"])
        one.wait_reported("lost the mesh")
        one.wait_reported("in the mesh 'rescue net'")

        hwsim.unplug("msr7")
        one.wait_reported("lost the mesh")
        hwsim.plug_in("msr7", first)
        one.wait_reported("in the mesh 'rescue net'")
        ticks.wait_peered(first)

        assert one.stop() == 0
        assert (kind(first), is_up(first)) == ("type managed", False)


@pytest.mark.parametrize(
    ("wish", "joined", "said"),
    [("measured", RTS_OFF, "measured: too few frames to judge\n"), ("off", RTS_OFF, ""), (700, 700, "")],
)
def test_an_rts_threshold_is_set_for_the_membership_and_then_the_former_one_again(
    pair: tuple[str, str], started: Callable[..., Program], wish: object, joined: int, said: str
) -> None:
    first, _ = pair
    run(["iw", "phy", "msr7", "set", "rts", "300"])
    assert threshold(first) == 300
    with Ticks() as ticks:
        one = started(first, {**OPEN, "rts_threshold": wish})
        one.wait_ready()
        assert threshold(first) == joined
        note = one.directory / rts_note.NAME
        wait_until("what is said", lambda: (note.read_text() if note.exists() else "") == said, [ticks], SECONDS)
        assert one.stop() == 0
    assert not note.exists()
    assert threshold(first) == 300


def threshold(interface: str) -> int:
    """Return the RTS threshold of an interface's radio, as the kernel has it."""

    async def read() -> int:
        async with nl80211.opened() as stack:
            assert stack
            _, phy = await radios.interface(stack, interface)
            return (await stack.phy(phy)).rts_threshold

    return asyncio.run(read())


def test_a_mesh_with_a_password_is_joined_by_wpa_supplicant_which_never_outlives_us(
    pair: tuple[str, str], started: Callable[..., Program]
) -> None:
    first, second = pair
    with Ticks() as ticks:
        one, other = started(first, SAE, PASSWORD), started(second, SAE, PASSWORD)
        one.wait_ready()
        other.wait_ready()
        ticks.wait_peered(first, "MFP: yes")
        secret = one.directory / f"{first}.conf"
        assert secret.stat().st_mode & 0o777 == 0o600
        texts = "".join(arguments(one) + arguments(other)) + one.log.read_text()
        assert PASSWORD not in texts
        assert PASSWORD.encode().hex() not in texts
        assert parameter(first, "mesh_fwding") == "0"

        (child,) = children(one)
        os.kill(child, signal.SIGKILL)
        one.wait_reported("lost the mesh")
        one.wait_reported("in the mesh 'rescue net'")
        ticks.wait_peered(first, "MFP: yes")

        (orphan,) = (os.pidfd_open(child) for child in children(other))
        other.process.kill()
        wait_gone(orphan)

        assert one.stop() == 0
        assert not secret.exists()
        assert (kind(first), is_up(first)) == ("type managed", False)


def test_a_password_that_was_wrong_and_is_corrected_is_forgiven(
    pair: tuple[str, str], started: Callable[..., Program]
) -> None:
    """The neighbour that refused it before accepts it without a restart."""
    first, second = pair
    with Ticks() as ticks:
        one, other = started(first, SAE, PASSWORD), started(second, SAE, "a slip of the pen")
        one.wait_ready()
        other.wait_ready()
        wait_until("refusals", lambda: refusals(one) >= TRIES, [ticks, one, other], REFUSING, last=one.log.read_text)
        assert "ESTAB" not in stations(first)
        assert other.stop() == 0
        began = time.monotonic()
        other = started(second, SAE, PASSWORD)
        other.wait_ready()
        ticks.wait_peered(first, "MFP: yes", seconds=FORGIVEN)
        took = time.monotonic() - began
        print(f"forgiven after {took:.0f} s")
        assert took < FORGIVEN
        silence = time.monotonic() + SILENCE
        wait_until("silence", lambda: time.monotonic() > silence, [ticks, one, other], SILENCE + SECONDS)
        assert "ESTAB" in stations(first)
        assert "MESH-PEER-DISCONNECTED" not in one.log.read_text(), "who only sends beacons was forgotten"


def refusals(program: Program) -> int:
    return program.log.read_text().count("MESH-SAE-AUTH-FAILURE")


def arguments(program: Program) -> list[str]:
    return [Path(f"/proc/{pid}/cmdline").read_text() for pid in (program.process.pid, *children(program))]


def wait_gone(descriptor: int) -> None:
    ending = Ending(descriptor)
    try:
        wait_until("the end of a process", lambda: ending.ended, [ending], SECONDS)
    finally:
        os.close(descriptor)


def test_what_cannot_be_is_refused_with_its_fix_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hwsim.radio("msr7", "mesh7") as own, hwsim.radio("msr9", "mesh9", hwsim.STATION | hwsim.AP) as dull:

        def checked(interface: str, **changes: object) -> Result:
            return CliRunner().invoke(
                main, ["--config", str(configuration(tmp_path, {**OPEN, **changes})), "--check", interface]
            )

        fine = checked(own)
        assert fine.exit_code == 0, fine.output
        assert "join the open mesh 'rescue net' on 2412 MHz HT20" in fine.output
        block("msr7", blocked=True)
        blocked = checked(own)
        block("msr7", blocked=False)
        run(["iw", "dev", own, "set", "type", "ibss"])
        run(["ip", "link", "set", own, "up"])
        with Ticks() as ticks:
            # Channel and cell are given, so that the kernel does not search for others first.
            run(["iw", "dev", own, "ibss", "join", "other", "2437", "HT20", "fixed-freq", "02:00:00:00:00:77"])
            wait_until("an ad-hoc cell", lambda: has_carrier(own), [ticks], SECONDS)
        busy = checked(own)
        run(["ip", "link", "set", own, "down"])
        run(["iw", "dev", own, "set", "type", "managed"])
        for result, words in (
            (checked(own, frequency=5180), "the regulatory domain forbids it: on 5180 MHz only listening"),
            (checked(own, frequency=2417, mode="VHT80"), "cannot do VHT80 on 2417 MHz"),
            (checked(own, tx_power=30), "30 dBm is too strong"),
            (checked("mesh99"), "there is no interface mesh99"),
            (checked("lo"), "lo is not wireless"),
            (checked(dull), "has no mesh mode (it can: AP, AP/VLAN, managed"),
            (blocked, "rfkill unblock wlan"),
            (busy, f"{own} is in use as IBSS"),
        ):
            assert (result.exit_code, words in result.output, "fix: " in result.output) == (1, True, True), (
                words,
                result.output,
            )
        monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
        for changes, words in (
            ({"country": "ZZ"}, "the kernel stays in regulatory domain 00, not ZZ"),
            ({"security": "sae"}, "there is no credential meshsec.sae-password"),
        ):
            settings = config_file.load(configuration(tmp_path, {**OPEN, **changes}))
            assert settings.radios
            with pytest.raises(JoinError, match=words):
                asyncio.run(Keeper(own, settings.radios.common, tmp_path).run())
            assert (kind(own), is_up(own)) == ("type managed", False)


@pytest.fixture
def world_domain() -> Iterator[None]:
    """Restore the world domain afterwards, which forbids what a country allowed."""
    if not any(Path("/lib/firmware").glob("regulatory.db*")):
        pytest.skip("wireless-regdb is not installed")
    yield
    run(["iw", "reg", "set", "00"])


def test_a_radio_is_judged_by_the_rules_of_the_domain_that_is_told_of_it(world_domain: None) -> None:
    """Another radio's program may ask for the country at any time, here just after this radio's channels were read."""

    async def seen_while_changing(interface: str) -> Observed:
        async with nl80211.opened() as stack:
            assert stack
            read = stack.phy

            async def read_and_overtaken(index: int) -> Phy:
                phy = await read(index)
                await stack.request_country("DE")
                async with asyncio.timeout(SECONDS):
                    while await stack.country() != "DE":
                        pass
                return phy

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stack, "phy", read_and_overtaken)
                return await radios.observe(stack, interface)

    with hwsim.radio("msr7", "mesh7") as own:
        seen = asyncio.run(seen_while_changing(own))
    band = seen.phy and seen.phy.band(5180)
    assert band
    assert (seen.country, band.channels[5180].no_ir) == ("DE", False)


def test_a_country_opens_a_channel_that_the_world_domain_forbids(
    pair: tuple[str, str], started: Callable[..., Program], world_domain: None
) -> None:
    first, second = pair
    wide = {**OPEN, "country": "DE", "frequency": 5180, "mode": "VHT80", "tx_power": 12}
    with Ticks() as ticks:
        one, other = started(first, wide), started(second, wide)
        one.wait_ready()
        other.wait_ready()
        ticks.wait_peered(first)
    info = run(["iw", "dev", first, "info"]).stdout
    assert "channel 36 (5180 MHz), width: 80 MHz, center1: 5210 MHz" in info
    assert "txpower 12.00 dBm" in info
