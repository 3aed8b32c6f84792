"""What ``meshsec doctor`` finds of other programs on the machine while meshsecd runs, with a server in its place."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from meshsec.adapters import network_manager
from meshsec.adapters.kernel import firewalls
from meshsec.adapters.sockets.control import ControlServer
from meshsec.core.explain.firewall_doctor import Closed

Meshsec = Callable[..., Result]


@pytest.fixture
def neighbours(meshsec: Meshsec, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give the check of neighbours that meshsecd answers with."""
    (tmp_path / "a/run").mkdir()
    check = {"name": "neighbours", "level": "warn", "found": "none", "mend": ""}
    started, stop = threading.Event(), threading.Event()

    async def answer(method: str, _params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "status":
            return {"esp_ground": "libipsec"}
        return {"schema": "meshsec-doctor-1", "verdict": "ok", "checks": [check]}

    async def serve() -> None:
        server = ControlServer(tmp_path / "a/run/control.sock", answer)
        await server.start()
        started.set()
        await asyncio.to_thread(stop.wait, 60)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    yield check
    stop.set()
    thread.join(60)


def found(meshsec: Meshsec, name: str) -> list[dict[str, str]]:
    checks: list[dict[str, str]] = json.loads(meshsec("doctor", "--json").stdout)["checks"]
    return [one for one in checks if one["name"] == name]


def test_a_closed_firewall_is_named_while_no_neighbour_is_heard(
    meshsec: Meshsec, neighbours: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(meshsec, "other firewalls") == []
    monkeypatch.setattr(firewalls, "closed", lambda: {Closed("inet", "filter", ("input",)): ""})
    (check,) = found(meshsec, "other firewalls")
    assert check["level"] == "warn"
    neighbours["level"] = "ok"
    assert found(meshsec, "other firewalls") == []


def test_an_interface_that_networkmanager_has_comes_with_the_commands_that_take_it_away(
    meshsec: Meshsec, neighbours: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(meshsec, "interface mesh0") == []
    monkeypatch.setattr(network_manager, "managed", list)
    (check,) = found(meshsec, "interface mesh0")
    assert "NetworkManager manages it" in check["found"]
    file = "/etc/NetworkManager/conf.d/meshsec-mesh0.conf"
    assert f"printf '[keyfile]\\nunmanaged-devices+=interface-name:mesh0\\n' >{file}" in check["mend"]


def test_a_signer_that_is_away_is_named_where_signatures_are_looked_at(
    meshsec: Meshsec, neighbours: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "a/meshsec.toml"
    signed = config.read_text().replace("[routing]", f"[routing]\nsocket = '{tmp_path}/changes.sock'")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        config.write_text(signed)
        assert found(meshsec, "routing signatures") == [], "olsrv2d does not answer: another check says so"
        listener.bind(str(tmp_path / "query.sock"))
        listener.listen()
        answers = ['{"signatures":"prefer","signer":"away","verified":3}', "Error, unknown command 'signatures'"]
        thread = threading.Thread(target=answer_each, args=(listener, answers))
        thread.start()
        (check,) = found(meshsec, "routing signatures")
        assert (check["level"], "olsrv2-signer is away" in check["found"]) == ("fail", True)
        assert found(meshsec, "routing signatures") == [], "an older olsrv2d"
        thread.join(60)
        config.write_text(signed.replace("[routing]", "[routing]\nsignatures = 'off'"))
        assert found(meshsec, "routing signatures") == [], "nobody asks"


def answer_each(listener: socket.socket, answers: list[str]) -> None:
    for answer in answers:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(100) == b"/signatures\n"
            connection.sendall(answer.encode() + b"\n")
