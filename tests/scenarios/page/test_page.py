"""The page in a real browser, which runs on a peer and reaches the node through their SA.

The mesh is a ring: base - ridge - ford - hut - relay - base. All but the relay trust each other.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from meshsec.page.web import PULSE_SECONDS
from tests.lab.basics.patience import patient
from tests.lab.basics.places import BUILD, REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.lab import Lab
from tests.lab.net.topology import ring
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.page.recorded import Answers, answering, answers, large

NODES = ["base", "ridge", "ford", "hut", "relay"]
AXE = REPOSITORY / "daemon/page/node_modules/axe-core/axe.min.js"
PICTURES = REPOSITORY / "docs/guide/images" if os.environ.get("MESHSEC_PICTURES") else BUILD / "page-pictures"
"""Where pictures go. With the variable they are those of the documents."""
LARGE = 1000
SECONDS = 2.0
BYTES = 300_000
TRIES = 5
"""Number of tries, of which the fastest counts: a busy machine may stall a browser during one of them."""
FOREIGN = """\
<!doctype html><title>foreign</title><script>
const target = location.hash.slice(1);
const said = [];
const tried = (name, answer) => answer.then(() => said.push(`${name}: read`), () => said.push(`${name}: blocked`));
const body = JSON.stringify({ method: "peer_remove", params: { name: "ridge" } });
const json = { "Content-Type": "application/json", Authorization: "Bearer x" };
Promise.all([
  tried("look", fetch(`${target}/api/document`)),
  tried("json", fetch(`${target}/api/change`, { method: "POST", headers: json, body })),
  tried("text", fetch(`${target}/api/change`, { method: "POST", body })),
]).then(() => { document.title = said.sort().join(", "); });
</script>"""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Lab]:
    with Lab("page", ring(NODES), Options(ipv4=True)) as lab:
        lab.set_up({"base": Options(ipv4=True, page={})})
        friends = [lab[name] for name in NODES if name != "relay"]
        for node in friends:
            for other in friends:
                if node is not other:
                    node.install_card(other)
        lab.start()
        for other in friends[1:]:
            lab["base"].wait_protected(other)
        yield lab


@pytest.fixture(scope="module")
def on_the_ridge(mesh: Lab) -> Iterator[Browser]:
    """Return a browser on the ridge."""
    with Browser(mesh["ridge"].namespace) as browser:
        yield browser


@pytest.fixture
def browser(mesh: Lab, on_the_ridge: Browser) -> Iterator[Browser]:
    """Return that browser with the page of the base, which is opened anew."""
    mesh.heal()
    on_the_ridge.look()
    on_the_ridge.open("about:blank")
    on_the_ridge.open(address_of(mesh["base"]))
    on_the_ridge.wait(f"return document.querySelectorAll('#peers tbody tr').length === {len(NODES) - 2}")
    yield on_the_ridge
    assert on_the_ridge.complaints() == []


def address_of(node: Node, port: int = 8269) -> str:
    return f"http://[{node.address}]:{port}"


def text(browser: Browser, selector: str) -> str:
    return str(browser.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))


def element(browser: Browser, selector: str) -> WebElement:
    return browser.do(lambda driver: driver.find_element(By.CSS_SELECTOR, selector))


def choose(browser: Browser, name: str) -> None:
    select(browser, "#mesh select", name)


def select(browser: Browser, selector: str, name: str) -> None:
    """Choose from a list, once the name is in it."""
    has = "return [...document.querySelector(arguments[0]).options].some((one) => one.text === arguments[1])"
    browser.wait(has, selector, name)
    browser.do(lambda driver: Select(driver.find_element(By.CSS_SELECTOR, selector)).select_by_visible_text(name))


def test_the_page_shows_what_meshsecd_knows(mesh: Lab, browser: Browser) -> None:
    assert text(browser, "h1") == "base"
    assert mesh["base"].address in text(browser, "#node")
    assert "3 of 3 are protected." in text(browser, "#peers")
    summary = "5 nodes; 3 edges protected, 0 not protected, 2 of strangers"
    browser.wait("return document.querySelector('canvas').getAttribute('aria-label') === arguments[0]", summary)
    choose(browser, "ford")
    browser.wait("return document.querySelector('#route').innerText === 'Route: base → ridge → ford'")
    sentences = mesh["base"].control.ask("explain", peer="ford")["sentences"]
    browser.wait("return document.querySelector('.explanation li')?.innerText === arguments[0]", sentences[0])


def test_a_lost_link_is_shown_by_itself_with_the_new_route(mesh: Lab, browser: Browser) -> None:
    choose(browser, "ford")
    browser.wait("return document.querySelector('#route').innerText === 'Route: base → ridge → ford'")
    browser.run("window.isTheSamePage = true")
    mesh.link("ridge", "ford").down()
    found = browser.wait(
        "const text = document.querySelector('#route').innerText; return text.endsWith('hut → ford') && text"
    )
    assert found.startswith("Route: base → fd")
    assert browser.run("return window.isTheSamePage")


def test_a_login_adds_and_removes_a_peer_and_works_once(mesh: Lab, browser: Browser) -> None:
    base, relay = mesh["base"], mesh["relay"]
    assert "meshsec page login" in text(browser, "#change")
    login = json.loads(base.meshsec("page", "login", "--json").stdout)["mesh"]
    browser.open(login)  # In the tab that shows the page.
    browser.wait("return document.querySelector('#change textarea')")
    assert "login" not in browser.run("return location.href")
    fill(browser, "relay", relay.card[:-1])
    browser.wait("return document.querySelector('#change [role=status]')?.innerText.includes('character')")
    assert base.control.peer("relay") == {}
    fill(browser, "relay", relay.card)
    browser.wait("return document.querySelectorAll('#peers tbody tr').length === 4")
    assert base.control.peer("relay")["address"] == relay.address
    select(browser, "#change select", "relay")
    element(browser, "#change form:last-of-type button").click()
    browser.do(lambda driver: driver.switch_to.alert.accept())
    browser.wait("return document.querySelectorAll('#peers tbody tr').length === 3")
    assert base.control.peer("relay") == {}
    base.meshsec("page", "logout")
    fill(browser, "relay", relay.card)
    browser.wait("return document.querySelector('#change [role=status]')?.innerText.includes('nobody is logged in')")
    open_login(browser, login)
    browser.wait("return document.querySelector('#change [role=status]')?.innerText.includes('used already')")
    assert base.control.peer("relay") == {}
    refused = browser.complaints()
    assert all("/api/" in one and ("401" in one or "409" in one) for one in refused), refused


def open_login(browser: Browser, address: str) -> None:
    """Open the address in a tab that shows something else: one that differs behind # alone loads nothing."""
    browser.open("about:blank")
    browser.open(address)


def fill(browser: Browser, name: str, card: str) -> None:
    for selector, value in (("#change input", name), ("#change textarea", card)):
        found = element(browser, selector)
        browser.do(lambda _, found=found: found.clear())  # type: ignore[misc]
        browser.do(lambda _, found=found, value=value: found.send_keys(value))  # type: ignore[misc]
    browser.do(lambda driver: driver.find_element(By.CSS_SELECTOR, "#change form button").click())


def test_a_foreign_page_reads_nothing_and_changes_nothing(mesh: Lab, on_the_ridge: Browser, tmp_path: Path) -> None:
    ridge, base = mesh["ridge"], mesh["base"]
    (tmp_path / "index.html").write_text(FOREIGN)
    argv = ["python3", "-m", "http.server", "--bind", "::1", "--directory", str(tmp_path), "8000"]
    server = Daemon("foreign", ridge.namespace, argv, logs=ridge.logs, sockets=ridge.run_directory, notifies=False)
    server.start()
    try:
        ridge.wait_for("the foreign page", lambda: server_answers(ridge), 30)
        on_the_ridge.open(f"http://[::1]:8000/#{address_of(base)}")
        on_the_ridge.wait("return document.title.includes(',')")
        assert on_the_ridge.run("return document.title") == "json: blocked, look: blocked, text: blocked"
        assert base.control.peer("ridge")["state"] == "protected"
        on_the_ridge.complaints()
    finally:
        server.kill()


def server_answers(node: Node) -> bool:
    return (
        node.run("python3", "-c", "import urllib.request as u; u.urlopen('http://[::1]:8000/')", check=False).returncode
        == 0
    )


ATTEMPTS = {
    "const made = document.createElement('script'); made.append('window.ran = true'); put(made)": "TrustedScript",
    "document.body.setAttribute('onclick', 'window.ran = true'); document.body.click()": "TrustedScript",
    "document.body.innerHTML = '<img src=x onerror=window.ran=true>'": "TrustedHTML",
    "const made = document.createElement('style'); made.append('* { color: red }'); put(made)": "inline style",
    "const made = new Image(); made.src = 'http://[::1]:8000/x.png'; put(made)": "Loading the image",
    "fetch('http://[::1]:8000/').catch(() => 0)": "Content Security Policy",
}
"""What an attacker who can put something into the page would try, and the word by which the browser refuses it."""


def test_nothing_inline_and_nothing_from_elsewhere_runs(browser: Browser) -> None:
    for attempt, refusal in ATTEMPTS.items():
        browser.run(f"const put = (made) => document.body.append(made); try {{ {attempt} }} catch {{ }}")
        browser.run("return new Promise((resolve) => setTimeout(resolve, 50))")
        assert refusal in " ".join(browser.complaints()), attempt
    assert browser.run("return window.ran") is None


def test_a_page_that_was_left_keeps_no_connection(mesh: Lab, browser: Browser) -> None:
    """A browser opens six connections. One of a page that it keeps for the way back would be free at the next pulse."""
    started = time.monotonic()
    for _ in range(8):
        browser.open("about:blank")
        browser.open(address_of(mesh["base"]))
        browser.wait("return document.querySelector('canvas')")
    assert time.monotonic() - started < patient(1.5 * PULSE_SECONDS)


def test_it_can_be_used_by_keyboard_alone(browser: Browser) -> None:
    def press(*keys: str) -> None:
        browser.do(lambda driver: driver.switch_to.active_element.send_keys(*keys))

    press(Keys.TAB)
    assert browser.run("return document.activeElement.innerText") == "To the content"
    for _ in range(20):
        press(Keys.TAB)
        if browser.run("return document.activeElement.matches('#peers button')"):
            break
    press(Keys.ENTER)
    browser.wait("return document.querySelector('#route').innerText.startsWith('Route: base')")
    assert browser.run("return document.activeElement.getAttribute('aria-pressed')") == "true"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390], ids=["desk", "phone"])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    browser: Browser, dark: bool, width: int
) -> None:
    browser.look(dark=dark, width=width, height=844 if width < 600 else 1300)
    choose(browser, "ford")
    browser.wait("return document.querySelector('.explanation li')")
    if os.environ.get("MESHSEC_PICTURES"):
        browser.wait("return performance.now() > 3000")  # the drawing comes to rest
        browser.run("document.activeElement.blur()")
    if dark == (width < 600):
        browser.picture(PICTURES / ("page-phone.png" if dark else "page.png"))
    browser.run(AXE.read_text())
    found = browser.do(
        lambda driver: driver.execute_async_script("axe.run().then((found) => arguments[0](found.violations))")
    )
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}] == []
    assert browser.run("return document.documentElement.scrollWidth") <= width


# --- without a mesh: recorded answers ---


@pytest.fixture(scope="module")
def alone() -> Iterator[Node]:
    """Return a node with its page, and no other daemon."""
    with Lab("page-alone", [("a", "b")]) as lab:
        lab.set_up({"a": Options(page={})})
        yield lab["a"]


def opened(node: Node, browser: Browser) -> None:
    node.daemons.page.kill()
    node.daemons.page.start()
    node.daemons.page.wait_ready()
    browser.open("http://localhost:8269/")


def test_a_thousand_nodes_are_shown_in_two_seconds_and_300_kb(alone: Node) -> None:
    shown = """
        const rows = document.querySelectorAll("#peers tbody tr").length;
        const label = document.querySelector("canvas")?.getAttribute("aria-label") ?? "";
        return rows === arguments[0] && label.startsWith(`${arguments[0] + 1} nodes`) && performance.now();
    """
    with answering(alone.run_directory / "view.sock", large(LARGE)), Browser(alone.namespace) as browser:
        times, sizes = [], []
        for _ in range(TRIES):
            browser.received()
            opened(alone, browser)
            times.append(browser.wait(shown, LARGE) / 1000)
            sizes.append(browser.received())
            if times[-1] <= SECONDS:
                break
        browser.look(width=1100, height=700)
        browser.run("document.querySelector('#mesh').scrollIntoView()")
        if os.environ.get("MESHSEC_PICTURES"):
            browser.wait("return performance.now() > 8000")
        browser.picture(PICTURES / "page-1000.png")
    print(f"{LARGE} nodes: {min(times):.2f} s, {max(sizes)} bytes, {alone.daemons.page.resident_bytes()} resident")
    assert min(times) <= SECONDS, "never in time"
    assert max(sizes) <= BYTES, "the first try has nothing in its cache"


HOSTILE = [
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    "__proto__",
    "constructor",
    "a b",
    "\u202egnp.exe",
]


def test_hostile_names_and_reasons_are_text(alone: Node) -> None:
    with answering(alone.run_directory / "view.sock", hostile()), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelectorAll('#peers tbody tr').length === arguments[0]", len(HOSTILE))
        names = browser.run(
            "return [...document.querySelectorAll('#peers tbody button')].map((one) => one.textContent)"
        )
        assert sorted(names) == sorted(HOSTILE)
        for number in range(len(HOSTILE)):
            browser.run("document.querySelectorAll('#peers tbody button')[arguments[0]].click()", number)
            browser.wait("return document.querySelector('.explanation')")
        assert browser.run("return window.ran") is None
        assert browser.run("return document.querySelectorAll('img, #page script').length") == 0
        assert HOSTILE[0] in text(browser, "#node")
        assert browser.run("return document.title") == f"{HOSTILE[0]} \u2013 meshsec"


def hostile() -> Answers:
    made = answers()
    model = made["status"]["peers"][0]
    made["status"]["node"]["name"] = HOSTILE[0]
    made["status"]["problems"] = HOSTILE
    made["status"]["peers"] = [
        {**model, "name": name, "address": f"fc00::{number + 1}", "ipv4": None, "reason": HOSTILE[1]}
        for number, name in enumerate(HOSTILE)
    ]
    for check in made["doctor"]["checks"]:
        check.update(level="fail", found=HOSTILE[0], mend=HOSTILE[1])
    made["clients"] |= {"networks": HOSTILE, "nodes": HOSTILE, "problems": HOSTILE}
    made["explain"] = {"sentences": HOSTILE}
    return made
