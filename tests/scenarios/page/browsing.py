"""What the tests of the page do with a browser."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tests.lab.basics.places import BUILD, REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.node.node import Node
from tests.lab.observe.browser import Browser

PICTURES = REPOSITORY / "docs/guide/images" if os.environ.get("MESHSEC_PICTURES") else BUILD / "page-pictures"
"""Where pictures go. With the variable they are those of the documents."""
FOREIGN = """\
<!doctype html><title>foreign</title><script>
const [target, session] = decodeURIComponent(location.hash.slice(1)).split(" ");
const said = [];
const say = (name, what) => said.push(`${name}: ${what}`);
const tried = (name, answer) => answer.then((got) => say(name, got.status), () => say(name, "blocked"));
const body = JSON.stringify({ method: "peer_remove", params: { name: "ridge" } });
const secret = { Authorization: `Bearer ${session}` };
const json = { "Content-Type": "application/json", ...secret };
if (target) Promise.all([
  tried("look", fetch(`${target}/api/document`)),
  tried("json", fetch(`${target}/api/change`, { method: "POST", headers: json, body })),
  tried("text", fetch(`${target}/api/change`, { method: "POST", headers: secret, body })),
  tried("blind", fetch(`${target}/api/change`, { method: "POST", mode: "no-cors", headers: json, body })),
]).then(() => { document.title = said.sort().join(", "); });
</script>"""
"""A page of somebody else's. Behind # are the address that it attacks and the secret of a login there."""


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


def address_of(node: Node, port: int = 8269) -> str:
    return f"http://[{node.address}]:{port}"


@contextmanager
def serving(node: Node, directory: Path) -> Iterator[None]:
    """Serve a page that is not the node's."""
    argv = ["python3", "-m", "http.server", "--bind", "::", "--directory", str(directory), "8000"]
    server = Daemon("foreign", node.namespace, argv, logs=node.logs, sockets=node.run_directory, notifies=False)
    server.start()
    ask = "import urllib.request as u; u.urlopen('http://[::1]:8000/')"
    try:
        node.wait_for("the page", lambda: node.run("python3", "-c", ask, check=False).returncode == 0, 30)
        yield
    finally:
        server.kill()
