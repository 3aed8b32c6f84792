"""The map in a real browser: on the node itself, which sees where its peers are, and on a peer, which does not."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.foreign.gpsd import GPSD, receiver
from tests.lab.lab import Lab
from tests.lab.net.namespaces import within
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.page.recorded import Answers, answering, answers
from tests.scenarios.page.test_page import address_of, opened, text
from tests.scenarios.page.tiles import one_colour

NETJSONGRAPH = REPOSITORY / "daemon/page/node_modules/netjsongraph.js"
PLACE: dict[str, Any] = {
    "node": "a",
    "address": "fc00::1",
    "latitude": 47.25,
    "longitude": 11.5,
    "altitude": 620.4,
    "accuracy": None,
    "altitude_accuracy": None,
    "fixed": True,
    "age": 0.0,
    "reached": True,
}
RED = "return document.querySelector('#map canvas').getContext('2d').getImageData(60, 60, 1, 1).data.join(' ')"


def row(browser: Browser, node: str) -> list[str]:
    """Return the texts of a node's row, without its name; none without such a row."""
    found: list[str] = browser.run(
        "const rows = [...document.querySelectorAll('#map tbody tr')].map((row) => [...row.cells]);"
        "const found = rows.find(([name]) => name.textContent === arguments[0]) ?? [];"
        "return found.slice(1).map((one) => one.textContent)",
        node,
    )
    return found


def wait_row(browser: Browser, node: str, latitude: str) -> list[str]:
    browser.wait(
        "return [...document.querySelectorAll('#map tbody tr')].some((row) => "
        "row.cells[0].textContent === arguments[0] "
        "&& row.cells[1].textContent === arguments[1])",
        node,
        latitude,
    )
    return row(browser, node)


@pytest.fixture(scope="module")
def mesh() -> Iterator[Lab]:
    """Start base and ridge, of which base stands still and ridge has a receiver."""
    with Lab("map", [("base", "ridge")], Options(ipv4=True)) as lab:
        lab.set_up({"base": Options(ipv4=True, page={})}).trust_all()
        for name, table in (("base", "latitude = 47.25\nlongitude = 11.5"), ("ridge", "gpsd = true")):
            with lab[name].config.open("a", encoding="utf-8") as config:
                config.write(f"\n[position]\n{table}\n")
        lab.start()
        lab.wait_full_mesh()
        yield lab


@pytest.mark.skipif(not GPSD.exists(), reason="gpsd is not there: `make setup` unpacks it")
def test_the_node_sees_its_peer_move_and_the_peer_sees_nothing_until_it_is_logged_in(mesh: Lab) -> None:
    base, ridge = mesh["base"], mesh["ridge"]
    with receiver(ridge) as gps, Browser(base.namespace) as browser:
        gps.move(47.26, -11.5, 667.0)
        browser.open("http://localhost:8269/")
        assert wait_row(browser, "ridge", "47.26000")[1:3] == ["-11.50000", "667 m"]
        assert row(browser, "base") == ["47.25000", "11.50000", "\u2013", "\u2013", "fixed"]
        browser.run("window.isTheSamePage = true")
        gps.move(47.27, -11.5, 667.0)
        wait_row(browser, "ridge", "47.27000")
        assert browser.run("return window.isTheSamePage")
        assert browser.complaints() == []
    with Browser(ridge.namespace) as browser:
        browser.open(address_of(base))
        browser.wait("return document.querySelectorAll('#peers tbody tr').length === 1")
        asked = "return fetch('/api/positions').then((answer) => answer.json())"
        assert browser.run(asked) == {"shown": False}
        assert browser.run("return fetch('/meshviewer.json').then((answer) => answer.text())").count("location") == 0
        assert browser.run("return document.querySelector('#map')") is None
        browser.open(json.loads(base.meshsec("page", "login", "--json").stdout)["mesh"])
        wait_row(browser, "ridge", "47.27000")
        assert browser.complaints() == []


def test_netjsongraph_draws_the_mesh(mesh: Lab) -> None:
    base = mesh["base"]
    graph = base.meshsec("monitor", "netjson").stdout
    with Browser(base.namespace) as browser:
        browser.open("data:text/html,<body></body>")
        for script in ("lib/d3.min.js", "src/netjsongraph.js"):
            browser.run("(0, eval)(arguments[0])", (NETJSONGRAPH / script).read_text(encoding="utf-8"))
        browser.run(
            "const graph = JSON.parse(arguments[0]); d3.json = (_, done) => done(null, graph);"
            "d3.netJsonGraph('given', {defaultStyle: false, animationAtStart: false})",
            graph,
        )
        browser.wait("return document.querySelectorAll('.njg-node').length === 2")
        labels = browser.run("return [...document.querySelectorAll('.njg-node')].map((one) => one.__data__.label)")
        assert sorted(labels) == ["base", "ridge"]
        assert browser.run("return document.querySelectorAll('.njg-link').length") == 1


def test_atak_gets_events_where_the_operator_sends_them_and_the_mesh_carries_none(mesh: Lab) -> None:
    base = mesh["base"]
    printed = [fromstring(line) for line in base.meshsec("monitor", "cot").stdout.splitlines()]  # noqa: S314
    assert {one.find("detail/contact").attrib["callsign"] for one in printed} >= {"base"}  # type: ignore[union-attr]
    with within(base.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        port = server.getsockname()[1]
        command = [programs.meshsec(), "--config", str(base.config), "monitor", "cot"]
        base.run("timeout", "3", *command, "--send", f"udp://127.0.0.1:{port}", check=False)
        event = fromstring(server.recv(4000))  # noqa: S314
        assert (event.tag, event.attrib["version"]) == ("event", "2.0")
    interface = base.interfaces[0]
    for where in (["udp://239.2.3.1:6969"], ["udp://239.2.3.1:6969", "--interface", interface], ["udp://10.1.1.1:1"]):
        refused = base.meshsec("monitor", "cot", "--send", *where, check=False)
        assert refused.returncode == 1
        assert "mesh" in refused.stderr + refused.stdout


# --- without a mesh: recorded answers ---


@pytest.fixture(scope="module")
def alone() -> Iterator[Node]:
    """Return a node with its page, and no other daemon."""
    with Lab("map-alone", [("a", "b")]) as lab:
        lab.set_up({"a": Options(page={})})
        yield lab["a"]


def placed(*places: dict[str, Any]) -> Answers:
    recorded = answers()
    recorded["positions"]["positions"] = list(places)
    return recorded


def test_hostile_values_are_text_and_extremes_are_drawn(alone: Node) -> None:
    name = "<img src=x onerror=window.ran=1>\u202e"
    wild = [
        {**PLACE, "node": name, "latitude": 90.0, "longitude": 180.0, "accuracy": 1e6},
        {**PLACE, "node": "__proto__", "latitude": -90.0, "longitude": -180.0, "altitude": -12000.0},
        {**PLACE, "node": "constructor", "fixed": False, "age": 604_800.0, "reached": False},
    ]
    with answering(alone.run_directory / "view.sock", placed(PLACE, *wild)), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelectorAll('#map tbody tr').length === 4")
        assert row(browser, name) == ["90.00000", "180.00000", "620 m", "1000000 m", "fixed"]
        assert row(browser, "constructor")[-1] == "168.0 h ago, out of reach"
        label = browser.run("return document.querySelector('#map canvas').getAttribute('aria-label')")
        assert label.startswith("4 nodes on the map, 1 of them out of reach")
        assert browser.run("return window.ran") is None
        assert browser.complaints() == []


def test_the_map_has_a_grid_and_with_a_file_images(alone: Node) -> None:
    tiles = alone.config.parent / "map.pmtiles"
    with answering(alone.run_directory / "view.sock", placed(PLACE)), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelectorAll('#map tbody tr').length === 1")
        assert browser.run(RED) == "0 0 0 0", "there is nothing but lines"
        tiles.write_bytes(one_colour(255, 0, 0))
        browser.open("about:blank")
        browser.open("http://localhost:8269/")
        browser.wait(f"if (!document.querySelector('#map canvas')) return false; {RED} === '255 0 0 255'")
        assert [one for one in browser.complaints() if "getImageData" not in one] == []
        tiles.write_bytes(b"PMTiles\x03" + b"\xff" * 300)
        browser.open("about:blank")
        browser.open("http://localhost:8269/")
        browser.wait("return document.querySelectorAll('#map tbody tr').length === 1")
    tiles.unlink()


def test_without_places_there_is_no_map(alone: Node) -> None:
    with answering(alone.run_directory / "view.sock", placed()), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelectorAll('#peers tbody tr').length > 0")
        browser.run("return fetch('/api/positions').then((answer) => answer.json())")
        assert text(browser, "#map") == ""
