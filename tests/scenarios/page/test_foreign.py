"""What other pages, and what would be put into this one, can do in a real browser."""

import json
from pathlib import Path
from urllib.parse import quote

from tests.lab.lab import Lab
from tests.lab.node.node import Node
from tests.lab.observe.browser import Browser
from tests.scenarios.page.browsing import address_of, serving


def test_a_foreign_page_that_knows_the_secret_of_a_login_changes_nothing(
    mesh: Lab, on_the_ridge: Browser, foreign: Path
) -> None:
    """The node refuses by itself what a browser sends, also what no page sees. The control: the page itself may."""
    ridge, base = mesh["ridge"], mesh["base"]
    session = logged_in(base, on_the_ridge)
    with serving(ridge, foreign):
        on_the_ridge.statuses("")
        on_the_ridge.open(f"http://[::1]:8000/#{quote(f'{address_of(base)} {session}')}")
        on_the_ridge.wait("return document.title.includes(',')")
        assert (
            on_the_ridge.run("return document.title") == "blind: blocked, json: blocked, look: blocked, text: blocked"
        )
    assert on_the_ridge.statuses(address_of(base)) == REFUSED
    assert base.control.peer("ridge")["state"] == "protected"
    on_the_ridge.open(address_of(base))
    assert changed(on_the_ridge, session, {"method": "peer_remove", "params": {"name": "nobody"}}) == 409
    on_the_ridge.run("sessionStorage.clear()")
    on_the_ridge.complaints()


REFUSED = [("GET", 403), ("OPTIONS", 403), ("OPTIONS", 403), ("POST", 0), ("POST", 0), ("POST", 403)]
"""How the node answers. Two changes are not sent, because it refused to have them. The blind one has no secret."""


def logged_in(node: Node, browser: Browser) -> str:
    """Log in as an operator does. Return the secret of the login, which no foreign page could find out."""
    browser.open("about:blank")
    browser.open(json.loads(node.meshsec("page", "login", "--json").stdout)["mesh"])
    return str(browser.wait("return sessionStorage.getItem('session')"))


def changed(browser: Browser, session: str, body: object) -> int:
    """Return the status of a change that the shown page asks for: 409 where meshsecd was asked, about nobody."""
    ask = """
        const headers = { "Content-Type": "application/json", Authorization: `Bearer ${arguments[0]}` };
        const body = JSON.stringify(arguments[1]);
        return fetch("/api/change", { method: "POST", headers, body }).then((answer) => answer.status);
    """
    return int(browser.run(ask, session, body))


def test_a_name_that_an_attacker_makes_lead_here_is_refused(mesh: Lab) -> None:
    """DNS rebinding: for the browser, what answers is the attacker's own page. The control: this node's own name."""
    base = mesh["base"]
    rules = f"host-resolver-rules=MAP * [{base.address}]"
    with Browser(mesh["ridge"].namespace, rules) as rebound:
        session = logged_in(base, rebound)
        for name in ("evil.example", "base", "base.example", "base.mesh.evil.example", "ford.mesh"):
            rebound.open(f"http://{name}:8269/")
            assert "bad_host" in rebound.run("return document.body.innerText"), name
            assert changed(rebound, session, REMOVE) == 421, name
            assert rebound.run("return fetch('/api/document').then((answer) => answer.status)") == 421
        assert base.control.peer("ridge")["state"] == "protected"
        rebound.open("http://base.mesh:8269/")
        rebound.wait("return document.querySelectorAll('#peers tbody tr').length")
        assert changed(rebound, session, {"method": "peer_remove", "params": {"name": "nobody"}}) == 409


REMOVE = {"method": "peer_remove", "params": {"name": "ridge"}}


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
