"""The map in a real browser: on the node itself, which sees where its peers are, and on a peer, which does not."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from selenium.webdriver.common.keys import Keys

from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.foreign.gpsd import GPSD, receiver
from tests.lab.lab import Lab
from tests.lab.net.namespaces import within
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.page.browsing import address_of, text
from tests.scenarios.page.recorded import Answers, answering, answers
from tests.scenarios.page.test_page import AXE
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
PICTURE = "return document.querySelector('#map canvas').toDataURL()"
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
def pair() -> Iterator[Lab]:
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
def test_the_node_sees_its_peer_move_and_the_peer_sees_nothing_until_it_is_logged_in(pair: Lab) -> None:
    base, ridge = pair["base"], pair["ridge"]
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


def test_netjsongraph_draws_the_mesh(pair: Lab) -> None:
    base = pair["base"]
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


def test_atak_gets_events_where_the_operator_sends_them_and_the_mesh_carries_none(pair: Lab) -> None:
    base = pair["base"]
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


class Alone:
    """A node with its page and no other daemon, and a browser on it."""

    def __init__(self, node: Node, browser: Browser, recorded: Answers) -> None:
        self.browser = browser
        self.tiles = node.config.parent / "map.pmtiles"
        self._recorded = recorded

    def open(self, *places: dict[str, Any]) -> None:
        """Open the page of a node that knows these places."""
        self.place(*places)
        self.browser.open("about:blank")
        self.browser.open("http://localhost:8269/")
        self.browser.wait("return document.querySelectorAll('#peers tbody tr').length > 0")

    def place(self, *places: dict[str, Any]) -> None:
        """Let the node know these places from now on."""
        self._recorded["positions"]["positions"] = list(places)

    def wait_rows(self, count: int) -> None:
        self.browser.wait("return document.querySelectorAll('#map tbody tr').length === arguments[0]", count)


@pytest.fixture(scope="module")
def served() -> Iterator[Alone]:
    recorded = answers()
    with Lab("map-alone", [("a", "b")]) as lab:
        node = lab.set_up({"a": Options(page={})})["a"]
        with answering(node.run_directory / "view.sock", recorded), Browser(node.namespace) as browser:
            node.daemons.page.start()
            node.daemons.page.wait_ready()
            yield Alone(node, browser, recorded)


@pytest.fixture
def alone(served: Alone) -> Iterator[Alone]:
    yield served
    served.tiles.unlink(missing_ok=True)
    # Reading the canvas back is the test's own doing.
    assert [one for one in served.browser.complaints() if "getImageData" not in one] == []


def test_hostile_values_are_text_and_extremes_are_drawn(alone: Alone) -> None:
    name = "<img src=x onerror=window.ran=1>\u202e"
    wild = [
        {**PLACE, "node": name, "latitude": 90.0, "longitude": 180.0, "accuracy": 1e6},
        {**PLACE, "node": "__proto__", "latitude": -90.0, "longitude": -180.0, "altitude": -12000.0},
        {**PLACE, "node": "constructor", "fixed": False, "age": 604_800.0, "reached": False},
    ]
    alone.open(PLACE, *wild)
    alone.wait_rows(4)
    assert row(alone.browser, name) == ["90.00000", "180.00000", "620 m", "1000000 m", "fixed"]
    assert row(alone.browser, "constructor")[-1] == "168.0 h ago, out of reach"
    label = alone.browser.run("return document.querySelector('#map canvas').getAttribute('aria-label')")
    assert label.startswith("4 nodes on the map, 1 of them out of reach")
    assert alone.browser.run("return window.ran") is None


def test_the_map_has_a_grid_and_with_a_file_images(alone: Alone) -> None:
    alone.open(PLACE)
    alone.wait_rows(1)
    assert alone.browser.run(RED) == "0 0 0 0", "there is nothing but lines"
    alone.tiles.write_bytes(one_colour(255, 0, 0))
    alone.browser.wait(f"{RED} === '255 0 0 255'")
    alone.tiles.write_bytes(b"PMTiles\x03" + b"\xff" * 300)
    alone.open(PLACE)
    alone.wait_rows(1)


def test_the_map_comes_and_goes_with_the_places(alone: Alone) -> None:
    alone.open()
    asked = "return fetch('/api/positions').then((answer) => answer.json())"
    assert alone.browser.run(asked) == {"shown": True, "map": False, "positions": []}
    assert text(alone.browser, "#map") == ""
    alone.place(PLACE)
    alone.wait_rows(1)
    alone.place()
    alone.browser.wait("return !document.querySelector('#map')")


def test_the_map_can_be_used_by_keyboard_and_screen_reader(alone: Alone) -> None:
    alone.open(PLACE, {**PLACE, "node": "b", "reached": False, "fixed": False, "age": 90.0})
    alone.wait_rows(2)
    names = (
        "return [...document.querySelectorAll('#map button')]"
        ".map((one) => one.getAttribute('aria-label') ?? one.innerText)"
    )
    assert alone.browser.run(names) == ["Larger map", "Smaller map", "Show all on the map"]
    before = alone.browser.run(PICTURE)
    for key in (Keys.ENTER, Keys.SPACE):
        alone.browser.run("document.querySelector('#map button').focus()")
        alone.browser.do(lambda driver, key=key: driver.switch_to.active_element.send_keys(key))  # type: ignore[misc]
    alone.browser.wait(f"const before = arguments[0]; {PICTURE} !== before", before)
    alone.browser.run(AXE.read_text())
    found = alone.browser.do(
        lambda driver: driver.execute_async_script("axe.run('#map').then((found) => arguments[0](found.violations))")
    )
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}] == []
