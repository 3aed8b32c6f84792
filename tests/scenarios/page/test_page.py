"""The page in a real browser, which runs on a peer and reaches the node through their SA.

The mesh is a ring: base - ridge - ford - hut - relay - base. All but the relay trust each other.
"""

import json
import os
import re
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from meshsec.page.web import PULSE_SECONDS
from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY
from tests.lab.lab import Lab
from tests.lab.observe.browser import Browser
from tests.scenarios.offering import offering
from tests.scenarios.page.browsing import PICTURES, address_of, choose, element, select, serving, text

AXE = REPOSITORY / "daemon/page/node_modules/axe-core/axe.min.js"


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
    browser.wait("return /Last: \\d+ ms, with (ridge|ford|hut)/.test(document.querySelector('#figures')?.innerText)")
    assert re.search(r"Now [\d.]+ k?bit/s in, [\d.]+ k?bit/s out", text(browser, "#figures"))
    assert browser.run("return document.querySelectorAll('#figures canvas').length") == 2


def test_what_a_peer_offers_is_shown_while_it_does_with_a_link_that_works(
    mesh: Lab, browser: Browser, foreign: Path
) -> None:
    hut = mesh["hut"]
    browser.wait("return document.querySelector('#services')?.innerText.includes('offers anything')")
    address = f"http://[{hut.address}]:8000/"
    with serving(hut, foreign), offering(hut, '[[service]]\nname = "wiki"\nport = 8000\n'):
        browser.wait("return document.querySelector('#services a')?.href === arguments[0]", address)
        assert "\thut\t" in text(browser, "#services tbody tr")
        browser.open(address)
        assert browser.run("return document.title") == "foreign"
        browser.complaints()  # It has no icon.
        browser.open(address_of(mesh["base"]))
        browser.wait("return document.querySelector('#services a')")
    browser.wait("return document.querySelector('#services') && !document.querySelector('#services a')")


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
