"""``meshsec monitor cot`` and ``meshviewer``: what is printed, where it is sent, and what is said when it cannot be."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cli.test_daemon import running
from cli.test_position import BOAT, HERE, Placed
from meshsec.adapters.sockets.cot_sender import CotError, CotSender
from meshsec.core.channels.events import PeerRemoved

Meshsec = Callable[..., Result]


class Serving(Placed):
    """A server that serves nobody."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"clients": []} if method == "clients" else await super().answer(method, params)


@pytest.fixture
def daemon(meshsec: Meshsec, tmp_path: Path) -> Iterator[Placed]:
    (tmp_path / "a/run").mkdir()
    with running(tmp_path / "a/run/control.sock", made := Serving()):
        made.positions = [HERE, BOAT]
        yield made


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.settimeout(5)
        yield opened


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses so far; the third one ends the command."""
    found: list[float] = []

    def pause(seconds: float) -> None:
        found.append(seconds)
        if len(found) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("meshsec.cli.cot_sending.time.sleep", pause)
    return found


def test_events_are_printed_one_a_line(meshsec: Meshsec, daemon: Placed) -> None:
    lines = meshsec("monitor", "cot").stdout.splitlines()
    assert [line.startswith("<event ") for line in lines] == [True, True]
    assert 'callsign="alpha"' in lines[0]
    assert 'callsign="boat"' in lines[1]


def test_events_are_sent_again_and_again(
    meshsec: Meshsec, daemon: Placed, server: socket.socket, turns: list[float]
) -> None:
    result = meshsec("monitor", "cot", "--send", f"udp://127.0.0.1:{server.getsockname()[1]}", "--every", "7")
    assert "Aborted" in result.output
    assert turns == [7.0] * 3
    assert [b'callsign="boat"' in server.recv(4000) for _ in range(6)] == [False, True] * 3


def test_what_goes_wrong_later_is_said_once(
    meshsec: Meshsec, daemon: Placed, server: socket.socket, turns: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_sender: CotSender, _events: object) -> None:
        if turns:
            raise CotError("for the test")

    monkeypatch.setattr(CotSender, "send", fail)
    result = meshsec("monitor", "cot", "--send", f"udp://127.0.0.1:{server.getsockname()[1]}")
    assert "Aborted" in result.output
    assert result.output.count("for the test") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["udp://239.2.3.1:6969"], "--interface"),
        (["udp://239.2.3.1:6969", "--interface", "none0"], "no interface 'none0'"),
        (["http://10.0.0.1:80"], "allowed: udp://ADDRESS:PORT"),
    ],
)
def test_a_target_in_the_clear_is_refused_before_anything_is_sent(
    meshsec: Meshsec, daemon: Placed, arguments: list[str], reason: str
) -> None:
    result = meshsec("monitor", "cot", "--send", *arguments)
    assert result.exit_code == 1
    assert reason in result.output


def test_a_trust_that_ends_ends_the_way(
    meshsec: Meshsec, daemon: Placed, turns: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer's address is a target while it is a peer."""
    sent = []
    monkeypatch.setattr(CotSender, "__init__", lambda _sender, found: sent.append(str(found.address)))
    monkeypatch.setattr(CotSender, "__exit__", lambda *_: None)
    monkeypatch.setattr(CotSender, "send", lambda *_: None)
    peer = str(daemon.driver.engine.known.by_name["n2"].card.address)  # type: ignore[union-attr]

    def pause(_seconds: float) -> None:
        turns.append(0.0)
        daemon.driver.tell(PeerRemoved("n2"))
        if len(turns) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("meshsec.cli.cot_sending.time.sleep", pause)
    result = meshsec("monitor", "cot", "--send", f"udp://[{peer}]:1")
    assert "Aborted" in result.output
    assert sent == [peer], "once"
    assert "neither this machine's nor a trusted peer's" in result.output


def test_an_interface_that_becomes_the_meshs_gets_nothing_any_more(
    meshsec: Meshsec, daemon: Placed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(CotSender, "__init__", lambda _sender, found: sent.append(found.interface))
    monkeypatch.setattr(CotSender, "__exit__", lambda *_: None)
    monkeypatch.setattr(CotSender, "send", lambda *_: None)
    (tmp_path / "net/ap0").mkdir(parents=True)
    monkeypatch.setattr("meshsec.adapters.sockets.cot_sender._NET", tmp_path / "net")
    config = tmp_path / "a/meshsec.toml"
    good = config.read_text()
    contents = iter((good.replace('["mesh0"', '["ap0"'), "[routing", good))

    def pause(_seconds: float) -> None:
        content = next(contents, None)
        if content is None:
            raise KeyboardInterrupt
        config.write_text(content)

    monkeypatch.setattr("meshsec.cli.cot_sending.time.sleep", pause)
    result = meshsec("monitor", "cot", "--send", "udp://239.2.3.1:6969", "--interface", "ap0")
    assert sent == ["ap0", "ap0"], "at first, and when it is none of the mesh's again"
    assert "ap0 leads into the mesh (ap0)" in result.output
    assert "meshsec.toml" in result.output, "a configuration that cannot be read keeps all back"


def test_the_mesh_for_meshviewer_has_the_places(meshsec: Meshsec, daemon: Placed) -> None:
    found = json.loads(meshsec("monitor", "meshviewer").stdout)
    assert {one["hostname"] for one in found["nodes"]} >= {"n1", "n2"}
