"""The parts of meshsec-radio beside the kernel: its credential, wpa_supplicant and its command line."""

import asyncio
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from meshsec.adapters.files.credential import (
    ACCESS_PASSWORD,
    SAE_PASSWORD,
    CredentialError,
    access_password,
    sae_password,
)
from meshsec.adapters.radio import rfkill
from meshsec.adapters.radio.supplicant import Supplicant, configuration
from meshsec.core.config.radio_settings import Mode, RadioSettings, Security
from meshsec.radio import main
from meshsec.radio.keeper import JoinError, Keeper

WISH = RadioSettings('res"cue', 2437, Security.SAE, mode=Mode.HT20, rssi_threshold=-80)


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes, int], None]:
    """Give a function that hands over a credential as the service manager does."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    def hand_over(content: bytes, mode: int) -> None:
        for name in (SAE_PASSWORD, ACCESS_PASSWORD):
            (tmp_path / name).write_bytes(content)
            (tmp_path / name).chmod(mode)

    return hand_over


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"12345678", b"12345678"), (b"12345678\n", b"12345678"), (b"\xc3\xa9" * 31 + b"e", b"\xc3\xa9" * 31 + b"e")],
)
def test_a_password_is_taken_without_its_end_of_line(
    put: Callable[[bytes, int], None], content: bytes, expected: bytes
) -> None:
    put(content, 0o400)
    assert sae_password() == access_password() == expected


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"1234567", 0o400, "7 octets are not allowed"),
        (b"1" * 64, 0o400, "64 octets are not allowed"),
        (b"1234\n56789", 0o400, "one line"),
        (b"12345678\xff", 0o400, "not UTF-8"),
        (b"12345678", 0o404, "open to everybody"),
        (b"secret12" * 600, 0o400, "longer than"),
    ],
)
@pytest.mark.parametrize("read", [sae_password, access_password])
def test_an_unusable_password_is_refused_and_not_repeated(
    put: Callable[[bytes, int], None], read: Callable[[], bytes], content: bytes, mode: int, words: str
) -> None:
    put(content, mode)
    with pytest.raises(CredentialError, match=words) as caught:
        read()
    assert content.decode(errors="replace")[:7] not in str(caught.value)


@pytest.mark.parametrize("directory", ["", "/nonexistent"])
def test_a_missing_password_is_reported_with_its_path(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", directory)
    with pytest.raises(CredentialError, match=f"/etc/credstore/{SAE_PASSWORD}"):
        sae_password()


def test_wpa_supplicants_configuration_needs_no_quoting() -> None:
    password = b'pass"word\\'
    text = configuration(WISH, password)
    assert f"ssid={WISH.mesh_id.encode().hex()}\n" in text
    assert f"sae_password={password.hex()}\n" in text
    for line in (
        "mode=5",
        "frequency=2437",
        "key_mgmt=SAE",
        "ieee80211w=2",
        "mesh_rssi_threshold=-80",
        "disable_vht=1",
    ):
        assert f"\t{line}\n" in text
    assert "mesh_fwding=0\n" in text


def test_the_program_waits_for_a_missing_adapter_and_ends_for_any_other_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        async def run() -> list[str]:
            with pytest.raises(JoinError, match="wireless"):
                await keepers[0].run()
            waiting = asyncio.create_task(keepers[1].run())
            told: list[str] = []
            async with asyncio.timeout(60):
                while "WATCHDOG=1" not in told:
                    told.append((await asyncio.get_running_loop().sock_recv(manager, 4096)).decode())
            assert not waiting.done()
            waiting.cancel()
            return told

        keepers = [Keeper(name, WISH, tmp_path) for name in ("lo", "nosuch0")]
        told = asyncio.run(run())
        for keeper in keepers:
            keeper.close()
    assert told[-2:] == ["READY=1", "WATCHDOG=1"]
    assert "there is no interface nosuch0" in told[0] or "no wireless stack" in told[0]


@pytest.mark.skipif(shutil.which("wpa_supplicant") is None, reason="wpa_supplicant is not installed")
def test_a_wpa_supplicant_that_ends_leaves_its_last_words_and_no_configuration(tmp_path: Path) -> None:
    async def run() -> tuple[str | None, int]:
        ended = asyncio.Event()
        supplicant = Supplicant("nosuch0", tmp_path, ended.set)
        assert supplicant.ended is None
        await supplicant.start(WISH, b"only the crew knows")
        mode = (tmp_path / "nosuch0.conf").stat().st_mode & 0o777
        await asyncio.wait_for(ended.wait(), 60)
        words = supplicant.ended
        await supplicant.stop()
        await supplicant.stop()
        return words, mode

    words, mode = asyncio.run(run())
    assert mode == 0o600
    assert words is not None
    assert "ended with status" in words
    assert "nosuch0" in words
    assert list(tmp_path.iterdir()) == []


def test_a_radio_without_a_switch_is_not_switched_off() -> None:
    assert rfkill.blocked("nosuchphy") == (False, False)


def invoked(tmp_path: Path, tables: str, *arguments: str) -> Result:
    path = tmp_path / "meshsec.toml"
    path.write_text(f"[node]\nname = 'a'\n[routing]\ninterfaces = ['nosuch0']\n{tables}", encoding="utf-8")
    return CliRunner().invoke(main, ["--config", str(path), *arguments])


def checked(tmp_path: Path, radio: str) -> tuple[int, str]:
    result = invoked(tmp_path, radio, "--check", "nosuch0")
    return result.exit_code, result.output


def test_the_command_names_the_obstacle(tmp_path: Path) -> None:
    code, output = checked(tmp_path, "[radio]\nmesh_id = 'a'\nfrequency = 2412\nsecurity = 'open'\n")
    assert code == 1
    assert "nosuch0: " in output
    assert "; fix: " in output


def test_without_a_radio_in_the_configuration_there_is_nothing_to_do(tmp_path: Path) -> None:
    code, output = checked(tmp_path, "")
    assert code == 1
    assert f"{tmp_path}/meshsec.toml:1: radio: is missing; allowed: a table with mesh_id" in output


@pytest.mark.parametrize(("interval", "expected"), [(100, True), (None, False)])
def test_wpa_supplicant_takes_the_beacon_interval_of_the_access_point(interval: int | None, *, expected: bool) -> None:
    assert ("beacon_int=100" in configuration(WISH, b"12345678", interval)) is expected


ACCESS = """[radio]
mesh_id = 'a'
frequency = 2412
security = 'open'
[access]
networks = ['10.130.0.0/16']
radio = { interface = 'ap0', ssid = 'valley', frequency = 2412, shares = 'nosuch0' }
"""


@pytest.mark.parametrize("arguments", [["--access-point"], ["--access-point", "--check"]])
def test_an_access_point_without_its_radio_is_refused_before_hostapd_starts(
    tmp_path: Path, arguments: list[str]
) -> None:
    result = invoked(tmp_path, ACCESS, *arguments)
    assert result.exit_code == 1
    assert "access point: there is no wireless interface nosuch0, whose radio ap0 is to share; fix: " in result.output


def test_a_node_that_is_no_access_point_has_nothing_to_prepare(tmp_path: Path) -> None:
    result = invoked(tmp_path, "", "--access-point")
    assert (result.exit_code, "[access] has no radio" in result.output) == (1, True)


@pytest.mark.parametrize("arguments", [[], ["--access-point", "nosuch0"]])
def test_either_an_interface_or_the_access_point_is_named(tmp_path: Path, arguments: list[str]) -> None:
    assert invoked(tmp_path, ACCESS, *arguments).exit_code == 2
