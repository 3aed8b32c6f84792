"""Nodes that ask to join are approved on the page, by words and by a photo of their QR code (ADR 0081).

The mesh is a line: a - b - c - d. The fleet's key and the browser are on a. Nobody trusts anybody in the beginning.
"""

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By

from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.basics.places import BUILD, REPOSITORY
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.expectations import states
from tests.scenarios.page import photos
from tests.scenarios.page.recorded import answering, answers

AXE = REPOSITORY / "daemon/page/node_modules/axe-core/axe.min.js"
ENTRY = """
    const entries = [...document.querySelectorAll("#requests li")];
    const entry = entries.find((one) => one.querySelector("h3").innerText === arguments[0]);
"""
LABELS = "const labels = [...entry.querySelectorAll('button')].map((one) => one.innerText);"
NAMES = ["<script>window.ran=1</script>", "<img src=x onerror=window.ran=1>", "__proto__", "\u202egnp.exe"]
HOSTILE = "<img src=x onerror=window.ran=1>\u202e" * 8


@pytest.fixture
def mesh() -> Iterator[Lab]:
    with Lab("page-join", line(names(4))) as lab:
        lab.set_up({"a": Options(page={})})
        yield lab.start()


class Signing:
    """`meshsec page login --approve`, while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = next(line for line in self.lines() if line.startswith("http://localhost"))
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (1, 1), "no core dump has the fleet's key"

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        yield from (line.strip() for line in self._process.stdout)

    def line(self, pattern: str) -> str:
        """Return the next line in which this is found."""
        return next(line for line in self.lines() if re.search(pattern, line))

    def interrupt(self) -> None:
        self._process.send_signal(2)
        assert self._process.wait(patient(30)) == 0


@contextmanager
def signing(node: Node, office: str) -> Iterator[Signing]:
    argv = [programs.meshsec(), "--config", str(node.config), "page", "login", "--approve", "--directory", office]
    inside = ["ip", "netns", "exec", node.namespace, *argv]
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Signing(process)
        finally:
            process.kill()


def said(browser: Browser, part: str) -> None:
    """Wait until the section says this."""
    has = "return document.querySelector('#requests [role=status]').innerText.includes(arguments[0])"
    try:
        browser.wait(has, part)
    except TimeoutException:
        found = browser.run("return document.querySelector('#requests [role=status]').innerText")
        raise AssertionError(f"the section says {found!r}, not {part!r}") from None


def asks(browser: Browser, node: Node) -> None:
    browser.wait(f"{ENTRY} return entry", node.name, seconds=90)


def press(browser: Browser, node: Node, label: str) -> None:
    """Press a button of a request by the beginning of its label."""
    buttons = "const buttons = [...(entry?.querySelectorAll('button') ?? [])];"
    found = f"{ENTRY} {buttons} const found = buttons.find((one) => one.innerText.startsWith(arguments[1]));"
    browser.wait(f"{found} return found", node.name, label)
    browser.run(f"{found} found.click()", node.name, label)


def show(browser: Browser, path: str) -> None:
    """Give the page a photo."""
    browser.do(lambda driver: driver.find_element(By.CSS_SELECTOR, "#requests input[type=file]").send_keys(path))


def words_of(node: Node) -> str:
    return " ".join(node.control.ask("status")["joining"][0]["words"])


def qr_of(node: Node) -> list[list[int]]:
    """Return the code as the node's terminal shows it."""
    return photos.drawn(node.meshsec("key", "show", "--qr").stdout)


def test_nodes_are_approved_by_words_and_by_a_photo_and_all_members_know(mesh: Lab, tmp_path: Path) -> None:
    a, b, c, d = (mesh[name] for name in "abcd")
    office = str(tmp_path / "office")
    made = a.meshsec("fleet", "init", "rescue", "--directory", office).stdout
    fleet = next(line.split()[-1] for line in made.splitlines() if line.startswith("fleet"))
    a.meshsec("fleet", "join", fleet)
    with Browser(a.namespace) as browser, signing(a, office) as command:
        browser.open("http://localhost:8269/")
        own = assert_shown_without_a_login(browser, a)
        assert_a_plain_login_refuses_alone(browser, a)
        browser.open(command.address)
        press(browser, a, "Approve")
        press(browser, a, "They are the same")
        said(browser, "a is a member of rescue")
        assert command.line("a is a member").endswith(own)

        for node in (b, c, d):
            node.meshsec("fleet", "join", fleet)
        asks(browser, b)
        press(browser, b, "Approve")
        show(browser, photos.photo(tmp_path / "c.jpg", qr_of(c)))
        said(browser, "the card of c, and not that of b")
        assert_refuses_bad_photos(browser, tmp_path)
        assert "b" not in states(a)
        show(browser, photos.photo(tmp_path / "b.jpg", qr_of(b), dark_text=True))
        said(browser, "the card of b, which asks to join")
        assert_accessible(browser)
        press(browser, b, "Approve")
        said(browser, "b is a member of rescue")
        b.wait_protected(a, 60)

        asks(browser, c)
        press(browser, c, "Approve")
        assert words_of(c) in browser.run(f"{ENTRY} return entry.querySelector('fieldset').innerText", "c")
        press(browser, c, "They are the same")
        said(browser, "c is a member of rescue")
        for one, other in ((c, a), (c, b), (b, c)):
            one.wait_protected(other, 90)

        asks(browser, d)
        command.interrupt()
        press(browser, d, "Approve")
        press(browser, d, "They are the same")
        said(browser, "nobody signs")
        press(browser, d, "Refuse")
        browser.do(lambda driver: driver.switch_to.alert.accept())
        said(browser, "d is refused")
        browser.wait("return document.querySelector('#requests').innerText.includes('No node asks to join')")
        assert a.control.ask("join_requests")["requests"] == []
        assert_a_photo_adds_a_peer(browser, a, d, tmp_path)
        assert browser.run("return window.ran") is None
        assert all("409" in one for one in browser.complaints())


def test_hostile_names_of_nodes_that_ask_are_text() -> None:
    with Lab("page-asked", [("a", "b")]) as lab:
        lab.set_up({"a": Options(page={})})
        a, made = lab["a"], answers()
        made["join_requests"]["requests"] = [
            {
                **dict.fromkeys(("fleet", "via", "namesake", "address"), HOSTILE),
                "fleet_key": "11" * 32,
                "fingerprint": f"{number:064}",
                "name": name,
                "words": NAMES,
                "networks": NAMES,
                "waiting": number,
            }
            for number, name in enumerate(NAMES)
        ]
        with answering(a.run_directory / "view.sock", made), Browser(a.namespace) as browser:
            a.daemons.page.start()
            a.daemons.page.wait_ready()
            browser.open("http://localhost:8269/")
            browser.wait("return document.querySelectorAll('#requests li').length === arguments[0]", len(NAMES))
            names = browser.run("return [...document.querySelectorAll('#requests h3')].map((one) => one.textContent)")
            assert names == NAMES
            assert browser.run("return document.querySelectorAll('img, #page script').length") == 0
            assert browser.run("return window.ran") is None
            assert browser.complaints() == []


def assert_shown_without_a_login(browser: Browser, a: Node) -> str:
    """Return the six words of the node itself, which nobody can approve yet."""
    asks(browser, a)
    loaded = browser.run("return performance.getEntriesByType('resource').map((one) => one.name).join()")
    assert "page.js" in loaded
    assert "photo.js" not in loaded, "what reads photos is loaded with the first of them"
    assert browser.run("return document.querySelectorAll('#requests :is(button, input)').length") == 0
    own = words_of(a)
    assert browser.run(f"{ENTRY} return entry.querySelector('.spoken').innerText", a.name) == own
    return own


def assert_a_plain_login_refuses_alone(browser: Browser, a: Node) -> None:
    browser.open(json.loads(a.meshsec("page", "login", "--json").stdout)["local"])
    browser.wait(f"{ENTRY} return entry?.innerText.includes('meshsec page login --approve')", a.name)
    assert [one.split()[0] for one in browser.run(f"{ENTRY} {LABELS} return labels", a.name)] == ["Refuse"]


def assert_a_photo_adds_a_peer(browser: Browser, a: Node, d: Node, directory: Path) -> None:
    show(browser, photos.photo(directory / "d.jpg", qr_of(d)))
    said(browser, "the card of d, which does not ask to join")
    assert "d" not in states(a)
    browser.run("document.querySelector('#requests > .buttons button').click()")
    said(browser, "d is a peer now")
    assert a.control.peer("d")["address"] == d.address


def assert_refuses_bad_photos(browser: Browser, directory: Path) -> None:
    (directory / "text.png").write_text("<svg onload='window.ran=1'/>")
    shutil.copy(photos.without_code(directory / "nothing.jpg"), directory / "long.jpg")
    os.truncate(directory / "long.jpg", 33 << 20)
    bad = {
        photos.photo(directory / "hostile.jpg", photos.of_text(HOSTILE)): "is no node's card",
        photos.photo(directory / "near.jpg", photos.of_text("MESHSEC1" + "QPZRY9X8" * 10)): "checksum",
        str(directory / "nothing.jpg"): "no QR code is found",
        str(directory / "long.jpg"): "33 MB; allowed: 32",
        photos.bomb(directory / "bomb.png"): "30000 x 30000 pixels; allowed",
        photos.huge_jpeg(directory / "huge.jpg"): "65535 x 65535 pixels; allowed",
        photos.damaged(directory / "damaged.png"): "damaged",
        str(directory / "text.png"): "allowed: JPEG and PNG",
    }
    for path, refusal in bad.items():
        show(browser, path)
        said(browser, refusal)


def assert_accessible(browser: Browser) -> None:
    for dark, width in ((False, 1100), (True, 390)):
        browser.look(dark=dark, width=width, height=900)
        browser.run("document.querySelector('#requests').scrollIntoView()")
        browser.picture(BUILD / "page-pictures" / f"join-{width}.png")
        browser.run(AXE.read_text())
        found = browser.do(
            lambda driver: driver.execute_async_script("axe.run().then((found) => arguments[0](found.violations))")
        )
        assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}] == []
        assert browser.run("return document.documentElement.scrollWidth") <= width
