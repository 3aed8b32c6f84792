"""What ``meshsec doctor`` finds of other programs on the machine while meshsecd runs, with a server in its place."""

import asyncio
import json
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
    check = {"name": "neighbours", "level": "warn", "found": "", "mend": ""}
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
