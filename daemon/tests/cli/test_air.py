"""``meshsec air`` on recorded radios (tests/vectors/air), on damaged files, and on interfaces without radio."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from children import child
from core.air_frames import A, C, ack, data, pcap, radiotap, section
from meshsec.adapters.kernel.stations import Stations
from meshsec.adapters.radio.monitor import Monitor, MonitorError
from meshsec.cli.air.naming import named

Meshsec = Callable[..., Result]
ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests/vectors/air"
SCHEMA = json.loads((ROOT / "docs/reference/schema/meshsec-air-1.json").read_text())


def read(meshsec: Meshsec, path: Path, *options: str, status: int = 0) -> Any:
    result = meshsec("air", "--read", str(path), "--json", *options)
    assert result.exit_code == status, result.output
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def test_a_recorded_mesh_has_the_times_that_were_computed_by_hand(meshsec: Meshsec) -> None:
    """See tests/vectors/air/README.md for how they were computed."""
    document = read(meshsec, VECTORS / "medium.pcap", "--exchanges")
    by_start = {one["start_us"]: one for one in document["exchanges"]}
    beacon, opening, answer = by_start[656189], by_start[675452], by_start[683387]
    assert (beacon["pattern"], beacon["data_us"], beacon["answered"]) == ("beacon", 254, None)
    assert (opening["pattern"], opening["rate"]) == ("management, ack", "1 Mbit/s")
    assert [opening[part] for part in ("access_us", "data_us", "ack_us", "total_us")] == [19009, 1416, 14, 20439]
    assert (answer["access_us"], answer["idle"], answer["answered"]) == (6505, True, True)
    assert document["clock"] == "both", "hwsim0 shows acknowledgements without a time of the radio"
    assert {one["address"] for one in document["neighbours"]} == {"02:00:00:00:00:00", "02:00:00:00:01:00"}


def test_a_node_that_records_itself_knows_what_became_of_its_frames(meshsec: Meshsec) -> None:
    document = read(meshsec, VECTORS / "node.pcap", "--exchanges")
    own = [one for one in document["exchanges"] if one["transmitter"] == "02:00:00:00:00:00"]
    assert {one["answered"] for one in own if one["receiver"] == "02:00:00:00:01:00"} == {True}
    others = [one for one in document["exchanges"] if one["receiver"] == "02:00:00:00:00:00"]
    assert {one["answered"] for one in others} == {None}, "this radio shows no acknowledgements"
    assert any("neither CTS nor acknowledgements" in one for one in document["warnings"])
    assert any("lack the radio's time (TSFT)" in one for one in document["warnings"])


def test_people_get_tables_and_each_exchange(meshsec: Meshsec, tmp_path: Path) -> None:
    result = meshsec("air", "--read", str(VECTORS / "medium.pcap"), "--exchanges", "--plot", str(tmp_path / "plots"))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["START", "FROM", "TO", "ACCESS"]
    assert any(line.split()[:4] == ["675452", "02:00:00:00:01:00", "02:00:00:00:00:00", "19009*"] for line in lines)
    assert any(line.startswith("NEIGHBOUR") for line in lines)
    assert any(line.startswith("management, ack") for line in lines)
    assert {path.name for path in (tmp_path / "plots").iterdir()} >= {"air-parts.svg"}


def test_a_capture_without_the_radios_time_is_read_with_a_warning(meshsec: Meshsec, tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([radiotap(rate=48) + data(A, C, 100), radiotap(rate=48) + ack(A)]))
    document = read(meshsec, path)
    assert document["clock"] == "machine"
    assert document["warnings"][0].startswith("No frame has the radio's time")


def test_a_cut_capture_is_analysed_as_far_as_it_is_whole(meshsec: Meshsec, tmp_path: Path) -> None:
    whole = (VECTORS / "medium.pcap").read_bytes()
    path = tmp_path / "cut.pcap"
    path.write_bytes(whole[:-3])
    document = read(meshsec, path, status=3)
    assert document["frames"] == 59
    assert document["cut"] == (
        f"{path}: is cut: it ends at byte {len(whole) - 3}, within the record after packet 59, which begins at byte "
        f"{_offset(whole, 59)}"
    )
    result = meshsec("air", "--read", str(path))
    assert result.exit_code == 3
    assert "Only a part:" in result.stdout


def _offset(content: bytes, packets: int) -> int:
    place = 24
    for _ in range(packets):
        place += 16 + int.from_bytes(content[place + 8 : place + 12], "little")
    return place


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK\3\4 no capture", "is no capture file"),
        (pcap([bytes(60)], linktype=1), "link type 1 (Ethernet)"),
        (pcap([bytes(60)], linktype=105), "link type 105 (802.11 without radiotap)"),
        (b"\x1f\x8b\x08" + bytes(20), "is compressed with gzip"),
        (section()[:9], "within the header"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(meshsec: Meshsec, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    result = meshsec("air", "--read", str(path))
    assert result.exit_code == 1
    assert f"{path}: " in result.output
    assert message in result.output


def test_a_file_that_is_not_there_or_is_a_directory(meshsec: Meshsec, tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        result = meshsec("air", "--read", str(path))
        assert result.exit_code == 1
        assert f"{path}: {reason}" in result.output


def test_a_capture_with_no_frame_is_degraded(meshsec: Meshsec, tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([]))
    assert read(meshsec, path, status=3)["frames"] == 0


@pytest.mark.parametrize("arguments", [(), ("mon0", "--read", "x"), ("--read", "x", "--seconds", "1")])
def test_exactly_one_source_is_named(meshsec: Meshsec, arguments: tuple[str, ...]) -> None:
    assert meshsec("air", *arguments).exit_code == 2


def test_an_interface_that_is_missing_or_no_radio_says_what_there_is(meshsec: Meshsec) -> None:
    result = meshsec("air", "no-such0")
    assert result.exit_code == 1
    assert "no-such0: there is no such interface; there are:" in result.output
    assert "lo" in result.output.split("there are:")[1]
    result = meshsec("air", "lo")
    assert result.exit_code == 1
    assert "lo: is no wireless interface" in result.output


def test_an_interface_that_is_not_in_monitor_mode_names_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wireless() -> dict[str, str]:
        return {"lo": "mesh point"}

    monkeypatch.setattr("meshsec.adapters.radio.monitor._wireless", wireless)
    with pytest.raises(MonitorError, match=r"lo: is not in monitor mode \(mesh point\)") as caught:
        Monitor("lo")
    assert "iw dev lo interface add mon0 type monitor flags control otherbss" in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up a privilege")
def test_without_the_privilege_it_names_a_command_that_needs_less() -> None:
    """A monitor interface of this machine is not needed: the socket comes before it."""
    code = (
        "import pathlib, sys\n"
        "from meshsec.adapters.radio import monitor\n"
        "monitor._check = lambda interface: None\n"
        "try: monitor.Monitor('mon0')\n"
        "except monitor.MonitorError as error: print(error)\n"
    )
    argv = ["setpriv", "--inh-caps=-all", "--bounding-set=-net_raw", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert "needs CAP_NET_RAW" in done.stdout
    assert "sudo tcpdump -i mon0 -U -w - | meshsec air --read -" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace")
def test_an_interface_that_is_down_says_how_to_bring_it_up() -> None:
    """In a new network namespace the loopback interface is down."""
    code = (
        "from meshsec.adapters.radio import monitor\n"
        "from meshsec.cli import main\n"
        "monitor._check = lambda interface: None\n"
        "main(['air', 'lo'])\n"
    )
    argv = ["unshare", "-n", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: lo: the interface is down or gone; `ip link set lo up` brings it up\n"


def test_a_stream_is_read_to_its_end(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "from meshsec.cli import main; main()", "air", "--read", "-", "--json"]
    content = (VECTORS / "medium.pcap").read_bytes()
    done = subprocess.run(argv, input=content, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["frames"] == 60


def test_neighbours_have_the_names_of_their_routes() -> None:
    topology = {
        "names": {"fd00::b": "boat"},
        "routes": [
            {"destination": "fd00::b/128", "next_hop": "fe80::b", "interface": "mesh0", "hops": 1},
            {"destination": "fd00::c/128", "next_hop": "fe80::c", "interface": "mesh0", "hops": 1},
            {"destination": "fd00::b/128", "next_hop": "fe80::c", "interface": "mesh0", "hops": 2},
        ],
    }
    known = Stations(frozenset({A}), {("mesh0", "fe80::b"): C, ("mesh0", "fe80::c"): "02:00:00:00:00:0d"})
    assert named("rescue-1", topology, known) == {A: "rescue-1", C: "boat"}


def test_a_terminal_shows_the_table_while_the_stream_goes_on() -> None:
    """Off a terminal nothing is printed before the end: see the stream above."""
    seen, shown = os.openpty()
    # A shell starts a test run in the background with SIGINT ignored.
    argv = [
        "env",
        "--default-signal=INT",
        sys.executable,
        "-c",
        "from meshsec.cli import main; main()",
        "air",
        "--read",
        "-",
    ]
    with child(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=shown, stderr=subprocess.DEVNULL)) as running:
        os.close(shown)
        assert running.stdin is not None
        running.stdin.write((VECTORS / "medium.pcap").read_bytes())
        running.stdin.flush()
        text = b""
        while b"NEIGHBOUR" not in text:
            text += os.read(seen, 65536)
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        end = b""
        with suppress(OSError):  # EIO: nobody has the terminal open any more.
            while content := os.read(seen, 65536):
                end += content
        assert running.wait(timeout=60) == 0
    assert b"60 frames" in end
    os.close(seen)
